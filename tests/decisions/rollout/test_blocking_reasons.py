"""Why a city has no deployment, read from what the workload's controller says."""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions.placement import PlacementPlan, UnservedCity
from datum_compute.decisions.rollout import Phase, decide_rollout
from datum_compute.decisions.rollup.workload import decide_workload_status
from tests.support.decisions.builders import NOW, workload
from tests.support.decisions.rollouts import FULL, blocked, wire_deployment, wire_workload


def test_what_the_workload_says_of_a_city_without_a_location_is_understood() -> None:
    status = decide_workload_status(
        workload(default=["DFW", "SYD"]),
        [],
        plan=PlacementPlan(unserved=(UnservedCity("default", "SYD"),)),
        now=NOW,
    )
    seen = wire_workload("DFW", "SYD")
    placement = compute.placement_to_wire(status.placements[0])
    placement["conditions"][0] |= {"status": "True", "reason": "AvailableDeploymentFound"}
    seen["status"]["placements"] = [placement]

    dfw, syd = decide_rollout(seen, []).rows

    assert syd.blocking_reason is not None
    assert (syd.blocking_reason.reason, syd.phase()) == ("NoMatchingLocation", Phase.BLOCKED)
    assert dfw.blocking_reason is None


def test_a_workload_that_is_refused_as_a_whole_says_why_a_city_is_missing() -> None:
    seen = wire_workload("DFW")
    seen["status"]["conditions"] = blocked("Available", "NetworkNotFound")

    (row,) = decide_rollout(seen, []).rows

    assert row.blocking_reason is not None
    assert (row.blocking_reason.reason, row.blocking_reason.message) == ("NetworkNotFound", "why")
    assert row.phase() is Phase.BLOCKED


def test_until_the_workload_was_read_nothing_is_known_of_a_missing_city() -> None:
    seen = wire_workload("DFW", generation=2, observed=1)
    seen["status"]["conditions"] = blocked("Available", "NetworkNotFound")

    (row,) = decide_rollout(seen, []).rows

    assert row.blocking_reason is None


def test_what_was_done_before_the_workload_was_read_again_is_not_done_now() -> None:
    """The deployments are of the spec before, however complete they look."""
    full = wire_deployment("DFW", **FULL)
    unread = wire_workload("DFW", generation=2, observed=1)
    unread["spec"]["placements"][0]["scaleSettings"]["minReplicas"] = 5

    (row,) = decide_rollout(unread, [full]).rows

    assert (row.target, row.updated, row.old) == (5, 0, 2)
    assert row.phase() is Phase.UPDATING
