"""Ready of an Instance carries the reason of highest priority."""

from __future__ import annotations

from datetime import timedelta

import pytest

from datum_compute.api import conditions
from datum_compute.api.compute import reasons
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Condition, Conditions
from datum_compute.decisions.rollup.readiness import decide_conditions
from tests.support.decisions.builders import NOW, condition, instance

PENDING = ("Unknown", "Pending", "Waiting for controller")
PROGRAMMED = ("True", "Programmed", "")


def decide(
    *,
    programmed: tuple[str, str, str] = PENDING,
    available: tuple[str, str, str] = PENDING,
    quota: tuple[str, str, str] = ("True", "QuotaAvailable", ""),
    more: tuple[Condition, ...] = (),
    gates: tuple[str, ...] = (),
    network_failure: str | None = None,
) -> Conditions:
    given = (
        condition("Programmed", *programmed),
        condition("Available", *available),
        condition("Ready", *PENDING),
        condition("QuotaGranted", *quota),
        *more,
    )
    gated = instance(0, gates=gates, conditions=given, generation=3)
    return decide_conditions(gated, now=NOW, network_failure=network_failure)


def state_of(found: Conditions, type: str = "Ready") -> tuple[str, str, str]:
    one = conditions.find(found, type)
    assert one is not None
    return one.status, one.reason, one.message


IMAGE = ("False", "ImageUnavailable", "no such image")
DENIED = ("False", "QuotaExceeded", "10 of 10 instances are used")


@pytest.mark.parametrize(
    ("gates", "quota", "failure", "reason", "message"),
    [
        (
            ("Network", "Quota"),
            PENDING,
            None,
            "SchedulingGatesPresent",
            "Scheduling gates present: Network, Quota",
        ),
        (("Quota",), DENIED, None, "PendingQuota", DENIED[2]),
        (("Network", "Quota"), DENIED, None, "PendingQuota", DENIED[2]),
        (("Network", "Quota"), DENIED, "no room", "NetworkFailedToCreate", "no room"),
        (("Network",), DENIED, None, "SchedulingGatesPresent", "Scheduling gates present: Network"),
        (("Network",), PENDING, "no room", "NetworkFailedToCreate", "no room"),
    ],
)
def test_the_ready_reason_of_a_gated_instance(
    gates: tuple[str, ...],
    quota: tuple[str, str, str],
    failure: str | None,
    reason: str,
    message: str,
) -> None:
    found = decide(gates=gates, quota=quota, network_failure=failure)

    assert state_of(found) == ("False", reason, message)


@pytest.mark.parametrize("failure", [None, "no room"])
def test_denied_quota_is_reported_on_the_provider_conditions(failure: str | None) -> None:
    found = decide(gates=("Network", "Quota"), quota=DENIED, network_failure=failure)

    assert state_of(found, "Programmed") == ("False", "PendingQuota", DENIED[2])
    assert state_of(found, "Available") == ("False", "PendingQuota", DENIED[2])


def test_a_grant_removes_the_denial_from_the_provider_conditions() -> None:
    waiting = ("False", "PendingQuota", DENIED[2])

    found = decide(gates=("Quota",), programmed=waiting, available=waiting)

    assert state_of(found, "Programmed") == PENDING
    assert state_of(found, "Available") == PENDING


@pytest.mark.parametrize("quota", [PENDING, ("True", "QuotaAvailable", "")])
def test_provider_conditions_of_a_gated_instance_stay_unless_quota_is_denied(
    quota: tuple[str, str, str],
) -> None:
    found = decide(gates=("Quota",), programmed=IMAGE, quota=quota)

    assert state_of(found, "Programmed") == IMAGE
    assert state_of(found, "Available") == PENDING


def test_missing_provider_conditions_of_a_gated_instance_are_not_added() -> None:
    silent = instance(0, gates=["Quota"], conditions=[condition("QuotaGranted", *PENDING)])

    found = decide_conditions(silent, now=NOW)

    assert [each.type for each in found] == ["QuotaGranted", "Ready"]


def test_provider_conditions_of_an_ungated_instance_are_not_changed() -> None:
    waiting = ("False", "PendingQuota", "old news")

    found = decide(programmed=waiting, available=waiting, quota=DENIED)

    assert state_of(found, "Programmed") == waiting
    assert state_of(found, "Available") == waiting
    assert state_of(found) == ("False", "PendingProgramming", "Instance has not been programmed")


