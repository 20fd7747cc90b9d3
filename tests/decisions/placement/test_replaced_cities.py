"""What serves is deleted only once what replaces it is Available."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions.placement import PlacementPlan, decide_placement
from datum_compute.decisions.rollup.workload import decide_workload_status
from tests.support.decisions.builders import binding, condition, deployment, workload

CITIES = ("DFW", "IAD", "JFK", "LHR")
SERVES = condition("Available", "True")
UNREACHABLE = condition("CellReachable", "False")


def plan(
    cities: Sequence[str], *deployments: compute.WorkloadDeployment, minimum: int = 1
) -> PlacementPlan:
    return decide_placement(
        workload=workload(minimum=minimum, default=cities),
        bindings=[binding(city) for city in CITIES],
        deployments=deployments,
    )


def removed(city: str = "LHR", *awaited: str) -> compute.WorkloadDeployment:
    """A deployment whose city the spec no longer names, with what is recorded on it."""
    recorded = {compute.ANNOTATION_REPLACED_BY: ",".join(f"default/{each}" for each in awaited)}
    return deployment(city, conditions=[SERVES], annotations=recorded if awaited else None)


def test_a_removed_city_stays_until_the_city_added_with_it_is_available() -> None:
    dfw = deployment("DFW", conditions=[SERVES])

    first = plan(["DFW", "IAD"], dfw, removed())
    assert [(each.deployment.spec.city_code, each.replaced_by) for each in first.kept] == [
        ("LHR", "default/IAD")
    ]
    assert first.orphans == ()

    pending = plan(["DFW", "IAD"], dfw, deployment("IAD"), removed("LHR", "IAD"))
    assert [each.replaced_by for each in pending.kept] == ["default/IAD"]

    serving = deployment("IAD", conditions=[SERVES])
    done = plan(["DFW", "IAD"], dfw, serving, removed("LHR", "IAD"))
    assert done.kept == ()
    assert [each.spec.city_code for each in done.orphans] == ["LHR"]


def test_a_city_that_is_only_removed_goes_at_once() -> None:
    """Also while another, added by an earlier change, is not Available yet."""
    found = plan(["DFW", "IAD"], deployment("DFW"), deployment("IAD"), removed())

    assert (found.kept, [each.spec.city_code for each in found.orphans]) == ((), ["LHR"])


def test_a_city_whose_replacement_is_given_up_goes_at_once() -> None:
    found = plan(["DFW"], deployment("DFW"), deployment("IAD"), removed("LHR", "IAD"))

    assert found.kept == ()
    assert [each.spec.city_code for each in found.orphans] == ["IAD", "LHR"]


def test_a_removed_city_waits_for_the_replacement_of_its_replacement() -> None:
    found = plan(["DFW", "JFK"], deployment("DFW"), deployment("IAD"), removed("LHR", "IAD"))

    assert [(each.deployment.spec.city_code, each.replaced_by) for each in found.kept] == [
        ("IAD", "default/JFK"),
        ("LHR", "default/JFK"),
    ]


def test_a_replacement_that_was_available_once_is_not_awaited_again() -> None:
    added = (deployment("IAD", conditions=[SERVES]), deployment("JFK"))
    found = plan(["IAD", "JFK"], *added, removed("LHR", "IAD", "JFK"))
    assert [each.replaced_by for each in found.kept] == ["default/JFK"]

    again = plan(["IAD", "JFK"], deployment("IAD"), added[1], removed("LHR", "JFK"))
    assert [each.replaced_by for each in again.kept] == ["default/JFK"]


def test_a_cell_that_does_not_answer_is_no_replacement() -> None:
    silent = deployment("IAD", conditions=[SERVES, UNREACHABLE])

    assert plan(["IAD"], silent, removed("LHR", "IAD")).kept
    assert not plan(["IAD"], silent, removed("LHR")).kept


def test_a_replacement_without_instances_is_not_awaited() -> None:
    assert plan(["IAD"], removed(), minimum=0).kept == ()
    assert plan(["IAD"], deployment("IAD"), removed("LHR", "IAD"), minimum=0).kept == ()


def test_a_replacement_without_a_location_is_awaited() -> None:
    """Locations may not have been read yet: that is no reason to stop what serves."""
    found = decide_placement(
        workload=workload(default=["IAD"]), bindings=[], deployments=[removed()]
    )

    assert [each.replaced_by for each in found.kept] == ["default/IAD"]


def test_the_second_of_two_deployments_for_a_city_is_not_kept() -> None:
    twice = deployment("DFW", name="older")

    found = plan(["DFW", "IAD"], deployment("DFW"), twice)

    assert (found.kept, found.orphans) == ((), (twice,))


@pytest.mark.parametrize("value", ["", "IAD", "/", ",,", "default/", "other/IAD"])
def test_a_record_that_cannot_be_read_holds_nothing_back(value: str) -> None:
    marked = deployment("LHR", annotations={compute.ANNOTATION_REPLACED_BY: value})

    assert plan(["IAD"], deployment("IAD"), marked).kept == ()


def test_the_workload_says_what_stays_until_when() -> None:
    cities = [deployment("IAD"), removed("LHR", "IAD")]
    found = plan(["IAD"], *cities)
    now = datetime(2026, 3, 4, tzinfo=UTC)

    status = decide_workload_status(workload(default=["IAD"]), cities, plan=found, now=now)

    assert "LHR stays until IAD is Available" in status.conditions[0].message


STATES = st.sampled_from([(), (SERVES,), (UNREACHABLE,), (SERVES, UNREACHABLE)])
SUBSETS = st.lists(st.sampled_from(CITIES), unique=True)


@given(
    named=st.lists(st.sampled_from(CITIES), unique=True, min_size=1),
    existing=SUBSETS,
    states=st.lists(STATES, min_size=len(CITIES), max_size=len(CITIES)),
    records=st.lists(SUBSETS, min_size=len(CITIES), max_size=len(CITIES)),
)
def test_a_deployment_is_wanted_kept_or_deleted_and_kept_only_for_what_is_missing(
    named: list[str],
    existing: list[str],
    states: list[tuple[object, ...]],
    records: list[list[str]],
) -> None:
    deployments = [
        deployment(
            city,
            conditions=states[i],  # type: ignore[arg-type]  # a tuple of conditions
            annotations={
                compute.ANNOTATION_REPLACED_BY: ",".join(f"default/{each}" for each in records[i])
            },
        )
        for i, city in enumerate(CITIES)
        if city in existing
    ]

    found = plan(named, *deployments)

    gone = {each.spec.city_code for each in found.orphans}
    kept = {each.deployment.spec.city_code for each in found.kept}
    assert gone.isdisjoint(kept)
    assert gone | kept == set(existing) - set(named)
    serving = {each.spec.city_code for each in deployments if each.status.conditions == (SERVES,)}
    for each in found.kept:
        awaited = {city for _, city in each.awaited}
        assert awaited
        assert awaited <= set(named) - serving
    if gone:
        assert set(named) <= set(existing), "nothing goes while an added city does not exist"


@given(st.lists(st.tuples(SUBSETS.filter(bool), SUBSETS), min_size=1, max_size=6))
def test_a_city_serves_at_every_moment_of_any_sequence_of_changes(
    changes: list[tuple[list[str], list[str]]],
) -> None:
    """Each change names cities, and some of those then become Available: from the first that
    serves on, there is always one, unless a change only removes."""
    found: dict[str, compute.WorkloadDeployment] = {}
    for named, available in changes:
        only_removes = set(named) <= set(found)
        for city in available:
            if city in found:
                found[city] = deployment(
                    city, conditions=[SERVES], annotations=found[city].metadata.annotations
                )
        served = any(each.status.conditions for each in found.values())
        decided = plan(named, *found.values())
        for each in decided.kept:
            city = each.deployment.spec.city_code
            found[city].metadata.annotations[compute.ANNOTATION_REPLACED_BY] = each.replaced_by
        for wanted in decided.wanted:
            new = found.setdefault(wanted.city, deployment(wanted.city))
            new.metadata.annotations.pop(compute.ANNOTATION_REPLACED_BY, None)
        for orphan in decided.orphans:
            del found[orphan.spec.city_code]
        if served and not only_removes:
            assert any(each.status.conditions for each in found.values())
