"""States in words: the first rule that fits wins, and availability never says running."""

from __future__ import annotations

from typing import Any

import pytest

from datum_compute.cli import words


def instance(**conditions: tuple[str, str]) -> dict[str, Any]:
    found = [
        {"type": kind, "status": status, "reason": reason}
        for kind, (status, reason) in conditions.items()
    ]
    return {"metadata": {"name": "api-default-dfw-3"}, "status": {"conditions": found}}


GRANTED = ("True", "QuotaAvailable")


@pytest.mark.parametrize(
    ("conditions", "says"),
    [
        ({"Ready": ("True", "Available")}, "Available"),
        ({"QuotaGranted": ("False", "QuotaExceeded")}, "Pending (quota exceeded)"),
        ({"QuotaGranted": ("False", "ValidationFailed")}, "Pending (quota validation failed)"),
        ({"QuotaGranted": ("False", "QuotaMisconfigured")}, "Pending (quota unavailable)"),
        ({"QuotaGranted": ("Unknown", "PendingEvaluation")}, "Pending (quota evaluation)"),
        (
            {"QuotaGranted": GRANTED, "Programmed": ("False", "ImageUnavailable")},
            "Failed (image unavailable)",
        ),
        (
            {"QuotaGranted": GRANTED, "Available": ("Unknown", "InstanceCrashing")},
            "Failed (crashing)",
        ),
        (
            {"QuotaGranted": GRANTED, "Programmed": ("Unknown", "ProgrammingInProgress")},
            "Starting",
        ),
        (
            {"QuotaGranted": GRANTED, "Ready": ("False", "SchedulingGatesPresent")},
            "Pending (SchedulingGatesPresent)",
        ),
        ({}, "Pending"),
    ],
)
def test_an_instance_is_named_by_the_first_rule_that_fits(
    conditions: dict[str, tuple[str, str]], says: str
) -> None:
    assert words.instance_status(instance(**conditions)) == says


def test_the_footer_counts_what_is_not_available_once() -> None:
    footer = words.instance_footer(["Available", "Starting", "Failed (crashing)", "Pending"])

    assert footer == "4 instances — 1 Available, 2 Pending, 1 Failed"


@pytest.mark.parametrize(
    ("status", "ready", "desired", "says"),
    [
        ("True", 2, 2, "Available — all placements at desired replicas"),
        ("True", 1, 2, "Degraded — 1 instance below desired count"),
        ("True", 0, 2, "Degraded — 2 instances below desired count"),
        ("False", 0, 2, "Unavailable — no cell answers"),
    ],
)
def test_health_compares_ready_with_desired(
    status: str, ready: int, desired: int, says: str
) -> None:
    available = {"type": "Available", "status": status, "message": "no cell answers"}
    workload = {
        "status": {
            "conditions": [available],
            "observedGeneration": 1,
            "readyReplicas": ready,
            "desiredReplicas": desired,
        }
    }

    assert words.health(workload) == says


def test_a_workload_nobody_reported_on_is_unknown_not_healthy() -> None:
    assert words.health({"status": {}}).startswith("Unknown")


def test_an_ordinal_comes_from_the_label_and_only_then_from_the_name() -> None:
    labelled = instance()
    labelled["metadata"]["labels"] = {"compute.datumapis.com/instance-index": "7"}

    assert words.ordinal(labelled) == 7
    assert words.ordinal(instance()) == 3
