"""From Instances to their deployment's status.

Available is True while any Instance serves. ReplicasReady is True while as many are Ready as
are wanted; otherwise it carries the blocking reason, so that a client need not list
Instances. A held step is reported there too: as the reason where it keeps replicas from being
ready, and otherwise in the message alone, because an older template still serves. So are the steps
that wait for an Instance which is not ready for a reason of its own.

A deployment that is to be stopped says so whatever else is the matter with it: nothing of that
counts before it is started.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from datum_compute.api import conditions
from datum_compute.api.compute import instance_names, reasons
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import ConditionState
from datum_compute.api.references import LocationReference
from datum_compute.decisions.instances.plan import (
    NO_PLAN,
    Create,
    Delete,
    DeleteReason,
    HeldStep,
    InstancePlan,
    Wait,
)
from datum_compute.decisions.instances.policies import policy_fault
from datum_compute.decisions.rollup.readiness import gate_denial


@dataclass(frozen=True, slots=True)
class DeploymentContext:
    """What a cell knows about a deployment besides its Instances."""

    location: LocationReference | None = None
    """The Location of its city, once found."""
    location_needed: bool = False
    """Whether having none blocks the deployment: only where networking is on."""
    networks_ready: bool = True
    referenced_data: ConditionState | None = None
    """Whether the cell has the data that the template names; None where it names none."""
    refusal: str = ""
    """Why the cell rejects Instances of the template; empty where it does not."""


def decide_deployment_status(
    deployment: compute.WorkloadDeployment,
    instances: Sequence[compute.Instance],
    *,
    template_hash: str,
    context: DeploymentContext,
    now: datetime,
    plan: InstancePlan = NO_PLAN,
) -> compute.WorkloadDeploymentStatus:
    """The status a cell reports. ``instances`` are those found when the reconcile began,
    and ``plan`` what follows for them, of which the steps that wait or are held back are
    reported."""
    held = plan.held
    desired = 0 if deployment.metadata.deleting else deployment.spec.scale_settings.min_replicas
    updated = [each for each in instances if each.observed_template_hash == template_hash]
    ready = sum(1 for each in instances if each.ready)
    generation = deployment.source_generation
    available = _available(ready, len(instances), desired, context)
    current_template = [
        each
        for each in instances
        # One about to be replaced explains nothing about the template that replaces it.
        if each.template_hash == template_hash and not each.metadata.deleting
    ]
    # A surplus Instance may be ready, but is not one of those wanted.
    serving = sum(1 for each in instances if each.ready and _is_wanted(each, deployment, desired))
    complete = _replicas_ready(current_template, serving, desired, context, held)
    complete = _with_held(_with_waiting(complete, plan), held)
    if fault := policy_fault(deployment.spec.scale_settings.instance_management_policy):
        # Nothing is created or replaced under such a policy, so no other reason matters more.
        complete = ConditionState(conditions.FALSE, compute.REASON_CONFIGURATION_ERROR, fault)
    elif context.refusal:
        refused = f"the cell rejects Instances of this template: {context.refusal}"
        complete = ConditionState(conditions.FALSE, compute.REASON_CONFIGURATION_ERROR, refused)
    running = sum(1 for each in instances if not (each.status.suspended or each.gates))
    if stopped := _stopped(deployment, running):
        complete = stopped
        available = available if ready else stopped
    current = deployment.status.conditions
    states = {
        compute.CONDITION_AVAILABLE: available,
        compute.CONDITION_REPLICAS_READY: complete,
    }
    if context.referenced_data is None:
        current = conditions.without(current, compute.CONDITION_REFERENCED_DATA_READY)
    else:
        states[compute.CONDITION_REFERENCED_DATA_READY] = context.referenced_data
    for type, state in states.items():
        current = conditions.with_condition(
            current, type, *state, now=now, observed_generation=generation
        )
    return compute.WorkloadDeploymentStatus(
        location=context.location or deployment.status.location,
        conditions=current,
        replicas=len(instances),
        current_replicas=sum(1 for each in updated if each.programmed),
        updated_replicas=len(updated),
        desired_replicas=desired,
        ready_replicas=ready,
        observed_generation=generation,
        suspended=stopped is not None and not running,
    )


def _stopped(deployment: compute.WorkloadDeployment, running: int) -> ConditionState | None:
    """What a deployment that is to be stopped reports; None for any other."""
    if not deployment.suspended_by or deployment.metadata.deleting:
        return None
    project = deployment.suspended_by == compute.SUSPENDED_BY_PROJECT
    reason = compute.REASON_PROJECT_SUSPENDED if project else compute.REASON_SUSPENDED
    text = "Stopped" if not running else f"Being stopped: {_count(running)} left"
    return ConditionState(conditions.FALSE, reason, text)


def _is_wanted(
    instance: compute.Instance, deployment: compute.WorkloadDeployment, desired: int
) -> bool:
    meta = instance.metadata
    ordinal = instance_names.ordinal_of(meta.labels, meta.name, deployment.metadata.name)
    return ordinal is not None and ordinal < desired


def _available(
    ready: int, replicas: int, desired: int, context: DeploymentContext
) -> ConditionState:
    if ready:
        return ConditionState(
            conditions.TRUE,
            compute.REASON_STABLE_INSTANCE_FOUND,
            f"{ready} of {desired} instances are ready",
        )
    return _blocked(context) or ConditionState(
        conditions.FALSE,
        compute.REASON_PROVISIONING_INSTANCES,
        "Instances are being provisioned" if replicas or desired else "No instances are wanted",
    )


def _blocked(context: DeploymentContext) -> ConditionState | None:
    """What blocks every Instance alike: of several causes the one of highest priority."""
    causes = []
    if context.location_needed and context.location is None:
        causes.append(
            ConditionState(
                conditions.FALSE,
                compute.REASON_NO_MATCHING_LOCATION,
                "No location of this city is known to the cell",
            )
        )
    if context.referenced_data is not None and context.referenced_data.status != conditions.TRUE:
        causes.append(context.referenced_data)
    if not context.networks_ready:
        causes.append(
            ConditionState(
                conditions.FALSE,
                compute.REASON_PROVISIONING_NETWORK,
                "Networks are being provisioned",
            )
        )
    return max(causes, key=lambda each: reasons.lookup(each.reason).priority, default=None)


def _replicas_ready(
    instances: Sequence[compute.Instance],
    ready: int,
    desired: int,
    context: DeploymentContext,
    held: Sequence[HeldStep],
) -> ConditionState:
    if ready >= desired:
        return ConditionState(
            conditions.TRUE,
            compute.REASON_REPLICAS_AVAILABLE,
            f"{ready} of {desired} instances are ready",
        )
    priority, worst = max(_causes(instances), key=lambda cause: cause[0], default=(0, None))
    # A gate that is still there explains less than the reason why it is.
    if priority > 0 and worst is not None:
        return worst
    count = f"{ready} of {desired} instances are ready"
    for each in held:
        if isinstance(each.step, Delete) and each.step.reason is DeleteReason.REPLACE_UNREADY:
            return ConditionState(conditions.FALSE, each.reason, count)
    return (
        _blocked(context)
        or worst
        or ConditionState(conditions.FALSE, compute.REASON_PROVISIONING_INSTANCES, count)
    )


def _with_waiting(state: ConditionState, plan: InstancePlan) -> ConditionState:
    """The steps behind an Instance that is not ready, where its reason may last: a start that goes
    well is not worth a word."""
    first = plan.actions[0] if plan.actions else None
    if not isinstance(first, Wait) or not reasons.lookup(state.reason).needs_action:
        return state
    waiting = sum(
        isinstance(step, Create) or (isinstance(step, Delete) and step.reason.is_roll)
        for step in plan.queued
    )
    if not waiting:
        return state
    note = f"{_count(waiting)} {'waits' if waiting == 1 else 'wait'} for {first.name}"
    return state._replace(message=f"{state.message}; {note}" if state.message else note)


def _count(instances: int) -> str:
    return "1 instance" if instances == 1 else f"{instances} instances"


def _with_held(state: ConditionState, held: Sequence[HeldStep]) -> ConditionState:
    replaced = [each for each in held if isinstance(each.step, Delete)]
    if not replaced:
        return state
    note = f"the update of {_count(len(replaced))} is held back ({replaced[0].reason})"
    return state._replace(message=f"{state.message}; {note}" if state.message else note)


def _causes(instances: Sequence[compute.Instance]) -> list[tuple[int, ConditionState]]:
    """Priority and state of each unready Instance; lowest ordinal first, so that the first of
    equals is reported."""
    causes = []
    unready = [each for each in instances if not each.ready and not each.suspended]
    for instance in sorted(unready, key=lambda each: _by_ordinal(each.metadata.name)):
        ready = conditions.find(instance.status.conditions, compute.CONDITION_READY)
        if ready is None:
            continue
        cause = ready
        for gate in reasons.DECIDED_GATES:
            denial = gate_denial(gate, instance.status.conditions)
            if gate.reason == ready.reason and denial is not None:
                cause = denial
        state = ConditionState(conditions.FALSE, cause.reason, cause.message)
        causes.append((reasons.lookup(ready.reason).priority, state))
    return causes


def _by_ordinal(name: str) -> tuple[int, str]:
    """Names of one deployment's Instances differ in their ordinal alone, so shorter names
    come first: 9 before 10."""
    return len(name), name
