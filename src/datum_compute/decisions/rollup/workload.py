"""From deployments to the status of a placement and of the workload.

A reader of the Workload alone must learn why it is not available: the message names the
cities concerned and repeats what their deployments say.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Condition, Conditions, wire_time
from datum_compute.decisions.placement import PlacementPlan

_PRIORITY = {
    compute.REASON_PREVIOUS_DEPLOYMENT_TERMINATING: 5,
    compute.REASON_NO_CELL_FOR_CITY: 6,
    compute.REASON_AMBIGUOUS_CELL: 6,
    compute.REASON_NO_MATCHING_LOCATION: 6,
}
"""Reasons a placement takes over as its own; any other child's is told in the message."""


def decide_workload_status(
    workload: compute.Workload,
    deployments: Sequence[compute.WorkloadDeployment],
    *,
    plan: PlacementPlan,
    now: datetime,
    missing_networks: Sequence[str] = (),
) -> compute.WorkloadStatus:
    """The status of a workload whose existing deployments, orphans included, are these."""
    ordered = sorted(deployments, key=lambda each: each.metadata.name)
    named = {placement.name for placement in workload.spec.placements}
    left = {each.spec.placement_name for each in ordered}
    previous = {placement.name: placement for placement in workload.status.placements}
    placements = tuple(
        _placement(
            name,
            [each for each in ordered if each.spec.placement_name == name],
            previous.get(name, compute.PlacementStatus(name=name)).conditions,
            plan=plan,
            now=now,
            generation=workload.metadata.generation,
        )
        for name in sorted(named | left)
    )
    status, reason, message = _workload_available(placements, missing_networks)
    return compute.WorkloadStatus(
        conditions=conditions.with_condition(
            workload.status.conditions,
            compute.CONDITION_AVAILABLE,
            status,
            reason,
            message,
            now=now,
            observed_generation=workload.metadata.generation,
        ),
        deployments=len(ordered),
        replicas=sum(each.replicas for each in placements),
        current_replicas=sum(each.current_replicas for each in placements),
        updated_replicas=sum(each.updated_replicas for each in placements),
        desired_replicas=sum(each.desired_replicas for each in placements),
        ready_replicas=sum(each.ready_replicas for each in placements),
        observed_generation=workload.metadata.generation,
        placements=placements,
    )


def _placement(
    name: str,
    children: Sequence[compute.WorkloadDeployment],
    current: Conditions,
    *,
    plan: PlacementPlan,
    now: datetime,
    generation: int,
) -> compute.PlacementStatus:
    status, reason, message = _placement_available(name, children, plan)
    return compute.PlacementStatus(
        name=name,
        conditions=conditions.with_condition(
            current,
            compute.CONDITION_AVAILABLE,
            status,
            reason,
            message,
            now=now,
            observed_generation=generation,
        ),
        replicas=sum(each.status.replicas for each in children),
        current_replicas=sum(each.status.current_replicas for each in children),
        updated_replicas=sum(_updated(each) for each in children),
        desired_replicas=sum(each.status.desired_replicas for each in children),
        ready_replicas=sum(each.status.ready_replicas for each in children),
    )


def _updated(deployment: compute.WorkloadDeployment) -> int:
    """A report on an older spec says nothing about the newest template."""
    behind = deployment.status.observed_generation < deployment.metadata.generation
    return 0 if behind else deployment.status.updated_replicas


_Said = tuple[str, str, str]
"""Status, reason, message."""


def _placement_available(
    name: str, children: Sequence[compute.WorkloadDeployment], plan: PlacementPlan
) -> _Said:
    available = sorted(each.spec.city_code for each in children if _is_available(each))
    obstacles = _obstacles(name, children, plan)
    told = "; ".join(message for _, message in obstacles)
    if available:
        where = f"Available in {', '.join(available)}"
        return (
            conditions.TRUE,
            compute.REASON_AVAILABLE_DEPLOYMENT_FOUND,
            f"{where}; {told}" if told else where,
        )
    reason = max(
        (reason for reason, _ in obstacles),
        key=lambda each: _PRIORITY.get(each, 0),
        default="",
    )
    if _PRIORITY.get(reason, 0) == 0:
        reason = compute.REASON_NO_AVAILABLE_DEPLOYMENTS
    return (conditions.FALSE, reason, told or "No deployment is available yet")


def _obstacles(
    placement: str, children: Sequence[compute.WorkloadDeployment], plan: PlacementPlan
) -> list[tuple[str, str]]:
    """Reason and message of each city that is not as wanted."""
    obstacles = [
        (compute.REASON_NO_MATCHING_LOCATION, f"No available location serves {each.city}")
        for each in plan.unserved
        if each.placement == placement
    ]
    obstacles += [
        (
            compute.REASON_PREVIOUS_DEPLOYMENT_TERMINATING,
            f"{each.city} waits until the previous deployment {each.name} is gone",
        )
        for each in plan.blocked
        if each.placement == placement
    ]
    for deployment in children:
        cause = _cause(deployment)
        if cause is not None:
            obstacles.append((cause.reason, _told(deployment.spec.city_code, cause)))
    return obstacles


def _cause(deployment: compute.WorkloadDeployment) -> Condition | None:
    """The deployment's own word on what is wrong: where before whether."""
    current = deployment.status.conditions
    for type in (compute.CONDITION_SCHEDULED, compute.CONDITION_CELL_REACHABLE):
        condition = conditions.find(current, type)
        if condition is not None and condition.status == conditions.FALSE:
            return condition
    ready = conditions.find(current, compute.CONDITION_REPLICAS_READY)
    return ready if ready is not None and ready.status != conditions.TRUE else None


def _told(city: str, cause: Condition) -> str:
    if cause.type == compute.CONDITION_CELL_REACHABLE:
        since = wire_time(cause.last_transition_time)
        return f"{city}: the cell has been unreachable since {since}, its report is of then"
    return f"{city}: {cause.message or cause.reason} ({cause.reason})"


def _is_available(deployment: compute.WorkloadDeployment) -> bool:
    return conditions.is_true(deployment.status.conditions, compute.CONDITION_AVAILABLE)


def _workload_available(
    placements: Sequence[compute.PlacementStatus], missing_networks: Sequence[str]
) -> _Said:
    if missing_networks:
        listed = ", ".join(sorted(missing_networks))
        return (
            conditions.FALSE,
            compute.REASON_NETWORK_NOT_FOUND,
            f"Networks not found: {listed}",
        )
    found = [
        (placement.name, condition)
        for placement in placements
        for condition in placement.conditions
        if condition.type == compute.CONDITION_AVAILABLE
    ]
    told = "; ".join(f"{name}: {condition.message}" for name, condition in found)
    if any(condition.status == conditions.TRUE for _, condition in found):
        return conditions.TRUE, compute.REASON_AVAILABLE_PLACEMENT_FOUND, told
    reason = max(
        (condition.reason for _, condition in found),
        key=lambda each: _PRIORITY.get(each, 0),
        default="",
    )
    if _PRIORITY.get(reason, 0) == 0:
        reason = compute.REASON_NO_AVAILABLE_PLACEMENTS
    return conditions.FALSE, reason, told or "No placement is available yet"
