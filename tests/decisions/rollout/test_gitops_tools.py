"""What GitOps tools make of a Workload agrees with what the platform says of its rollout.

The golden screens compare them for every Workload of every scene.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from datum_compute.api import conditions
from datum_compute.api.compute import reasons
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import ConditionState
from datum_compute.decisions.placement import PlacementPlan
from datum_compute.decisions.rollout.plan import RolloutPlan
from datum_compute.decisions.rollup.workload import decide_workload_status
from tests.support.decisions.builders import NOW
from tests.support.decisions.rollouts import City, World, policy, world
from tests.support.gitops_tools import argo_health, kstatus

EVERY_REASON = [
    each
    for each in reasons.REASONS.values()
    if reasons.WORKLOAD_PROGRESSING in (*each.true, *each.false)
]


def stored(w: World, plan: RolloutPlan) -> dict[str, Any]:
    """The Workload with the status that the controller writes."""
    workload = w.workload()
    status = decide_workload_status(
        workload,
        [each.existing(city).deployment for city, each in w.cities.items()],
        plan=PlacementPlan((), (), ()),
        now=NOW,
        rollout=plan,
    )
    wire = compute.workload_status_to_wire(status)
    for each in wire["conditions"]:
        if each["type"] == "Available":
            each["status"] = "True"  # the deployments of this model do not say whether they serve
    return {
        "metadata": {"generation": w.generation},
        "status": wire,
    }


@pytest.mark.parametrize("record", EVERY_REASON, ids=lambda record: record.name)
def test_tools_see_every_reason_as_the_platform_means_it(record: reasons.Reason) -> None:
    status = conditions.TRUE if reasons.WORKLOAD_PROGRESSING in record.true else conditions.FALSE
    plan = RolloutPlan({}, progressing=ConditionState(status, record.name, "why"))
    found = stored(world(), plan)

    if record.terminal:  # a person is needed, and waiting does not help
        assert (kstatus(found), argo_health(found)) == ("Failed", "Degraded")
    elif record.needs_action and status == conditions.FALSE:
        assert (kstatus(found), argo_health(found)) == ("InProgress", "Suspended")
    elif record.name == compute.REASON_COMPLETE:
        assert (kstatus(found), argo_health(found)) == ("Current", "Healthy")
    else:
        assert (kstatus(found), argo_health(found)) == ("InProgress", "Progressing")


def test_tools_wait_for_a_change_that_no_controller_has_seen() -> None:
    w = world()
    found = stored(w, w.settle())
    found["metadata"]["generation"] += 1

    assert (kstatus(found), argo_health(found)) == ("InProgress", "Progressing")


@pytest.mark.parametrize("on_failure", ["Pause", "Undo", "Continue"])
@pytest.mark.parametrize("bad", [False, True])
def test_at_every_step_tools_are_satisfied_exactly_when_the_rollout_is_complete(
    on_failure: str, bad: bool
) -> None:
    w = world(policy(waves="each", soak="10s", onFailure=on_failure))
    w.deploy("v2")
    random, seen = Random(on_failure), set()
    for _ in range(60):
        plan = w.reconcile()
        assert plan.progressing is not None
        found = stored(w, plan)
        seen.add(kstatus(found))
        complete = plan.progressing.reason == compute.REASON_COMPLETE
        assert (kstatus(found) == "Current") == complete
        assert (argo_health(found) == "Healthy") == complete
        w.pass_time(seconds=random.choice((1, 5, 20)))
        city = random.choice(w.named)
        w.cities[city] = reported(w.cities[city], bad=bad and city == "IAD")
    assert seen == {"InProgress", "Failed" if bad else "Current"}


def reported(city: City, *, bad: bool) -> City:
    return city.broken() if bad and city.image == "v2" else city.rolled()


def test_without_a_policy_tools_see_neither_condition() -> None:
    w = world("")
    w.deploy("v2")
    found = stored(w, w.reconcile())

    assert kstatus(found) == "Current"
    assert [each["type"] for each in found["status"]["conditions"]] == ["Available"]
