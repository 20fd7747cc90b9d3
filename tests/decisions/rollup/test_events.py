"""Which transitions of a status get an Event."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Condition, Conditions
from datum_compute.decisions.status_events import (
    EventContent,
    decide_deployment_events,
    decide_instance_events,
    decide_no_budget_event,
    decide_workload_events,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def condition_of(type_: str, status: str, reason: str, message: str = "as it is") -> Condition:
    return Condition(
        type=type_, status=status, reason=reason, message=message, last_transition_time=NOW
    )


def ready(status: str, reason: str) -> Conditions:
    return (condition_of("Ready", status, reason),)


def quota(status: str, reason: str) -> Conditions:
    return (condition_of("QuotaGranted", status, reason),)


@pytest.mark.parametrize(
    "reason",
    ["ImageUnavailable", "InstanceCrashing", "ConfigurationError", "NetworkFailedToCreate"],
)
def test_a_reason_that_keeps_an_instance_from_being_ready_is_a_warning(reason: str) -> None:
    before = ready("False", "Provisioning")

    assert decide_instance_events(before, ready("False", reason)) == (
        EventContent("Warning", reason, "as it is"),
    )


@pytest.mark.parametrize(
    "reason",
    [
        "QuotaExceeded",
        "ValidationFailed",
        "QuotaBackendUnavailable",
        "QuotaProjectNotFound",
        "QuotaNamespaceNotFound",
        "QuotaMisconfigured",
        "QuotaProjectIDUnresolvable",
    ],
)
def test_each_quota_failure_is_a_warning_once(reason: str) -> None:
    after = quota("False", reason) + ready("False", "PendingQuota")

    assert decide_instance_events((), after) == (EventContent("Warning", reason, "as it is"),)
    assert decide_instance_events(after, after) == ()


def test_a_missing_bucket_emits_an_event_only_after_a_delay() -> None:
    waiting = quota("Unknown", "QuotaNoBudget")

    def event_after(seconds: float) -> EventContent | None:
        return decide_no_budget_event(waiting, created=NOW, now=NOW + timedelta(seconds=seconds))

    assert decide_instance_events((), waiting) == ()
    assert event_after(5) is None
    assert event_after(15) == EventContent("Warning", "QuotaNoBudget", "as it is")
    granted = quota("True", "QuotaAvailable")
    assert decide_no_budget_event(granted, created=NOW, now=NOW + timedelta(hours=1)) is None


def test_an_available_instance_emits_one_event_and_its_start_none() -> None:
    history = [
        (),
        quota("Unknown", "PendingEvaluation") + ready("False", "SchedulingGatesPresent"),
        quota("True", "QuotaAvailable") + ready("False", "PendingProgramming"),
        quota("True", "QuotaAvailable") + ready("False", "Provisioning"),
        quota("True", "QuotaAvailable") + ready("True", "Available"),
        quota("True", "QuotaAvailable") + ready("True", "Available"),
    ]

    events = [decide_instance_events(a, b) for a, b in pairwise(history)]

    assert events == [(), (), (), (EventContent("Normal", "Available", "as it is"),), ()]


def test_a_changed_message_alone_emits_no_event() -> None:
    before = (condition_of("Ready", "False", "ImageUnavailable", "one"),)
    after = (condition_of("Ready", "False", "ImageUnavailable", "two"),)

    assert decide_instance_events(before, after) == ()


def status(desired: int = 0, *conditions: Condition) -> compute.WorkloadDeploymentStatus:
    return compute.WorkloadDeploymentStatus(desired_replicas=desired, conditions=conditions)


def test_scaling_emits_an_event_with_both_numbers() -> None:
    assert decide_deployment_events(status(1), status(3)) == (
        EventContent("Normal", "Scaled", "Scaled from 1 to 3 Instances"),
    )


def test_a_deployment_emits_events_for_availability_and_cell_contact() -> None:
    unreachable = condition_of("CellReachable", "False", "CellUnreachable")
    back = condition_of("CellReachable", "True", "CellReady")
    serves = condition_of("Available", "True", "StableInstanceFound")

    assert decide_deployment_events(status(), status(0, back, serves)) == (
        EventContent("Normal", "StableInstanceFound", "as it is"),
    )
    assert decide_deployment_events(status(0, back), status(0, unreachable)) == (
        EventContent("Warning", "CellUnreachable", "as it is"),
    )
    assert decide_deployment_events(status(0, unreachable), status(0, back)) == (
        EventContent("Normal", "CellReady", "as it is"),
    )


def test_one_reason_on_two_conditions_emits_one_event() -> None:
    scheduled = condition_of("Scheduled", "False", "NoCellForCity")
    available = condition_of("Available", "False", "NoCellForCity")

    assert len(decide_deployment_events(status(), status(0, scheduled, available))) == 1


def test_a_deployment_without_a_cell_emits_no_scaling_event() -> None:
    scheduled = condition_of("Scheduled", "False", "NoCellForCity")

    assert decide_deployment_events(status(), status(2, scheduled)) == (
        EventContent("Warning", "NoCellForCity", "as it is"),
    )


def test_a_workload_emits_an_event_with_its_blocking_reason() -> None:
    def available(status: str, reason: str) -> Conditions:
        return (condition_of("Available", status, reason),)

    missing = available("False", "NetworkNotFound")
    assert decide_workload_events((), available("False", "NoAvailablePlacements")) == ()
    assert decide_workload_events((), missing) == (
        EventContent("Warning", "NetworkNotFound", "as it is"),
    )
    assert decide_workload_events(missing, missing) == ()
    assert decide_workload_events(missing, available("True", "AvailablePlacementFound")) == (
        EventContent("Normal", "AvailablePlacementFound", "as it is"),
    )


def test_a_workload_that_becomes_unavailable_emits_an_event_for_any_reason() -> None:
    """Its user may have nothing to do, but the time and the reason matter."""
    serves = (condition_of("Available", "True", "AvailablePlacementFound"),)
    down = (condition_of("Available", "False", "NoAvailablePlacements"),)

    assert decide_workload_events(serves, down) == (
        EventContent("Warning", "NoAvailablePlacements", "as it is"),
    )
    assert decide_workload_events(down, down) == ()
    assert decide_workload_events(down, serves) == (
        EventContent("Normal", "AvailablePlacementFound", "as it is"),
    )
