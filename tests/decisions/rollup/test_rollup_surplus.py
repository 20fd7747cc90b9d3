"""An Instance being removed does not count as one that is wanted."""

from __future__ import annotations

from tests.support.decisions.builders import condition, instance
from tests.support.decisions.rollups import condition_values, decide, unready

READY = condition("Ready", "True")


def test_a_failing_update_is_reported_although_surplus_instances_still_serve() -> None:
    """Scaled from 3 to 2 together with an image that does not exist: 1 was replaced first and
    fails, 2 is still ready and will be deleted. The failure must be reported."""
    status = decide(
        instance(0, hash="old", observed="old", conditions=[READY]),
        unready(1, "ImageUnavailable", "no such image", hash="new"),
        instance(2, hash="old", observed="old", conditions=[READY]),
    )

    assert status.ready_replicas == 2
    assert condition_values(status, "ReplicasReady") == (
        "False",
        "ImageUnavailable",
        "no such image",
    )
    assert condition_values(status, "Available")[0] == "True"


def test_available_needs_only_the_wanted_instances() -> None:
    status = decide(
        instance(0, hash="new", observed="new", conditions=[READY]),
        instance(1, hash="new", observed="new", conditions=[READY]),
        unready(2, "InstanceCrashing", hash="old"),
    )

    assert condition_values(status, "ReplicasReady")[:2] == ("True", "ReplicasAvailable")
