"""The state of a rollout, read from the workload and its deployments."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.cli.rollout.rows import RowProgress
from datum_compute.cli.rollout.state import BlockingReason, Phase, Row, decide_rollout
from datum_compute.decisions.instances.revisions import template_hash
from datum_compute.decisions.placement import PlacementPlan, UnservedCity
from datum_compute.decisions.rollup.workload import decide_workload_status
from tests.support.cli.wire_rollouts import FULL, blocked, wire_deployment, wire_workload
from tests.support.decisions.builders import NOW, workload


@pytest.mark.parametrize(
    ("target", "ready", "updated", "replicas", "phase"),
    [
        (0, 0, 0, 0, "Done"),
        (0, 0, 0, 2, "Updating"),
        (1, 0, 0, 0, "Pending"),
        (1, 0, 1, 1, "Starting"),
        (1, 1, 1, 1, "Done"),
        (1, 1, 1, 5, "Updating"),
        (3, 1, 2, 3, "Updating"),
        (3, 3, 0, 3, "Updating"),
        (3, 2, 3, 3, "Starting"),
    ],
)
def test_the_phase_of_a_city(
    target: int, ready: int, updated: int, replicas: int, phase: str
) -> None:
    row = Row(
        placement="default",
        city="DFW",
        deployment="web",
        target=target,
        ready=ready,
        updated=updated,
        replicas=replicas,
        reported=True,
    )

    assert row.phase() == phase


def test_done_needs_every_city() -> None:
    workload = wire_workload("DFW", "IAD")

    half = decide_rollout(workload, [wire_deployment("DFW", **FULL)])
    whole = decide_rollout(
        workload, [wire_deployment("DFW", **FULL), wire_deployment("IAD", **FULL)]
    )

    assert not half.done
    assert [row.phase() for row in half.rows] == [Phase.DONE, Phase.PENDING]
    assert whole.done


def test_a_workload_that_is_being_deleted_waits_only_for_what_is_left() -> None:
    workload = wire_workload("DFW", "IAD")
    workload["metadata"]["deletionTimestamp"] = "2026-11-17T10:00:00Z"

    draining = decide_rollout(workload, [wire_deployment("IAD", deleting=True, **FULL)])
    empty = decide_rollout(workload, [])

    assert [(row.city, RowProgress(row).phase) for row in draining.rows] == [("IAD", "Removing")]
    assert not draining.done
    assert empty.rows == ()
    assert not empty.done


def test_done_needs_the_workload_to_be_observed() -> None:
    behind = wire_workload("DFW", generation=2, observed=1)

    assert not decide_rollout(behind, [wire_deployment("DFW", **FULL)]).done


WAVES = '{"waves": [["DFW"], ["*"]]}'


@pytest.mark.parametrize(
    ("policy", "reason", "done"),
    [
        (WAVES, "Complete", True),
        (WAVES, "Soaking", False),
        (WAVES, "RolledBack", False),
        (WAVES, "", False),
        ("{}", "", True),
    ],
)
def test_done_needs_a_complete_rollout_where_a_policy_is_set(
    policy: str, reason: str, done: bool
) -> None:
    workload = wire_workload("DFW")
    workload["metadata"]["annotations"] = {compute.ANNOTATION_ROLLOUT: policy}
    if reason:
        workload["status"]["conditions"] = [{"type": "Progressing", "reason": reason}]

    assert decide_rollout(workload, [wire_deployment("DFW", **FULL)]).done == done


@pytest.mark.parametrize("policy", [WAVES, None])
def test_a_city_whose_wave_is_not_open_has_no_updated_instance(policy: str | None) -> None:
    def template(image: str, **annotations: str) -> dict[str, Any]:
        container = {"name": "app", "image": image}
        spec = {"runtime": {"sandbox": {"containers": [container]}}}
        return {"metadata": {"annotations": annotations}, "spec": spec}

    workload = wire_workload("DFW", "IAD", "LHR")
    workload["metadata"]["annotations"] = {compute.ANNOTATION_ROLLOUT: policy} if policy else {}
    workload["spec"]["template"] = template("v2")
    deployments = [wire_deployment(city, **FULL) for city in ("DFW", "IAD", "LHR")]
    deployments[0]["spec"]["template"] = template(
        "v2", **{compute.ANNOTATION_RESTARTED_AT: "2026-03-04T05:06:07Z"}
    )
    deployments[1]["spec"]["template"] = template("v2", **{compute.ANNOTATION_DATA_HASH: "a1"})
    deployments[2]["spec"]["template"] = template("v1")

    rollout = decide_rollout(workload, deployments)

    assert [row.updated for row in rollout.rows] == ([2, 2, 0] if policy else [2, 2, 2])
    assert [row.old for row in rollout.rows] == ([0, 0, 2] if policy else [0, 0, 0])


def test_a_report_on_an_older_spec_is_not_done() -> None:
    late = wire_deployment("DFW", generation=2, observed=1, minimum=3, **FULL)

    (row,) = decide_rollout(wire_workload("DFW"), [late]).rows

    assert row.target == 3
    assert row.updated == 0
    assert row.old == 2
    assert row.phase() is Phase.UPDATING


def test_a_city_that_is_about_to_start_again_is_starting() -> None:
    notes = blocked("ReplicasReady", "Suspended")
    stopped = wire_deployment("DFW", conditions=notes, replicas=2)
    stopped["status"]["suspended"] = True

    (row,) = decide_rollout(wire_workload("DFW"), [stopped]).rows

    assert row.phase() is Phase.STARTING


def test_a_new_deployment_with_zero_counters_is_not_done() -> None:
    fresh = wire_deployment("DFW", generation=1, observed=0)

    rollout = decide_rollout(wire_workload("DFW"), [fresh])

    assert not rollout.done
    assert rollout.rows[0].phase() is Phase.PENDING


def test_a_deployment_being_removed_is_listed_until_deleted() -> None:
    rollout = decide_rollout(
        wire_workload("DFW"),
        [wire_deployment("LHR", deleting=True, replicas=1), wire_deployment("DFW", **FULL)],
    )

    assert not rollout.done
    assert [(row.city, row.removing) for row in rollout.rows] == [("DFW", False), ("LHR", True)]
    assert rollout.rows[1].phase() is Phase.UPDATING


def test_a_city_being_removed_shows_what_its_deletion_waits_for() -> None:
    leaving = wire_deployment("LHR", deleting=True)
    assert decide_rollout(wire_workload(), [leaving]).rows[0].blocking_reason is None
    waits = {"type": "Removed", "status": "False", "reason": "Draining", "message": "1 is left"}
    leaving["status"] = {**leaving.get("status", {}), "conditions": [waits]}

    [row] = decide_rollout({**wire_workload(), "spec": {}}, [leaving]).rows

    assert RowProgress(row).cells(with_old=True)[-1].split() == ["Removing", "1", "is", "left"]


def test_a_city_deployed_again_during_its_removal_is_pending() -> None:
    rollout = decide_rollout(wire_workload("DFW"), [wire_deployment("DFW", deleting=True)])

    assert [row.phase() for row in rollout.rows] == [Phase.PENDING, Phase.UPDATING]


@pytest.mark.parametrize(
    ("type", "reason", "terminal"),
    [
        ("ReplicasReady", "ImageUnavailable", True),
        ("ReplicasReady", "QuotaExceeded", False),
        ("Scheduled", "NoCellForCity", False),
    ],
)
def test_a_lasting_reason_blocks_even_a_pending_city(
    type: str, reason: str, terminal: bool
) -> None:
    stuck = wire_deployment("DFW", conditions=blocked(type, reason), desiredReplicas=2)

    (row,) = decide_rollout(wire_workload("DFW"), [stuck]).rows

    assert row.phase() is Phase.BLOCKED
    assert row.blocking_reason is not None
    assert (row.blocking_reason.reason, row.blocking_reason.message) == (reason, "why")
    assert row.blocking_reason.record.terminal is terminal


@pytest.mark.parametrize(
    ("type", "status", "blocks"),
    [
        ("ReplicasReady", "True", False),
        ("ReplicasReady", "False", True),
        ("ReplicasReady", "Unknown", True),
        ("Scheduled", "False", True),
        ("Scheduled", "Unknown", False),
        ("CellReachable", "False", True),
        ("CellReachable", "Unknown", False),
        ("Available", "False", False),
    ],
)
def test_the_conditions_that_give_the_blocking_reason(type: str, status: str, blocks: bool) -> None:
    given = {"type": type, "status": status, "reason": "Why", "message": "so"}

    (row,) = decide_rollout(wire_workload("DFW"), [wire_deployment(conditions=[given])]).rows

    expected = BlockingReason("Why", "so", condition=type, status=status)
    assert row.blocking_reason == (expected if blocks else None)


def test_scheduling_comes_before_reachability_and_replicas() -> None:
    types = ("ReplicasReady", "CellReachable", "Scheduled")
    given = [{"type": type, "status": "False", "reason": "Why"} for type in types]
    deployments = [wire_deployment(conditions=given[:count]) for count in (1, 2, 3)]

    rows = [decide_rollout(wire_workload("DFW"), [each]).rows[0] for each in deployments]

    assert tuple(each.blocking_reason.condition for each in rows if each.blocking_reason) == types


def test_work_in_progress_blocks_only_when_nothing_changes() -> None:
    waiting = wire_deployment(
        "DFW", conditions=blocked("ReplicasReady", "PendingProgramming"), desiredReplicas=2
    )

    (row,) = decide_rollout(wire_workload("DFW"), [waiting]).rows

    assert row.phase() is Phase.PENDING
    assert row.phase(stalled=True) is Phase.BLOCKED


def test_a_failure_of_the_previous_spec_does_not_block_the_new_one() -> None:
    late = wire_deployment(
        "DFW",
        generation=2,
        observed=1,
        conditions=blocked("ReplicasReady", "ImageUnavailable"),
        replicas=1,
    )

    (row,) = decide_rollout(wire_workload("DFW"), [late]).rows

    assert row.blocking_reason is None
    assert row.phase() is Phase.UPDATING


def test_objects_with_missing_fields_are_read() -> None:
    rollout = decide_rollout({"spec": {"placements": [{"name": "a"}]}}, [{}])

    assert [row.removing for row in rollout.rows] == [True]


def test_the_rollout_state_loads_without_the_typed_kinds() -> None:
    code = "import sys, datum_compute.cli.rollout.state\nprint('msgspec' in sys.modules)"

    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
    )

    assert found.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("workload", "deployment", "old"),
    [
        ({"generation": 1, "observed": 1}, {"generation": 1, "observed": 1}, 0),
        ({"generation": 1, "observed": 0}, {"generation": 1, "observed": 0}, 0),
        ({"generation": 2, "observed": 2}, {"generation": 1, "observed": 1}, 0),
        ({"generation": 2, "observed": 1}, {"generation": 1, "observed": 1}, 2),
        ({"generation": 2, "observed": 2}, {"generation": 2, "observed": 2}, 2),
        ({"generation": 1, "observed": 1}, {"generation": 2, "observed": 2}, 2),
    ],
    ids=[
        "the first template",
        "the first, not observed yet",
        "a new city of an old workload",
        "an update that is not observed yet",
        "an update",
        "a restart in the city",
    ],
)
def test_no_replica_is_old_under_the_first_template(
    workload: dict[str, Any], deployment: dict[str, Any], old: int
) -> None:
    given: dict[str, Any] = {"replicas": 2, "desiredReplicas": 2, **deployment}

    [row] = decide_rollout(wire_workload("DFW", **workload), [wire_deployment(**given)]).rows

    assert (row.old, row.done) == (old, False)


@pytest.mark.parametrize(
    ("images", "old"),
    [(("a:2", "a:2"), 0), (("a:1", "a:1", "a:2"), 2), ((), 3)],
    ids=["a scale-up", "an update", "instances that the project does not show"],
)
def test_an_instance_of_the_current_template_is_not_old_before_it_reports(
    images: tuple[str, ...], old: int
) -> None:
    def template(image: str) -> dict[str, Any]:
        return {"spec": {"runtime": {"sandbox": {"containers": [{"image": image}]}}}}

    deployment = wire_deployment(generation=2, observed=2, replicas=3, desiredReplicas=3)
    deployment["spec"]["template"] = template("a:2")
    instances: list[dict[str, Any]] = [
        {
            "metadata": {"name": f"web-default-dfw-{number}"},
            "spec": {"controller": {"templateHash": template_hash(template(image))}},
        }
        for number, image in enumerate(images)
    ]
    instances.append({"metadata": {"name": "web-default-lhr-0"}, "spec": {}})

    [by_counters] = decide_rollout(wire_workload("DFW"), [deployment]).rows
    [row] = decide_rollout(wire_workload("DFW"), [deployment], instances).rows
    [rolled] = decide_rollout(wire_workload("DFW"), [deployment], instances, [row.deployment]).rows

    assert (by_counters.old, row.old) == (3, old)
    assert rolled.old == 3 - images.count("a:2"), "counters may lag behind a roll"


def test_an_unserved_city_is_blocked_by_its_own_condition() -> None:
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


def test_the_workloads_own_reason_explains_a_missing_city() -> None:
    seen = wire_workload("DFW")
    seen["status"]["conditions"] = blocked("Available", "NetworkNotFound")

    (row,) = decide_rollout(seen, []).rows

    assert row.blocking_reason is not None
    assert (row.blocking_reason.reason, row.blocking_reason.message) == ("NetworkNotFound", "why")
    assert row.phase() is Phase.BLOCKED


def test_a_missing_city_has_no_reason_until_the_workload_is_observed() -> None:
    seen = wire_workload("DFW", generation=2, observed=1)
    seen["status"]["conditions"] = blocked("Available", "NetworkNotFound")

    (row,) = decide_rollout(seen, []).rows

    assert row.blocking_reason is None


def test_a_complete_deployment_of_the_previous_spec_is_not_done() -> None:
    full = wire_deployment("DFW", **FULL)
    unread = wire_workload("DFW", generation=2, observed=1)
    unread["spec"]["placements"][0]["scaleSettings"]["minReplicas"] = 5

    (row,) = decide_rollout(unread, [full]).rows

    assert (row.target, row.updated, row.old) == (5, 0, 2)
    assert row.phase() is Phase.UPDATING
