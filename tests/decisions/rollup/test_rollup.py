"""From Instances to a deployment's counters and conditions."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.references import LocationReference
from datum_compute.decisions.instances.plan import (
    Create,
    Delete,
    DeleteReason,
    HeldStep,
    InstancePlan,
    Step,
    Wait,
    WaitReason,
)
from datum_compute.decisions.rollup.deployment import DeploymentContext, decide_deployment_status
from tests.support.decisions.builders import NOW, condition, deployment, instance
from tests.support.decisions.rollups import condition_values, decide, held, unready

HERE = LocationReference(name="dfw")


def test_the_counters_of_a_deployment() -> None:
    programmed = condition("Programmed", "True")
    ready = condition("Ready", "True")

    status = decide(
        instance(0, observed="new", conditions=[programmed, ready]),
        instance(1, observed="new", conditions=[ready]),
        instance(2, observed="old", conditions=[programmed, ready]),
        instance(3, observed=None, conditions=[programmed]),
        of=deployment(minimum=5),
    )

    assert (status.replicas, status.desired_replicas) == (4, 5)
    assert (status.updated_replicas, status.current_replicas) == (2, 1)
    assert status.ready_replicas == 3


def test_a_deployment_being_deleted_has_no_desired_replicas() -> None:
    status = decide(instance(0), of=deployment(minimum=2, deleting=True))

    assert status.desired_replicas == 0


def test_the_status_observes_the_projects_generation() -> None:
    stamped = deployment(generation=9, annotations={compute.ANNOTATION_SOURCE_GENERATION: "4"})

    status = decide(of=stamped)

    assert status.observed_generation == 4
    assert {each.observed_generation for each in status.conditions} == {4}


@pytest.mark.parametrize(
    ("instances", "around", "reason"),
    [
        ([instance(0)], DeploymentContext(location_needed=True), "StableInstanceFound"),
        ([], DeploymentContext(location_needed=True, networks_ready=False), "NoMatchingLocation"),
        ([unready(0, "Pending")], DeploymentContext(HERE, True, False), "ProvisioningNetwork"),
        ([unready(0, "Pending")], DeploymentContext(HERE, True, True), "ProvisioningInstances"),
        ([], DeploymentContext(), "ProvisioningInstances"),
    ],
)
def test_the_available_condition_of_a_deployment(
    instances: list[compute.Instance], around: DeploymentContext, reason: str
) -> None:
    status, found, _ = condition_values(decide(*instances, around=around), "Available")

    assert found == reason
    assert status == ("True" if reason == "StableInstanceFound" else "False")


@pytest.mark.parametrize(
    ("instances", "around", "reason", "message"),
    [
        ([instance(0), instance(1)], DeploymentContext(), "ReplicasAvailable", None),
        ([instance(0)], DeploymentContext(), "ProvisioningInstances", "1 of 2 instances are ready"),
        ([unready(0, "PendingProgramming", "m")], DeploymentContext(), "PendingProgramming", "m"),
        (
            [unready(0, "Pending"), unready(1, "ImageUnavailable", "none")],
            DeploymentContext(),
            "ImageUnavailable",
            "none",
        ),
        (
            [unready(10, "InstanceCrashing", "ten"), unready(9, "ImageUnavailable", "nine")],
            DeploymentContext(),
            "ImageUnavailable",
            "nine",
        ),
        (
            [unready(0, "SchedulingGatesPresent")],
            DeploymentContext(HERE, True, networks_ready=False),
            "ProvisioningNetwork",
            None,
        ),
        (
            [unready(0, "NetworkFailedToCreate", "no room")],
            DeploymentContext(HERE, True, networks_ready=False),
            "NetworkFailedToCreate",
            "no room",
        ),
        (
            [unready(0, "Provisioning", "pulling")],
            DeploymentContext(HERE, True, networks_ready=False),
            "Provisioning",
            "pulling",
        ),
        (
            [unready(1, "Pending", "one"), unready(0, "Pending", "zero")],
            DeploymentContext(),
            "Pending",
            "zero",
        ),
        ([], DeploymentContext(location_needed=True), "NoMatchingLocation", None),
    ],
)
def test_replicas_ready_reports_the_blocking_reason(
    instances: list[compute.Instance], around: DeploymentContext, reason: str, message: str | None
) -> None:
    status, found, text = condition_values(decide(*instances, around=around), "ReplicasReady")

    assert found == reason
    assert status == ("True" if reason == "ReplicasAvailable" else "False")
    assert message is None or text == message


def test_denied_quota_has_its_own_reason() -> None:
    denied = instance(
        0,
        gates=["Quota"],
        conditions=[
            condition("Ready", "False", "PendingQuota", "full"),
            condition("QuotaGranted", "False", "ValidationFailed", "not registered"),
        ],
    )

    assert condition_values(decide(denied), "ReplicasReady") == (
        "False",
        "ValidationFailed",
        "not registered",
    )


def test_denied_quota_is_reported_only_where_it_is_the_blocking_reason() -> None:
    full = condition("QuotaGranted", "False", "QuotaExceeded", "full")
    unknown = condition("QuotaGranted", "Unknown", "PendingEvaluation")
    network = condition("Ready", "False", "NetworkFailedToCreate", "no room")
    waiting = condition("Ready", "False", "PendingQuota", "was full")

    assert condition_values(decide(instance(0, conditions=[network, full])), "ReplicasReady")[
        1:
    ] == (
        "NetworkFailedToCreate",
        "no room",
    )
    assert condition_values(decide(instance(0, conditions=[waiting, unknown])), "ReplicasReady")[
        1:
    ] == (
        "PendingQuota",
        "was full",
    )


@pytest.mark.parametrize(
    ("desired", "instances", "message"),
    [
        (0, [], "No instances are wanted"),
        (1, [], "Instances are being provisioned"),
        (0, [unready(0, "Pending")], "Instances are being provisioned"),
    ],
)
def test_the_message_when_nothing_is_desired_or_present(
    desired: int, instances: list[compute.Instance], message: str
) -> None:
    status = decide(*instances, of=deployment(minimum=desired))

    assert condition_values(status, "Available")[2] == message


def test_instances_that_are_replaced_or_deleted_do_not_give_the_reason() -> None:
    stale = unready(0, "ImageUnavailable", "of the old template", hash="old")
    leaving = unready(1, "InstanceCrashing", "on its way out", deleting=True)

    assert condition_values(decide(stale, leaving), "ReplicasReady")[1] == "ProvisioningInstances"


@pytest.mark.parametrize(
    ("queued", "note"),
    [
        ([], ""),
        ([Create(1, "web-1")], "; 1 instance waits for web-0"),
        (
            [Create(1, "web-1"), Create(2, "web-2")],
            "; 2 instances wait for web-0",
        ),
        (
            [Delete("web-1", "uid-1", 1, DeleteReason.RECREATE)],
            "; 1 instance waits for web-0",
        ),
        ([Delete("web-9", "uid-9", 9, DeleteReason.SCALE_DOWN)], ""),
    ],
)
def test_a_failing_instance_says_which_steps_wait_for_it(queued: list[Step], note: str) -> None:
    first = Wait("web-0", 0, WaitReason.NOT_READY)
    plan = InstancePlan(actions=(first,), queued=tuple(queued))

    failing = decide(unready(0, "InstanceCrashing", "exit 1"), plan=plan)
    starting = decide(unready(0, "Provisioning", "starting"), plan=plan)

    assert condition_values(failing, "ReplicasReady")[2] == f"exit 1{note}"
    assert condition_values(starting, "ReplicasReady")[2] == "starting"


RECREATE, UNREADY = DeleteReason.RECREATE, DeleteReason.REPLACE_UNREADY


def test_a_held_roll_is_reported_and_keeps_available_true() -> None:
    old = [instance(0, hash="old"), instance(1, hash="old")]

    status = decide(*old, held=held(RECREATE, RECREATE))

    assert condition_values(status, "Available")[:2] == ("True", "StableInstanceFound")
    assert condition_values(status, "ReplicasReady") == (
        "True",
        "ReplicasAvailable",
        "2 of 2 instances are ready; the update of 2 instances is held back (CellDisconnected)",
    )


@pytest.mark.parametrize(
    ("instances", "around", "held_back", "reason", "message"),
    [
        (
            [instance(0), unready(1, "ImageUnavailable", "old", hash="old")],
            DeploymentContext(HERE, True, networks_ready=False),
            held(UNREADY),
            "CellDisconnected",
            "1 of 2 instances are ready; the update of 1 instance is held back (CellDisconnected)",
        ),
        (
            [unready(0, "InstanceCrashing", "exit 1"), instance(1, hash="old")],
            DeploymentContext(),
            held(RECREATE),
            "InstanceCrashing",
            "exit 1; the update of 1 instance is held back (CellDisconnected)",
        ),
        (
            [unready(0, "SchedulingGatesPresent", ""), instance(1, hash="old")],
            DeploymentContext(),
            held(RECREATE),
            "SchedulingGatesPresent",
            "the update of 1 instance is held back (CellDisconnected)",
        ),
        (
            [instance(0)],
            DeploymentContext(),
            [HeldStep(Create(1, "web-1"), "CellDisconnected")],
            "ProvisioningInstances",
            "1 of 2 instances are ready",
        ),
    ],
)
def test_a_held_replacement_is_the_reason_where_none_has_higher_priority(
    instances: list[compute.Instance],
    around: DeploymentContext,
    held_back: list[HeldStep],
    reason: str,
    message: str,
) -> None:
    status = decide(*instances, around=around, held=held_back)

    assert condition_values(status, "ReplicasReady") == ("False", reason, message)


def test_available_can_be_true_while_replicas_are_missing() -> None:
    status = decide(instance(0), unready(1, "InstanceCrashing", "exit 1"))

    assert condition_values(status, "Available")[0] == "True"
    assert condition_values(status, "ReplicasReady") == ("False", "InstanceCrashing", "exit 1")


def test_an_unknown_policy_is_reported() -> None:
    of = deployment(minimum=1)
    scale = compute.ScaleSettings(min_replicas=1, instance_management_policy="Parallel")
    odd = msgspec.structs.replace(of, spec=msgspec.structs.replace(of.spec, scale_settings=scale))

    status = decide(instance(0), of=odd)

    assert condition_values(status, "ReplicasReady") == (
        "False",
        "ConfigurationError",
        "unknown instance management policy 'Parallel'; known: 'OrderedReady'",
    )
    assert condition_values(status, "Available")[0] == "True"


def test_a_template_refused_by_the_cell_is_reported_first() -> None:
    status = decide(
        unready(0, "SchedulingGatesPresent", "Scheduling gates present: Network"),
        around=DeploymentContext(networks_ready=False, refusal="metadata.annotations: Too long"),
    )

    assert condition_values(status, "ReplicasReady") == (
        "False",
        "ConfigurationError",
        "the cell rejects Instances of this template: metadata.annotations: Too long",
    )


def test_a_location_once_found_stays() -> None:
    before = deployment(location=HERE)

    assert decide(of=before).location == HERE


def test_a_newly_found_location_is_reported() -> None:
    elsewhere = deployment(location=LocationReference(name="old"))

    assert decide(of=elsewhere, around=DeploymentContext(HERE)).location == HERE


def test_other_conditions_stay_and_an_unchanged_rollup_changes_nothing() -> None:
    foreign = condition("Custom", "True")
    first = decide(instance(0), instance(1), of=deployment(minimum=2, conditions=[foreign]))

    again = decide_deployment_status(
        compute.WorkloadDeployment(
            metadata=deployment().metadata, spec=deployment(minimum=2).spec, status=first
        ),
        [instance(0), instance(1)],
        template_hash="new",
        context=DeploymentContext(),
        now=NOW + timedelta(hours=1),
    )

    assert first.conditions[0] == foreign
    assert again == first
