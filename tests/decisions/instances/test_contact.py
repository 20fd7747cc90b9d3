"""What a disconnected cell may do, and what it sweeps after reconnecting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import ObjectMeta
from datum_compute.api.quota import v1alpha1 as quota_api
from datum_compute.decisions import connectivity, quota
from datum_compute.decisions.connectivity import FinalizerRelease, Orphans, PlaneReachability
from datum_compute.decisions.instances.gates import gates_for_new, may_clear_gate
from datum_compute.decisions.instances.ordered_ready import decide_instances
from datum_compute.decisions.instances.plan import Create, Delete, DeleteReason, InstancePlan
from datum_compute.decisions.quota import Size
from tests.support.decisions.builders import DEPLOYMENT, condition, deployment, instance

HUB = compute.FINALIZER_INSTANCE
CLAIM = compute.FINALIZER_QUOTA_CLAIM
SIZE = Size(1000, 2048)
contacts = st.sampled_from(PlaneReachability)


@pytest.mark.parametrize(
    ("code", "judged"),
    [
        (None, PlaneReachability.UNREACHABLE),
        (502, PlaneReachability.UNREACHABLE),
        (503, PlaneReachability.UNREACHABLE),
        (504, PlaneReachability.UNREACHABLE),
        (500, PlaneReachability.REFUSED),
        (501, PlaneReachability.REFUSED),
        (505, PlaneReachability.REFUSED),
        *(
            (code, PlaneReachability.REFUSED)
            for code in (400, 401, 403, 404, 405, 409, 410, 422, 429)
        ),
    ],
)
def test_only_a_transport_failure_counts_as_unreachable(
    code: int | None, judged: PlaneReachability
) -> None:
    assert connectivity.classify_failure(code) is judged


@pytest.mark.parametrize(
    ("hub", "project", "release"),
    [
        (
            PlaneReachability.ANSWERED,
            PlaneReachability.ANSWERED,
            FinalizerRelease((HUB, CLAIM), ()),
        ),
        (
            PlaneReachability.NOT_USED,
            PlaneReachability.NOT_USED,
            FinalizerRelease((HUB, CLAIM), ()),
        ),
        (
            PlaneReachability.UNREACHABLE,
            PlaneReachability.UNREACHABLE,
            FinalizerRelease((HUB, CLAIM), ()),
        ),
        (
            PlaneReachability.UNREACHABLE,
            PlaneReachability.ANSWERED,
            FinalizerRelease((HUB, CLAIM), ()),
        ),
        (
            PlaneReachability.ANSWERED,
            PlaneReachability.UNKNOWN,
            FinalizerRelease((HUB, CLAIM), ()),
        ),
        (
            PlaneReachability.REFUSED,
            PlaneReachability.ANSWERED,
            FinalizerRelease((CLAIM,), (HUB,)),
        ),
        (
            PlaneReachability.REFUSED,
            PlaneReachability.UNREACHABLE,
            FinalizerRelease((CLAIM,), (HUB,)),
        ),
        (
            PlaneReachability.UNREACHABLE,
            PlaneReachability.REFUSED,
            FinalizerRelease((HUB,), (CLAIM,)),
        ),
        (
            PlaneReachability.REFUSED,
            PlaneReachability.REFUSED,
            FinalizerRelease((), (HUB, CLAIM)),
        ),
    ],
)
def test_which_finalizers_are_removed(
    hub: PlaneReachability, project: PlaneReachability, release: FinalizerRelease
) -> None:
    assert connectivity.decide_release(hub=hub, project=project) == release


@given(contacts, contacts)
def test_a_finalizer_is_kept_exactly_where_its_plane_refused(
    hub: PlaneReachability, project: PlaneReachability
) -> None:
    release = connectivity.decide_release(hub=hub, project=project)

    assert (HUB in release.kept) == (hub is PlaneReachability.REFUSED)
    assert (CLAIM in release.kept) == (project is PlaneReachability.REFUSED)
    assert sorted((*release.released, *release.kept)) == sorted((HUB, CLAIM))


@given(contacts, contacts)
def test_rolls_are_held_while_hub_or_project_is_unreachable(
    hub: PlaneReachability, project: PlaneReachability
) -> None:
    held = connectivity.decide_hold(hub=hub, project=project)

    away = hub is PlaneReachability.UNREACHABLE or project is PlaneReachability.UNREACHABLE
    assert held == ("CellDisconnected" if away else "")


CUT_OFF = connectivity.decide_hold(
    hub=PlaneReachability.UNREACHABLE, project=PlaneReachability.UNREACHABLE
)


def plan(desired: int, instances: Sequence[compute.Instance], hold: str = CUT_OFF) -> InstancePlan:
    return decide_instances(
        deployment_name=DEPLOYMENT,
        desired=desired,
        template_hash="new",
        labels_for=lambda ordinal: {compute.LABEL_INSTANCE_INDEX: str(ordinal)},
        instances=instances,
        hold_rolls=hold,
    )


any_instance = st.builds(
    instance,
    st.integers(0, 6),
    ready=st.booleans(),
    hash=st.sampled_from(["old", "new"]),
    deleting=st.booleans(),
)
any_instances = st.lists(any_instance, max_size=7, unique_by=lambda each: each.metadata.name)


@given(any_instances, st.integers(0, 6))
def test_a_disconnected_cell_replaces_nothing(found: list[compute.Instance], desired: int) -> None:
    replacing = (DeleteReason.RECREATE, DeleteReason.REPLACE_UNREADY)

    decided = plan(desired, found)

    steps = (*decided.actions, *decided.queued)
    assert not [each for each in steps if isinstance(each, Delete) and each.reason in replacing]
    assert {each.reason for each in decided.held} <= {"CellDisconnected"}


@given(any_instances, st.integers(0, 6))
def test_every_held_action_is_planned_once_connected(
    found: list[compute.Instance], desired: int
) -> None:
    disconnected, connected = plan(desired, found), plan(desired, found, "")

    held = [each.step for each in disconnected.held]
    assert set(held) <= {*connected.actions, *connected.queued}


@pytest.mark.parametrize("hash", ["old", "new"])
def test_a_disconnected_cell_scales_down(hash: str) -> None:
    decided = plan(1, [instance(0, hash=hash), instance(1, hash=hash), instance(2, hash=hash)])

    assert [
        (each.ordinal, each.reason) for each in decided.actions if isinstance(each, Delete)
    ] == [(2, DeleteReason.SCALE_DOWN)]


def test_a_disconnected_cell_drains() -> None:
    decided = plan(0, [instance(0, hash="old"), instance(1)])

    assert [each.name for each in decided.actions] == [f"{DEPLOYMENT}-0", f"{DEPLOYMENT}-1"]


def test_a_disconnected_cell_creates_new_instances_that_wait_at_the_gate() -> None:
    decided = plan(2, [instance(0)])
    assert [each for each in decided.actions if isinstance(each, Create)] == [
        Create(1, f"{DEPLOYMENT}-1")
    ]

    gates = gates_for_new(compute.InstanceTemplate(), networks_ready=True)
    unanswered = quota.decide_quota(None, None)
    given = [condition("QuotaGranted", unanswered.status, unanswered.reason)]
    new = instance(1, gates=gates, conditions=given)
    assert gates == ("Quota",)
    assert not may_clear_gate(new, "Quota", tuple(given))


def sized(minimum: int, *, size: Size = SIZE, deleting: bool = False) -> Any:
    of = deployment(minimum=minimum, deleting=deleting)
    template = compute.InstanceTemplate(spec=spec_of(size))
    return msgspec.structs.replace(of, spec=msgspec.structs.replace(of.spec, template=template))


def spec_of(size: Size) -> compute.InstanceSpec:
    limits = {"cpu": f"{size.millicores}m", "memory": f"{size.mebibytes}Mi"}
    container = {"name": "app", "resources": {"limits": limits}}
    return msgspec.convert(
        {"runtime": {"sandbox": {"containers": [container]}}}, compute.InstanceSpec
    )


def claim(
    name: str = f"instance-{DEPLOYMENT}-1",
    *,
    size: Size = SIZE,
    cluster: str = "dfw",
    namespace: str = "ns-1",
) -> quota_api.ResourceClaim:
    labels = {
        compute.LABEL_SOURCE_CLUSTER: cluster,
        compute.LABEL_INSTANCE_NAMESPACE: namespace,
    }
    return quota_api.ResourceClaim(
        metadata=ObjectMeta(name=name, labels=labels),
        spec=quota_api.ResourceClaimSpec(
            requests=tuple(
                quota_api.ClaimRequest(resource_type=kind, amount=amount)
                for kind, amount in size.requests().items()
            )
        ),
    )


def leaving(ordinal: int | None, size: Size = SIZE) -> compute.Instance:
    name = f"{DEPLOYMENT}-{ordinal}" if ordinal is not None else "who"
    return msgspec.structs.replace(instance(ordinal, name=name), spec=spec_of(size))


@pytest.mark.parametrize(
    ("gone", "deployment_", "kept"),
    [
        (leaving(1), sized(2), True),
        (leaving(1), sized(1), False),
        (leaving(1), sized(2, size=Size(2000, 2048)), False),
        (leaving(1), sized(2, deleting=True), False),
        (leaving(1), None, False),
        (leaving(None), sized(2), False),
    ],
    ids=["wanted", "scaled down", "resized", "deployment leaves", "no deployment", "stray"],
)
def test_the_claim_of_a_deleted_instance_is_kept_for_its_replacement(
    gone: compute.Instance, deployment_: compute.WorkloadDeployment | None, kept: bool
) -> None:
    assert connectivity.is_claim_kept(gone, deployment_) is kept


OWN = {compute.LABEL_SOURCE_CLUSTER: "dfw"}
OTHERS = {compute.LABEL_SOURCE_CLUSTER: "iad"}


@pytest.mark.parametrize(
    ("copy", "found", "deployment_", "left"),
    [
        (None, None, None, Orphans()),
        (OWN, None, None, Orphans(copy=True)),
        (OWN, None, sized(2), Orphans(copy=True)),
        (OTHERS, None, None, Orphans()),
        ({}, None, None, Orphans()),
        (None, claim(), None, Orphans(claim=True)),
        (None, claim(), sized(2), Orphans()),
        (None, claim(), sized(1), Orphans(claim=True)),
        (None, claim(), sized(2, deleting=True), Orphans(claim=True)),
        (None, claim(size=Size(500, 2048)), sized(2), Orphans(claim=True)),
        (None, claim(cluster="iad"), None, Orphans()),
        (None, claim(namespace="ns-2"), None, Orphans()),
        (None, claim(name=f"instance-{DEPLOYMENT}-x"), sized(2), Orphans(claim=True)),
        (OWN, claim(), sized(1), Orphans(copy=True, claim=True)),
    ],
)
def test_which_objects_are_swept_on_reconnect(
    copy: dict[str, str] | None,
    found: quota_api.ResourceClaim | None,
    deployment_: compute.WorkloadDeployment | None,
    left: Orphans,
) -> None:
    swept = connectivity.decide_sweep(
        source_cluster="dfw", namespace="ns-1", copy=copy, claim=found, deployment=deployment_
    )

    assert swept == left
    assert bool(swept) == (swept.copy or swept.claim)
