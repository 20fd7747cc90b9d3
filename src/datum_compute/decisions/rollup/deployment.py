"""From Instances to their deployment's status.

Counters count; the two conditions say different things. Available asks whether anybody is
served at all. ReplicasReady asks whether everything is as wanted, and when it is not, it
carries the cause a client should show, so that nobody has to list Instances for it. What is
held back is told there too: as the cause where that keeps replicas from being ready, and
otherwise in the message alone, because an older template serves as well as it ever did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from datum_compute.api import conditions
from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.references import LocationReference
from datum_compute.decisions.instances.plan import Delete, DeleteReason, HeldStep
from datum_compute.decisions.instances.policies import policy_fault
from datum_compute.decisions.rollup.readiness import denied_quota, reason_priority


@dataclass(frozen=True, slots=True)
class DeploymentContext:
    """What a cell knows about a deployment besides its Instances."""

    location: LocationReference | None = None
    """The Location of its city, once found."""
    location_needed: bool = False
    """Whether not having found one is an obstacle: only where networking is on."""
    networks_ready: bool = True
    refusal: str = ""
    """Why the cell takes no Instance of the template; empty where it does."""


def decide_deployment_status(
    deployment: compute.WorkloadDeployment,
    instances: Sequence[compute.Instance],
    *,
    template_hash: str,
    context: DeploymentContext,
    now: datetime,
    held: Sequence[HeldStep] = (),
) -> compute.WorkloadDeploymentStatus:
    """The status a cell reports. ``instances`` are those listed when the pass began, and
    ``held`` the steps that may not happen for a reason of their own."""
    desired = 0 if deployment.metadata.deleting else deployment.spec.scale_settings.min_replicas
    updated = [each for each in instances if each.observed_template_hash == template_hash]
    ready = sum(1 for each in instances if each.ready)
    generation = deployment.source_generation
    available = _available(ready, len(instances), desired, context)
    standing = [
        each
        for each in instances
        # One about to be replaced says nothing about the template that replaces it.
        if each.template_hash == template_hash and not each.metadata.deleting
    ]
    # One on its way out serves, but does not stand in for one that is wanted.
    serving = sum(1 for each in instances if each.ready and _is_wanted(each, deployment, desired))
    complete = _with_held(_replicas_ready(standing, serving, desired, context, held), held)
    if fault := policy_fault(deployment.spec.scale_settings.instance_management_policy):
        # Nothing is created or replaced under it, so nothing else matters as much.
        complete = (conditions.FALSE, compute.REASON_CONFIGURATION_ERROR, fault)
    elif context.refusal:
        refused = f"the cell takes no Instance of this template: {context.refusal}"
        complete = (conditions.FALSE, compute.REASON_CONFIGURATION_ERROR, refused)
    current = deployment.status.conditions
    for type, (status, reason, message) in (
        (compute.CONDITION_AVAILABLE, available),
        (compute.CONDITION_REPLICAS_READY, complete),
    ):
        current = conditions.with_condition(
            current, type, status, reason, message, now=now, observed_generation=generation
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
    )


def _is_wanted(
    instance: compute.Instance, deployment: compute.WorkloadDeployment, desired: int
) -> bool:
    meta = instance.metadata
    ordinal = names.ordinal_of(meta.labels, meta.name, deployment.metadata.name)
    return ordinal is not None and ordinal < desired


_Said = tuple[str, str, str]
"""Status, reason, message."""


def _available(ready: int, replicas: int, desired: int, around: DeploymentContext) -> _Said:
    if ready:
        return (
            conditions.TRUE,
            compute.REASON_STABLE_INSTANCE_FOUND,
            f"{ready} of {desired} instances are ready",
        )
    return _obstacle(around) or (
        conditions.FALSE,
        compute.REASON_PROVISIONING_INSTANCES,
        "Instances are being provisioned" if replicas or desired else "No instances are wanted",
    )


def _obstacle(around: DeploymentContext) -> _Said | None:
    """What stands in the way of every Instance alike."""
    if around.location_needed and around.location is None:
        return (
            conditions.FALSE,
            compute.REASON_NO_MATCHING_LOCATION,
            "No location of this city is known to the cell",
        )
    if not around.networks_ready:
        return (
            conditions.FALSE,
            compute.REASON_PROVISIONING_NETWORK,
            "Networks are being provisioned",
        )
    return None


def _replicas_ready(
    standing: Sequence[compute.Instance],
    ready: int,
    desired: int,
    around: DeploymentContext,
    held: Sequence[HeldStep],
) -> _Said:
    if ready >= desired:
        return (
            conditions.TRUE,
            compute.REASON_REPLICAS_AVAILABLE,
            f"{ready} of {desired} instances are ready",
        )
    worst = max(_causes(standing), key=lambda cause: cause[0], default=None)
    # A gate that is still closed explains less than the reason why it is.
    if worst is not None and worst[0] > 0:
        return (conditions.FALSE, worst[1], worst[2])
    count = f"{ready} of {desired} instances are ready"
    for each in held:
        if isinstance(each.step, Delete) and each.step.reason is DeleteReason.REPLACE_UNREADY:
            return (conditions.FALSE, each.reason, count)
    if obstacle := _obstacle(around):
        return obstacle
    if worst is not None:
        return (conditions.FALSE, worst[1], worst[2])
    return (conditions.FALSE, compute.REASON_PROVISIONING_INSTANCES, count)


def _with_held(said: _Said, held: Sequence[HeldStep]) -> _Said:
    replaced = [each for each in held if isinstance(each.step, Delete)]
    if not replaced:
        return said
    status, reason, message = said
    which = "1 instance" if len(replaced) == 1 else f"{len(replaced)} instances"
    told = f"the update of {which} is held back ({replaced[0].reason})"
    return status, reason, f"{message}; {told}" if message else told


def _causes(instances: Sequence[compute.Instance]) -> list[tuple[int, str, str]]:
    """Priority, reason and message of each unready Instance; lowest ordinal first, so that
    the first of equals is the one to show."""
    causes = []
    unready = [each for each in instances if not each.ready]
    for instance in sorted(unready, key=lambda each: _by_ordinal(each.metadata.name)):
        ready = conditions.find(instance.status.conditions, compute.CONDITION_READY)
        if ready is None:
            continue
        denied = denied_quota(instance.status.conditions)
        blamed = ready
        if ready.reason == compute.REASON_PENDING_QUOTA and denied is not None:
            blamed = denied
        causes.append((reason_priority(ready.reason), blamed.reason, blamed.message))
    return causes


def _by_ordinal(name: str) -> tuple[int, str]:
    """Names of one deployment's Instances differ in their ordinal alone, hence in length
    first: 9 before 10."""
    return len(name), name
