"""States of Instances: the first matching rule wins, and no state is called running."""

from __future__ import annotations

from typing import Any

import pytest

from datum_compute.cli.explain import states
from datum_compute.cli.render.output import duration, precise_duration, table
from datum_compute.cli.render.printable import printable_with_colours
from tests.support.cli.instances import GRANTED, instance


@pytest.mark.parametrize(
    ("conditions", "expected"),
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
            {"QuotaGranted": GRANTED, "Available": ("False", "WakeFailed")},
            "Failed (does not wake)",
        ),
        (
            {"QuotaGranted": GRANTED, "Programmed": ("Unknown", "ProgrammingInProgress")},
            "Starting",
        ),
        (
            {"QuotaGranted": GRANTED, "Ready": ("False", "SchedulingGatesPresent")},
            "Pending (SchedulingGatesPresent)",
        ),
        (
            {
                "Ready": ("False", "SourceNotFound"),
                "ReferencedDataReady": ("False", "SourceNotFound"),
            },
            "Pending (data missing)",
        ),
        ({}, "Pending"),
    ],
)
def test_the_state_of_an_instance_is_that_of_the_first_matching_rule(
    conditions: dict[str, tuple[str, str]], expected: str
) -> None:
    assert states.instance_status(instance(**conditions)) == expected


def test_the_footer_counts_what_is_not_available_once() -> None:
    footer = states.instance_footer([states.InstanceState(each) for each in states.InstancePhase])

    assert footer == "6 instances — 2 Available (1 asleep), 2 Pending, 1 Failed, 1 Stopped"


def test_a_cell_is_coloured_by_the_state_behind_it_and_not_by_its_text() -> None:
    failed = states.InstanceState(states.InstancePhase.FAILED, "crashing").cell()
    rows = [("Available", states.WorkloadHealth.AVAILABLE.cell()), ("Failed", failed)]

    plain = table(("NAME", "STATUS"), rows, width=None)
    coloured = table(("NAME", "STATUS"), rows, width=None, colours=True)

    assert "\x1b" not in plain
    assert printable_with_colours(coloured).splitlines()[1:] == [
        "Available   \x1b[32mAvailable\x1b[0m",
        "Failed      \x1b[31mFailed (crashing)\x1b[0m",
    ]


@pytest.mark.parametrize(
    ("status", "ready", "desired", "expected"),
    [
        ("True", 2, 2, "Available — all placements at desired replicas"),
        ("True", 1, 2, "Degraded — 1 instance below desired count"),
        ("True", 0, 2, "Degraded — 2 instances below desired count"),
        ("False", 0, 2, "Unavailable — no placement available yet"),
    ],
)
def test_health_compares_ready_with_desired(
    status: str, ready: int, desired: int, expected: str
) -> None:
    available = {"type": "Available", "status": status, "reason": "NoAvailablePlacements"}
    scale = {"minReplicas": desired}
    workload = {
        "spec": {"placements": [{"cityCodes": ["DFW"], "scaleSettings": scale}]},
        "status": {
            "conditions": [available],
            "observedGeneration": 1,
            "readyReplicas": ready,
            "desiredReplicas": ready,  # what has no deployment yet is not reported as desired
        },
    }

    assert states.health_detail(workload) == expected
    assert states.health(workload) == expected.partition(" ")[0]


def test_the_health_of_a_workload_without_a_report_is_unknown() -> None:
    assert states.health({"status": {}}) == "Unknown"
    assert states.health_detail({"status": {}}).startswith("Unknown — no controller")


def test_an_ordinal_is_read_from_the_label_before_the_name() -> None:
    labelled = instance()
    labelled["metadata"]["labels"] = {"compute.datumapis.com/instance-index": "7"}

    assert states.ordinal(labelled) == 7
    assert states.ordinal(instance()) == 3


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({"Ready": ("True", "Available")}, "Available"),
        ({"QuotaGranted": ("False", "QuotaExceeded")}, "Not available — quota exceeded"),
        ({"QuotaGranted": ("False", "QuotaMisconfigured")}, "Pending — quota unavailable"),
        (
            {"QuotaGranted": GRANTED, "Programmed": ("False", "ImageUnavailable")},
            "Not available — image unavailable",
        ),
        (
            {"QuotaGranted": GRANTED, "Available": ("False", "InstanceCrashing")},
            "Not available — instance crashing",
        ),
        (
            {"QuotaGranted": GRANTED, "Available": ("False", "ConfigurationError")},
            "Not available — configuration error",
        ),
        (
            {"QuotaGranted": GRANTED, "Programmed": ("False", "PendingProgramming")},
            "Starting",
        ),
        (
            {"QuotaGranted": GRANTED, "Ready": ("False", "SchedulingGatesPresent")},
            "Pending — SchedulingGatesPresent",
        ),
        ({}, "Pending"),
    ],
)
def test_the_description_of_an_instance_state(
    conditions: dict[str, tuple[str, str]], expected: str
) -> None:
    assert states.instance_detail(instance(**conditions))[0] == expected


def labelled(**labels: str) -> dict[str, Any]:
    found = instance()
    found["metadata"]["labels"] = {
        "compute.datumapis.com/" + key.replace("_", "-"): value for key, value in labels.items()
    }
    return found


def identity(found: dict[str, Any], *deployments: dict[str, Any]) -> states.InstanceIdentity:
    return states.instance_identities([found], lambda: deployments)["api-default-dfw-3"]


DEPLOYMENT = {
    "metadata": {"name": "api-default-dfw", "uid": "another-planes"},
    "spec": {"workloadRef": {"name": "api"}, "placementName": "default", "cityCode": "DFW"},
}


def test_the_labels_of_an_instance_identify_its_workload() -> None:
    own = labelled(workload_name="api", placement_name="default", city_code="DFW")

    def unasked() -> list[dict[str, Any]]:
        raise AssertionError("its labels are enough")

    found = states.instance_identities([own], unasked)["api-default-dfw-3"]

    assert found == states.InstanceIdentity("api", "default", "DFW")


def test_an_instance_without_labels_is_identified_by_its_deployment_or_its_name() -> None:
    named = labelled(workload_deployment_name="api-default-dfw")

    assert identity(named, DEPLOYMENT) == states.InstanceIdentity("api", "default", "DFW")
    assert identity(instance(), DEPLOYMENT) == states.InstanceIdentity("api", "default", "DFW")
    assert identity(instance()) == states.InstanceIdentity("api-default-dfw", "", "")


@pytest.mark.parametrize(
    ("seconds", "short", "precise"),
    [
        (-1, "0s", "0s"),
        (59.9, "59s", "59s"),
        (60, "1m", "1m"),
        (72, "1m", "1m12s"),
        (7200, "2h", "2h"),
        (90061, "1d", "1d1h"),
    ],
)
def test_a_duration_has_one_unit_or_two(seconds: float, short: str, precise: str) -> None:
    assert (duration(seconds), precise_duration(seconds)) == (short, precise)
