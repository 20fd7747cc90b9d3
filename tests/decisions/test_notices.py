"""Transitions worth an Event, and what is not worth one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Condition, Conditions
from datum_compute.decisions.notices import (
    Notice,
    deployment_notices,
    instance_notices,
    no_budget_notice,
    workload_notices,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def said(type_: str, status: str, reason: str, message: str = "as it is") -> Condition:
    return Condition(
        type=type_, status=status, reason=reason, message=message, last_transition_time=NOW
    )


def ready(status: str, reason: str) -> Conditions:
    return (said("Ready", status, reason),)


def quota(status: str, reason: str) -> Conditions:
    return (said("QuotaGranted", status, reason),)


@pytest.mark.parametrize(
    "reason",
    ["ImageUnavailable", "InstanceCrashing", "ConfigurationError", "NetworkFailedToCreate"],
)
def test_what_keeps_an_instance_from_serving_is_a_warning(reason: str) -> None:
    before = ready("False", "Provisioning")

    assert instance_notices(before, ready("False", reason)) == (
        Notice("Warning", reason, "as it is"),
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

    assert instance_notices((), after) == (Notice("Warning", reason, "as it is"),)
    assert instance_notices(after, after) == ()


def test_a_missing_budget_is_told_when_it_is_more_than_a_missing_answer() -> None:
    waiting = quota("Unknown", "QuotaNoBudget")

    def told(seconds: float) -> Notice | None:
        return no_budget_notice(waiting, created=NOW, now=NOW + timedelta(seconds=seconds))

    assert instance_notices((), waiting) == ()
    assert told(5) is None
    assert told(15) == Notice("Warning", "QuotaNoBudget", "as it is")
    granted = quota("True", "QuotaAvailable")
    assert no_budget_notice(granted, created=NOW, now=NOW + timedelta(hours=1)) is None


def test_an_instance_that_serves_is_told_once_and_the_way_there_is_not() -> None:
    history = [
        (),
        quota("Unknown", "PendingEvaluation") + ready("False", "SchedulingGatesPresent"),
        quota("True", "QuotaAvailable") + ready("False", "PendingProgramming"),
        quota("True", "QuotaAvailable") + ready("False", "Provisioning"),
        quota("True", "QuotaAvailable") + ready("True", "Available"),
        quota("True", "QuotaAvailable") + ready("True", "Available"),
    ]

    told = [instance_notices(a, b) for a, b in pairwise(history)]

    assert told == [(), (), (), (Notice("Normal", "Available", "as it is"),), ()]


def test_a_message_alone_is_no_transition() -> None:
    before = (said("Ready", "False", "ImageUnavailable", "one"),)
    after = (said("Ready", "False", "ImageUnavailable", "two"),)

    assert instance_notices(before, after) == ()


def status(desired: int = 0, *conditions: Condition) -> compute.WorkloadDeploymentStatus:
    return compute.WorkloadDeploymentStatus(desired_replicas=desired, conditions=conditions)


def test_scaling_is_told_with_both_numbers() -> None:
    assert deployment_notices(status(1), status(3)) == (
        Notice("Normal", "Scaled", "Scaled from 1 to 3 Instances"),
    )


def test_a_deployment_tells_when_it_serves_and_when_its_cell_comes_and_goes() -> None:
    away = said("CellReachable", "False", "CellUnreachable")
    back = said("CellReachable", "True", "CellReady")
    serves = said("Available", "True", "StableInstanceFound")

    assert deployment_notices(status(), status(0, back, serves)) == (
        Notice("Normal", "StableInstanceFound", "as it is"),
    )
    assert deployment_notices(status(0, back), status(0, away)) == (
        Notice("Warning", "CellUnreachable", "as it is"),
    )
    assert deployment_notices(status(0, away), status(0, back)) == (
        Notice("Normal", "CellReady", "as it is"),
    )


def test_one_cause_on_two_conditions_is_told_once() -> None:
    scheduled = said("Scheduled", "False", "NoCellForCity")
    available = said("Available", "False", "NoCellForCity")

    assert len(deployment_notices(status(), status(0, scheduled, available))) == 1


def test_what_no_cell_has_is_not_scaled() -> None:
    scheduled = said("Scheduled", "False", "NoCellForCity")

    assert deployment_notices(status(), status(2, scheduled)) == (
        Notice("Warning", "NoCellForCity", "as it is"),
    )


def test_a_workload_tells_what_is_in_its_way() -> None:
    def available(status: str, reason: str) -> Conditions:
        return (said("Available", status, reason),)

    missing = available("False", "NetworkNotFound")
    assert workload_notices((), available("False", "NoAvailablePlacements")) == ()
    assert workload_notices((), missing) == (Notice("Warning", "NetworkNotFound", "as it is"),)
    assert workload_notices(missing, missing) == ()
    assert workload_notices(missing, available("True", "AvailablePlacementFound")) == (
        Notice("Normal", "AvailablePlacementFound", "as it is"),
    )


def test_a_workload_that_serves_no_more_says_so_whatever_the_reason() -> None:
    """Its author may have nothing to do, and yet wants to know since when, and why."""
    serves = (said("Available", "True", "AvailablePlacementFound"),)
    down = (said("Available", "False", "NoAvailablePlacements"),)

    assert workload_notices(serves, down) == (
        Notice("Warning", "NoAvailablePlacements", "as it is"),
    )
    assert workload_notices(down, down) == ()
    assert workload_notices(down, serves) == (
        Notice("Normal", "AvailablePlacementFound", "as it is"),
    )
