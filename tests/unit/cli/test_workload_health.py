"""The health of a workload says what a user would miss in the counters."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from datum_compute.cli.explain.health import assess_placements, workload_health

NOW = datetime(2026, 1, 1, 0, 20, tzinfo=UTC)
SINCE = "2026-01-01T00:06:00Z"


def condition(type: str, status: str, reason: str, message: str = "") -> dict[str, str]:
    return {
        "type": type,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": SINCE,
    }


def workload(ready: int = 2, **metadata: Any) -> dict[str, Any]:
    scale = {"minReplicas": 2}
    return {
        "metadata": {"name": "api", "generation": 2, **metadata},
        "spec": {"placements": [{"name": "default", "cityCodes": ["DFW"], "scaleSettings": scale}]},
        "status": {
            "observedGeneration": 2,
            "readyReplicas": ready,
            "conditions": [condition("Available", "True", "AvailablePlacementFound")],
        },
    }


def deployment(*conditions: dict[str, str], **status: int) -> dict[str, Any]:
    counters = {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "desiredReplicas": 2}
    return {
        "metadata": {"name": "api-default-dfw", "generation": 1},
        "spec": {"placementName": "default", "cityCode": "DFW"},
        "status": {
            "observedGeneration": 1,
            **counters,
            **status,
            "conditions": list(conditions),
        },
    }


@pytest.mark.parametrize(
    ("reason", "detail", "note"),
    [
        ("ImageUnavailable", "update failed in DFW: image unavailable", "update failed"),
        ("QuotaExceeded", "update blocked in DFW: quota exceeded", "update blocked"),
    ],
)
def test_a_failed_update_over_healthy_old_instances_is_named(
    reason: str, detail: str, note: str
) -> None:
    blocked = condition("ReplicasReady", "False", reason, "it cannot start")
    found = assess_placements(workload(), [deployment(blocked, updatedReplicas=1)], NOW)

    report = workload_health(workload(), found)

    assert report.detail == f"Available — {detail}"
    assert report.cell.text == f"Available ({note})"


def test_a_city_that_does_not_answer_makes_the_health_that_of_its_last_report() -> None:
    cut_off = condition("CellReachable", "False", "CellUnreachable")
    found = assess_placements(workload(), [deployment(cut_off)], NOW)

    report = workload_health(workload(), found)

    assert report.stale
    assert report.detail == "Available — DFW: last report over 14m ago"
    assert report.cell.text == "Available (last report over 14m ago)"


def test_a_workload_being_deleted_is_destroying_with_one_row_per_city() -> None:
    going = workload(deletionTimestamp=SINCE)
    leaving = deployment()
    leaving["metadata"]["deletionTimestamp"] = SINCE

    found = assess_placements(going, [leaving], NOW)

    assert workload_health(going, found).cell.text == "Destroying"
    assert [(each.row.city, each.note) for each in found] == [("DFW", "being removed")]


@pytest.mark.parametrize(
    ("finalizers", "held"),
    [
        (["example.com/a", "example.com/b"], "held by the finalizers example.com/a, example.com/b"),
        (["example.com/a", "compute.datumapis.com/federator"], ""),
        (["quota.compute.datumapis.com/claim-cleanup"], ""),
        (["foregroundDeletion"], ""),
    ],
)
def test_a_city_is_held_by_finalizers_once_only_those_of_other_programs_are_left(
    finalizers: list[str], held: str
) -> None:
    leaving = deployment()
    leaving["metadata"] |= {"deletionTimestamp": SINCE, "finalizers": finalizers}

    (found,) = assess_placements(workload(deletionTimestamp=SINCE), [leaving], NOW)

    assert (found.row.blocking_reason.message if found.row.blocking_reason else "") == held
