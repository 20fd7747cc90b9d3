"""Which Instance may claim next when an exceeded budget has room again."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.decisions.claim_order import may_claim_next
from tests.support.decisions.builders import NOW, bucket, instance

PLENTY = 10**9


def waiter(
    ordinal: int | None,
    *,
    millicores: int = 1000,
    waited: int | None = 0,
    of: str = "web",
    deleting: bool = False,
    labelled: bool = True,
) -> compute.Instance:
    """``waited``: seconds since it was created; None for an Instance without an age."""
    name = f"{of}-{ordinal}" if ordinal is not None else f"{of}-x"
    limits = {"cpu": f"{millicores}m", "memory": "1Gi"}
    spec = {
        "runtime": {"sandbox": {"containers": [{"name": "a", "resources": {"limits": limits}}]}}
    }
    labels = {compute.LABEL_WORKLOAD_DEPLOYMENT_NAME: of}
    if labelled and ordinal is not None:
        labels[compute.LABEL_INSTANCE_INDEX] = str(ordinal)
    made = instance(ordinal, name=name, labels=labels, deleting=deleting)
    return msgspec.structs.replace(
        made,
        metadata=msgspec.structs.replace(made.metadata, creation_timestamp=_created(waited)),
        spec=msgspec.convert(spec, compute.InstanceSpec),
    )


def _created(waited: int | None) -> datetime | None:
    return None if waited is None else NOW - timedelta(seconds=waited)


def room(millicores: int) -> list[quota.AllowanceBucket]:
    return [bucket("instances", PLENTY), bucket("memory", PLENTY), bucket("vcpus", millicores)]


def admitted(waiting: list[compute.Instance], millicores: int) -> list[str]:
    buckets = room(millicores)
    return [
        each.metadata.name
        for each in waiting
        if may_claim_next(each, waiting, buckets, project="demo")
    ]


@pytest.mark.parametrize(
    ("waiting", "millicores", "names"),
    [
        ([waiter(1), waiter(0)], 1000, ["web-0"]),
        ([waiter(1), waiter(0)], 1999, ["web-0"]),
        ([waiter(1), waiter(0)], 2000, ["web-1", "web-0"]),
        ([waiter(10), waiter(9, labelled=False)], 1000, ["web-9"]),
        ([waiter(0, of="a"), waiter(0, of="b", waited=1)], 1000, ["b-0"]),
        ([waiter(0, of="b"), waiter(0, of="a")], 1000, ["a-0"]),
        ([waiter(0, of="a", waited=None), waiter(0, of="b")], 1000, ["b-0"]),
        ([waiter(None), waiter(7)], 1000, ["web-7"]),
        ([waiter(0, deleting=True), waiter(1)], 1000, ["web-1"]),
        ([waiter(0, millicores=1500), waiter(1)], 1000, ["web-1"]),
        ([waiter(0, millicores=1500), waiter(1)], 2000, ["web-0"]),
        ([waiter(0)], 999, []),
    ],
    ids=[
        "lowest first",
        "no room for the second",
        "room for both",
        "by number, from the name if need be",
        "then the oldest",
        "then by name",
        "one without an age is the youngest",
        "one without an ordinal comes last",
        "one that goes asks for nothing",
        "one that does not fit is passed over",
        "one that fits leaves the rest",
        "no room",
    ],
)
def test_which_denied_instances_claim_again(
    waiting: list[compute.Instance], millicores: int, names: list[str]
) -> None:
    assert admitted(waiting, millicores) == names


@pytest.mark.parametrize(
    ("buckets", "turn"),
    [
        (room(1000), True),
        (room(1000)[1:], False),
        ([], False),
        ([bucket("instances", 0), *room(1000)[1:]], False),
        ([*room(1000)[:2], bucket("vcpus", 1000, "other")], False),
        ([*room(1000)[:2], bucket("vcpus", 1000, kind="Organization")], False),
    ],
)
def test_a_retry_needs_room_in_every_bucket_of_the_project(
    buckets: list[quota.AllowanceBucket], turn: bool
) -> None:
    only = waiter(0)

    assert may_claim_next(only, [only], buckets, project="demo") is turn


def test_an_instance_of_unknown_size_counts_as_one_instance() -> None:
    counted = msgspec.structs.replace(waiter(0), spec=compute.InstanceSpec())
    sized = waiter(1)

    assert may_claim_next(sized, [counted, sized], room(1000), project="demo")
    assert not may_claim_next(
        sized, [counted, sized], [bucket("instances", 1), *room(1000)[1:]], project="demo"
    )


def test_an_instance_that_is_not_in_the_cache_does_not_claim_again() -> None:
    assert not may_claim_next(waiter(0), [waiter(1)], room(PLENTY), project="demo")


waiters = st.lists(
    st.builds(
        waiter,
        st.integers(0, 3),
        millicores=st.sampled_from([500, 1000, 2000]),
        waited=st.integers(0, 3),
        of=st.sampled_from(["a", "b", "c"]),
    ),
    max_size=6,
    unique_by=lambda each: each.metadata.name,
)


@given(waiters, st.integers(0, 8000), st.randoms(use_true_random=False))
def test_retries_chosen_independently_do_not_exceed_the_limit(
    waiting: list[compute.Instance], millicores: int, random: Random
) -> None:
    shuffled = list(waiting)
    random.shuffle(shuffled)

    chosen = admitted(waiting, millicores)

    assert sorted(admitted(shuffled, millicores)) == sorted(chosen)
    sizes = {each.metadata.name: _millicores(each) for each in waiting}
    used = sum(sizes[name] for name in chosen)
    assert used <= millicores
    left_out = [size for name, size in sizes.items() if name not in chosen]
    assert all(size > millicores - used for size in left_out)


def _millicores(instance: compute.Instance) -> int:
    sandbox = instance.spec.runtime.sandbox
    assert sandbox is not None
    resources = sandbox.containers[0].resources
    assert resources is not None
    return int(str(resources.limits["cpu"]).removesuffix("m"))
