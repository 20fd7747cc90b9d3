"""The status of a workload and its placements, from its deployments."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Condition
from datum_compute.decisions.placement import PlacementPlan, UnservedCity, WantedDeployment
from datum_compute.decisions.rollup.workload import decide_workload_status
from tests.support.decisions.builders import NOW, condition, deployment, workload

UP = condition("Available", "True", "StableInstanceFound")
DOWN = condition("Available", "False", "ProvisioningInstances")


def behind(reason: str, message: str) -> Condition:
    return condition("ReplicasReady", "False", reason, message)


def decide(
    *deployments: compute.WorkloadDeployment,
    of: compute.Workload | None = None,
    plan: PlacementPlan | None = None,
    missing_networks: tuple[str, ...] = (),
) -> compute.WorkloadStatus:
    return decide_workload_status(
        of or workload(default=["DFW", "IAD"]),
        deployments,
        plan=plan or PlacementPlan(),
        now=NOW,
        missing_networks=missing_networks,
    )


def available(found: tuple[Condition, ...]) -> tuple[str, str, str]:
    one = conditions.find(found, "Available")
    assert one is not None
    return one.status, one.reason, one.message


def test_counters_of_deployments_are_summed() -> None:
    status = decide(
        deployment(
            "DFW",
            replicas=2,
            updated_replicas=1,
            current_replicas=1,
            desired_replicas=2,
            ready_replicas=2,
            observed_generation=1,
        ),
        deployment(
            "LHR",
            placement="backup",
            replicas=1,
            updated_replicas=1,
            desired_replicas=1,
            ready_replicas=1,
            observed_generation=1,
        ),
        of=workload(default=["DFW"], backup=["LHR"], generation=7),
    )

    assert status.deployments == 2
    assert (status.replicas, status.desired_replicas, status.ready_replicas) == (3, 3, 3)
    assert (status.updated_replicas, status.current_replicas) == (2, 1)
    assert status.observed_generation == 7
    assert [(each.name, each.replicas) for each in status.placements] == [
        ("backup", 1),
        ("default", 2),
    ]


def test_a_report_on_an_older_generation_counts_nothing_as_updated() -> None:
    late = deployment(
        "DFW",
        generation=2,
        observed_generation=1,
        replicas=3,
        updated_replicas=3,
        ready_replicas=3,
    )

    status = decide(late)

    assert status.updated_replicas == 0
    assert status.ready_replicas == 3


def test_one_available_deployment_makes_a_workload_available_and_others_are_reported() -> None:
    status = decide(
        deployment("DFW", conditions=[UP]),
        deployment("IAD", conditions=[DOWN, behind("QuotaExceeded", "10 of 10 used")]),
    )

    text = "Available in DFW; IAD: 10 of 10 used (QuotaExceeded)"
    assert available(status.placements[0].conditions) == ("True", "AvailableDeploymentFound", text)
    assert available(status.conditions) == ("True", "AvailablePlacementFound", f"default: {text}")


def test_no_available_deployment_reports_the_reason() -> None:
    status = decide(deployment("DFW", conditions=[DOWN, behind("ImageUnavailable", "no image")]))

    text = "DFW: no image (ImageUnavailable)"
    assert available(status.placements[0].conditions) == ("False", "NoAvailableDeployments", text)
    assert available(status.conditions) == ("False", "NoAvailablePlacements", f"default: {text}")


@pytest.mark.parametrize(
    ("type", "status", "reported"),
    [
        ("ReplicasReady", "Unknown", True),
        ("ReplicasReady", "True", False),
        ("Scheduled", "False", True),
        ("Scheduled", "Unknown", False),
        ("CellReachable", "Unknown", False),
    ],
)
def test_which_conditions_of_a_deployment_are_reported(
    type: str, status: str, reported: bool
) -> None:
    found = decide(deployment("DFW", conditions=[DOWN, condition(type, status, "Why", "so")]))

    message = "DFW: so (Why)" if reported else "No deployment is available yet"
    assert available(found.placements[0].conditions)[2] == message


def test_a_placement_without_deployments_is_reported() -> None:
    status = decide()

    assert [each.name for each in status.placements] == ["default"]
    assert available(status.conditions)[1] == "NoAvailablePlacements"


def test_a_workload_without_placements_has_none_available() -> None:
    assert available(decide(of=workload()).conditions) == (
        "False",
        "NoAvailablePlacements",
        "No placement is available yet",
    )


def test_a_city_without_an_available_location_is_the_reason() -> None:
    plan = PlacementPlan(unserved=(UnservedCity("default", "SYD"),))

    status = decide(plan=plan)

    assert available(status.placements[0].conditions)[:2] == ("False", "NoMatchingLocation")
    assert available(status.conditions) == (
        "False",
        "NoMatchingLocation",
        "default: No available location serves SYD",
    )


def test_an_unserved_city_is_reported_even_when_others_are_available() -> None:
    plan = PlacementPlan(unserved=(UnservedCity("default", "SYD"),))

    status = decide(deployment("DFW", conditions=[UP]), plan=plan)

    assert available(status.conditions)[:2] == ("True", "AvailablePlacementFound")
    assert "SYD" in available(status.conditions)[2]


def test_a_placement_has_a_condition_for_each_unserved_city_until_it_is_served() -> None:
    unserved = PlacementPlan(
        unserved=(UnservedCity("default", "syd"), UnservedCity("other", "LHR")),
    )

    status = decide(plan=unserved)
    found = status.placements[0].conditions
    again = decide(
        of=replace(workload(default=["DFW", "IAD"]), status=status), plan=PlacementPlan()
    )

    in_city = conditions.find(found, "Scheduled.SYD")
    assert in_city is not None
    assert (in_city.status, in_city.reason) == ("False", "NoMatchingLocation")
    assert [each.type for each in found] == ["Available", "Scheduled.SYD"]
    assert [each.type for each in again.placements[0].conditions] == ["Available"]


@pytest.mark.parametrize("city", ["São", "new york", "-", "", "a/b", "SYD-"])
def test_a_city_code_that_no_condition_type_allows_is_reported_without_its_own(city: str) -> None:
    status = decide(plan=PlacementPlan(unserved=(UnservedCity("default", city),)))

    found = status.placements[0].conditions
    assert [each.type for each in found] == ["Available"]
    assert available(found)[1] == "NoMatchingLocation"


def test_a_terminating_predecessor_is_the_reason() -> None:
    plan = PlacementPlan(blocked=(WantedDeployment("web-default-dfw", "default", "DFW"),))

    status = decide(plan=plan)

    assert available(status.conditions)[1] == "PreviousDeploymentTerminating"
    assert "web-default-dfw" in available(status.conditions)[2]


def test_a_city_without_a_cell_is_the_reason() -> None:
    unscheduled = condition("Scheduled", "False", "NoCellForCity", "no cell serves DFW")

    status = decide(deployment("DFW", conditions=[DOWN, unscheduled]))

    assert available(status.conditions)[1] == "NoCellForCity"


def unscheduled(reason: str) -> Condition:
    return condition("Scheduled", "False", reason, "")


@pytest.mark.parametrize(
    ("dfw", "iad", "reason"),
    [
        (behind("QuotaExceeded", ""), unscheduled("NoCellForCity"), "NoCellForCity"),
        (unscheduled("AmbiguousCell"), behind("QuotaExceeded", ""), "AmbiguousCell"),
        (behind("QuotaExceeded", ""), behind("ImageUnavailable", ""), "NoAvailableDeployments"),
    ],
)
def test_of_several_reasons_the_one_about_scheduling_is_reported(
    dfw: Condition, iad: Condition, reason: str
) -> None:
    status = decide(
        deployment("DFW", conditions=[DOWN, dfw]), deployment("IAD", conditions=[DOWN, iad])
    )

    assert available(status.placements[0].conditions)[1] == reason
    assert f"DFW: {dfw.reason} ({dfw.reason})" in available(status.conditions)[2]


def test_an_unserved_city_takes_priority_over_a_terminating_predecessor() -> None:
    unserved = UnservedCity("default", "SYD")
    blocked = WantedDeployment("web-default-dfw", "default", "DFW")
    two = workload(default=["DFW"], extra=["SYD"])

    one = decide(plan=PlacementPlan(blocked=(blocked,), unserved=(unserved,)))
    both = decide(
        of=two,
        plan=PlacementPlan(blocked=(blocked,), unserved=(UnservedCity("extra", "SYD"),)),
    )

    assert available(one.placements[0].conditions)[1] == "NoMatchingLocation"
    assert available(one.conditions)[1] == "NoMatchingLocation"
    assert [available(each.conditions)[1] for each in both.placements] == [
        "PreviousDeploymentTerminating",
        "NoMatchingLocation",
    ]
    assert available(both.conditions)[1] == "NoMatchingLocation"


def test_conditions_of_one_placement_are_not_reported_for_another() -> None:
    plan = PlacementPlan(
        blocked=(WantedDeployment("web-default-dfw", "default", "DFW"),),
        unserved=(UnservedCity("default", "SYD"),),
    )

    status = decide(of=workload(backup=["LHR"], default=["DFW", "SYD"]), plan=plan)

    assert available(status.placements[0].conditions) == (
        "False",
        "NoAvailableDeployments",
        "No deployment is available yet",
    )


def test_the_order_of_deployments_does_not_matter() -> None:
    found = [
        deployment("DFW", conditions=[DOWN, behind("QuotaExceeded", "full")]),
        deployment("IAD", conditions=[DOWN, behind("ImageUnavailable", "none")]),
        deployment("AMS", conditions=[UP]),
        deployment("LHR", conditions=[UP]),
    ]

    status = decide(*found)

    assert decide(*reversed(found)) == status
    assert available(status.placements[0].conditions)[2] == (
        "Available in AMS, LHR; DFW: full (QuotaExceeded); IAD: none (ImageUnavailable)"
    )


def test_cities_are_reported_in_alphabetical_order() -> None:
    status = decide(
        deployment("LHR", name="a", conditions=[UP]), deployment("AMS", name="b", conditions=[UP])
    )

    assert available(status.conditions)[2] == "default: Available in AMS, LHR"


def test_other_conditions_of_a_placement_are_kept_and_not_reported() -> None:
    foreign = condition("Custom", "True", "Odd", "not reported")
    before = compute.WorkloadStatus(
        placements=(compute.PlacementStatus(name="default", conditions=(foreign,)),)
    )
    of = workload(default=["DFW"])

    status = decide(
        deployment("DFW", conditions=[DOWN, behind("QuotaExceeded", "full")]),
        of=compute.Workload(metadata=of.metadata, spec=of.spec, status=before),
    )

    assert status.placements[0].conditions[0] == foreign
    assert available(status.conditions) == (
        "False",
        "NoAvailablePlacements",
        "default: DFW: full (QuotaExceeded)",
    )


def test_an_unreachable_cell_is_named_with_the_age_of_its_report() -> None:
    away = condition("CellReachable", "False", "CellUnreachable", "")

    status = decide(deployment("DFW", conditions=[UP, away]))

    assert available(status.conditions)[0] == "True"
    assert (
        "DFW: no answer from the cell since 2026-03-04T05:06:07Z at the latest"
        in (available(status.conditions)[2])
    )


def test_a_missing_network_makes_a_workload_unavailable() -> None:
    status = decide(deployment("DFW", conditions=[UP]), missing_networks=("b", "a"))

    assert available(status.conditions) == ("False", "NetworkNotFound", "Networks not found: a, b")


def test_orphans_count_until_they_are_deleted() -> None:
    orphan = deployment("LHR", placement="gone", replicas=2, deleting=True)

    status = decide(deployment("DFW", conditions=[UP]), orphan)

    assert status.deployments == 2
    assert [(each.name, each.replicas) for each in status.placements] == [
        ("default", 0),
        ("gone", 2),
    ]


def test_an_unchanged_rollup_changes_nothing() -> None:
    first = decide(deployment("DFW", conditions=[UP]))

    again = decide_workload_status(
        compute.Workload(
            metadata=workload().metadata, spec=workload(default=["DFW", "IAD"]).spec, status=first
        ),
        [deployment("DFW", conditions=[UP])],
        plan=PlacementPlan(),
        now=NOW + timedelta(hours=1),
    )

    assert again == first
