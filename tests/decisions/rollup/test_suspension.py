"""Who may stop and start a deployment, and what a stopped one reports."""

from __future__ import annotations

from itertools import product

import msgspec
import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import ObjectMeta
from datum_compute.decisions.instances.plan import InstancePlan, Resume
from datum_compute.decisions.suspension import decide_suspended_by
from tests.support.decisions.builders import deployment, instance, workload
from tests.support.decisions.rollups import condition_values, decide, unready

USERS = ("true", "yes", "upstream")
OWN = ("workload", "project")


def suspended_by(current: str, *, stopped: bool, project: bool | None) -> str:
    notes = {compute.ANNOTATION_SUSPENDED: "true"} if stopped else {}
    of = msgspec.structs.replace(workload(), metadata=ObjectMeta(name="web", annotations=notes))
    return decide_suspended_by(of, current, project_suspended=project) or ""


@pytest.mark.parametrize("current", USERS)
def test_what_a_user_has_stopped_alone_stays_stopped(current: str) -> None:
    for stopped, project in product((True, False), (True, False, None)):
        assert suspended_by(current, stopped=stopped, project=project) == current


@pytest.mark.parametrize("current", ["", *OWN])
def test_a_deployment_follows_its_project_and_then_its_workload(current: str) -> None:
    assert suspended_by(current, stopped=False, project=True) == "project"
    assert suspended_by(current, stopped=True, project=True) == "project"
    assert suspended_by(current, stopped=True, project=False) == "workload"
    assert suspended_by(current, stopped=False, project=False) == ""


def test_a_project_that_cannot_be_read_starts_and_stops_nothing() -> None:
    assert suspended_by("project", stopped=False, project=None) == "project"
    assert suspended_by("", stopped=False, project=None) == ""
    assert suspended_by("workload", stopped=False, project=None) == ""
    assert suspended_by("", stopped=True, project=None) == "workload"


def stopping(by: str = "workload") -> compute.WorkloadDeployment:
    return deployment(minimum=2, annotations={compute.ANNOTATION_SUSPENDED: by})


STOPPED = ("False", "Suspended", "Stopped")


def stopped_instance(ordinal: int) -> compute.Instance:
    return unready(ordinal, "Suspended", suspended=True, stopped=True)


def test_a_deployment_is_stopped_once_none_of_its_instances_runs() -> None:
    found = decide(stopped_instance(0), stopped_instance(1), of=stopping())

    assert found.suspended
    assert condition_values(found, "Available") == STOPPED
    assert condition_values(found, "ReplicasReady") == STOPPED


@pytest.mark.parametrize("by", ["workload", "true", "project"])
def test_it_is_not_reported_as_stopped_while_an_instance_runs(by: str) -> None:
    found = decide(stopped_instance(0), instance(1, suspended=True), of=stopping(by))

    reason = "ProjectSuspended" if by == "project" else "Suspended"
    assert not found.suspended
    assert condition_values(found, "Available")[0] == "True"
    expected = ("False", reason, "Being stopped: 1 instance left")
    assert condition_values(found, "ReplicasReady") == expected


def test_what_else_is_the_matter_with_a_stopped_deployment_does_not_count() -> None:
    behind_a_gate = unready(0, "PendingQuota", "no room", gates=["Quota"], suspended=True)
    found = decide(behind_a_gate, of=stopping())

    assert found.suspended
    assert condition_values(found, "ReplicasReady") == STOPPED


def test_one_without_instances_is_stopped_at_once() -> None:
    assert decide(of=stopping()).suspended


def test_a_deployment_that_is_being_started_waits_for_its_instances() -> None:
    plan = InstancePlan(actions=(Resume("web-default-dfw-0", "u", 0),))
    found = decide(stopped_instance(0), stopped_instance(1), plan=plan)

    assert not found.suspended
    assert condition_values(found, "ReplicasReady") == (
        "False",
        "ProvisioningInstances",
        "0 of 2 instances are ready",
    )


def test_one_that_is_deleted_is_not_stopped() -> None:
    going = deployment(
        minimum=2, deleting=True, annotations={compute.ANNOTATION_SUSPENDED: "workload"}
    )

    assert not decide(stopped_instance(0), of=going).suspended