@pytest.mark.parametrize(
    ("programmed", "available", "ready"),
    [
        (PENDING, PENDING, ("False", "PendingProgramming", "Instance has not been programmed")),
        (
            ("Unknown", "PendingProgramming", "x"),
            PENDING,
            ("False", "PendingProgramming", "Instance has not been programmed"),
        ),
        (
            ("Unknown", "ProgrammingInProgress", "on it"),
            PENDING,
            ("Unknown", "ProgrammingInProgress", "on it"),
        ),
        (IMAGE, PENDING, IMAGE),
        (PENDING, IMAGE, IMAGE),
        (("False", "ProgrammingInProgress", "on it"), IMAGE, IMAGE),
        (("False", "Provisioning", "p"), IMAGE, IMAGE),
        (IMAGE, ("False", "Provisioning", "p"), IMAGE),
        (IMAGE, ("Unknown", "InstanceCrashing", "c"), ("Unknown", "InstanceCrashing", "c")),
        (("Unknown", "InstanceCrashing", "c"), PENDING, ("Unknown", "InstanceCrashing", "c")),
        (
            ("False", "ProgrammingInProgress", "on it"),
            ("Unknown", "Starting", "s"),
            ("False", "ProgrammingInProgress", "on it"),
        ),
        (PENDING, ("Unknown", "Provisioning", "p"), ("Unknown", "Provisioning", "p")),
        (PROGRAMMED, PENDING, ("False", "Pending", "Instance is not available")),
        (PROGRAMMED, ("Unknown", "Starting", "s"), ("Unknown", "Starting", "s")),
        (
            PROGRAMMED,
            ("False", "InstanceCrashing", "exit 1"),
            ("False", "InstanceCrashing", "exit 1"),
        ),
        (PROGRAMMED, ("True", "Available", ""), ("True", "Available", "Instance is ready")),
    ],
)
def test_the_ready_reason_of_an_ungated_instance(
    programmed: tuple[str, str, str],
    available: tuple[str, str, str],
    ready: tuple[str, str, str],
) -> None:
    assert state_of(decide(programmed=programmed, available=available)) == ready


def test_other_conditions_can_give_the_ready_reason_but_not_a_leftover_running() -> None:
    crashing = condition("Running", "False", "InstanceCrashing", "old")
    network = condition("Network", "Unknown", "NetworkFailedToCreate", "no route")

    assert state_of(decide(more=(crashing,)))[1] == "PendingProgramming"
    assert state_of(decide(programmed=IMAGE, more=(crashing, network))) == (
        "Unknown",
        "NetworkFailedToCreate",
        "no route",
    )


def test_true_conditions_do_not_give_the_ready_reason() -> None:
    healed = condition("Storage", "True", "ConfigurationError", "was wrong once")

    assert state_of(decide(more=(healed,)))[1] == "PendingProgramming"


def test_programmed_without_an_available_condition_is_not_available() -> None:
    silent = instance(0, conditions=[condition("Programmed", *PROGRAMMED)])

    assert state_of(decide_conditions(silent, now=NOW)) == (
        "False",
        "Pending",
        "Instance is not available",
    )


def test_lost_quota_does_not_change_ready_of_a_running_instance() -> None:
    found = decide(programmed=PROGRAMMED, available=("True", "Available", ""), quota=DENIED)

    assert state_of(found) == ("True", "Available", "Instance is ready")


def test_an_instance_without_conditions_is_not_programmed() -> None:
    bare = compute.Instance(spec=compute.InstanceSpec(controller=compute.InstanceController()))

    assert state_of(decide_conditions(bare, now=NOW))[1] == "PendingProgramming"


def test_ready_carries_the_generation_and_settles() -> None:
    found = decide(programmed=PROGRAMMED, available=("True", "Available", ""))

    ready = conditions.find(found, "Ready")
    again = decide_conditions(
        instance(0, conditions=found, generation=3), now=NOW + timedelta(hours=1)
    )
    assert ready is not None
    assert ready.observed_generation == 3
    assert again == found


def test_priorities_of_reasons_follow_the_contract() -> None:
    assert [
        reasons.lookup(reason).priority
        for reason in (
            "Pending",
            "Provisioning",
            "PendingQuota",
            "ImageUnavailable",
            "InstanceCrashing",
            "ConfigurationError",
            "NetworkFailedToCreate",
        )
    ] == [0, 1, 3, 5, 5, 5, 7]
