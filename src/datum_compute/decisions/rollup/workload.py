"""From deployments to the status of a placement and of the workload.

The Workload alone must explain why it is not available: the message names the cities and
repeats what their deployments report.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from datum_compute.api import conditions
from datum_compute.api.compute import reasons
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Condition, Conditions, ConditionState, wire_time
from datum_compute.api.name_patterns import QUALIFIED_NAME
from datum_compute.decisions.placement import PlacementPlan
from datum_compute.decisions.rollout.plan import RolloutPlan
from datum_compute.decisions.rollout.progress import with_progress

_CITY_CODE = re.compile(QUALIFIED_NAME)


def decide_workload_status(
    workload: compute.Workload,
    deployments: Sequence[compute.WorkloadDeployment],
    *,
    plan: PlacementPlan,
    now: datetime,
    missing_networks: Sequence[str] = (),
    rollout: RolloutPlan | None = None,
) -> compute.WorkloadStatus:
    """The status of a workload whose existing deployments, orphans included, are these. Without
    a ``rollout`` the conditions about it stay as they are."""
    outdated = rollout.outdated if rollout is not None else frozenset()
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
            outdated=outdated,
            now=now,
            generation=workload.metadata.generation,
        )
        for name in sorted(named | left)
    )
    available = _workload_available(placements, missing_networks)
    current = conditions.with_condition(
        workload.status.conditions,
        compute.CONDITION_AVAILABLE,
        *available,
        now=now,
        observed_generation=workload.metadata.generation,
    )
    if rollout is not None:
        current = with_progress(
            current, rollout.progressing, now=now, generation=workload.metadata.generation
        )
    return compute.WorkloadStatus(
        conditions=current,
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
    outdated: frozenset[str],
    now: datetime,
    generation: int,
) -> compute.PlacementStatus:
    unserved = {
        compute.scheduled_in_city(each.city): ConditionState(
            conditions.FALSE, compute.REASON_NO_MATCHING_LOCATION, _no_location(each.city)
        )
        for each in plan.unserved
        # The code is part of a condition's type, and the server rejects a malformed type.
        if each.placement == name and _CITY_CODE.fullmatch(each.city)
    }
    # What the spec no longer names is of no newest template, as is a wave that is not open.
    left = outdated | {each.metadata.name for each in plan.orphans}
    left |= {each.deployment.metadata.name for each in plan.kept}
    served = [
        each.type
        for each in current
        if each.type not in unserved and each.type.startswith(compute.scheduled_in_city(""))
    ]
    states = {compute.CONDITION_AVAILABLE: _placement_available(name, children, plan), **unserved}
    current = conditions.without(current, *served)
    for type, state in states.items():
        current = conditions.with_condition(
            current, type, *state, now=now, observed_generation=generation
        )
    return compute.PlacementStatus(
        name=name,
        conditions=current,
        replicas=sum(each.status.replicas for each in children),
        current_replicas=sum(each.status.current_replicas for each in children),
        updated_replicas=sum(_updated(each) for each in children if each.metadata.name not in left),
        desired_replicas=sum(each.status.desired_replicas for each in children),
        ready_replicas=sum(each.status.ready_replicas for each in children),
    )


def _no_location(city: str) -> str:
    return f"No available location serves {city}"


def _updated(deployment: compute.WorkloadDeployment) -> int:
    """A report on an older spec counts none of the newest template."""
    behind = deployment.status.observed_generation < deployment.metadata.generation
    return 0 if behind else deployment.status.updated_replicas


def _placement_available(
    name: str, children: Sequence[compute.WorkloadDeployment], plan: PlacementPlan
) -> ConditionState:
    available = sorted(each.spec.city_code for each in children if _is_available(each))
    blocked = _blocked_cities(name, children, plan)
    details = "; ".join([*(message for _, message in blocked), *_kept_cities(name, plan)])
    if available:
        where = f"Available in {', '.join(available)}"
        return ConditionState(
            conditions.TRUE,
            compute.REASON_AVAILABLE_DEPLOYMENT_FOUND,
            f"{where}; {details}" if details else where,
        )
    return ConditionState(
        conditions.FALSE,
        _blocking_reason((reason for reason, _ in blocked), reasons.PLACEMENT_AVAILABLE)
        or compute.REASON_NO_AVAILABLE_DEPLOYMENTS,
        details or "No deployment is available yet",
    )


def _blocking_reason(found: Iterable[str], condition: reasons.KindCondition) -> str:
    """Of the reasons that the condition may carry, the first of highest priority; empty where
    none is known."""
    records = [reasons.lookup(each) for each in found]
    carried = [each for each in records if condition in each.false and not each.placeholder]
    return max(carried, key=lambda each: each.priority).name if carried else ""


def _blocked_cities(
    placement: str, children: Sequence[compute.WorkloadDeployment], plan: PlacementPlan
) -> list[tuple[str, str]]:
    """Reason and message of each city that is not as wanted."""
    blocked = [
        (compute.REASON_NO_MATCHING_LOCATION, _no_location(each.city))
        for each in plan.unserved
        if each.placement == placement
    ]
    blocked += [
        (
            compute.REASON_PREVIOUS_DEPLOYMENT_TERMINATING,
            f"{each.city} waits until the previous deployment {each.name} is deleted",
        )
        for each in plan.blocked
        if each.placement == placement
    ]
    for deployment in children:
        cause = _cause(deployment)
        if cause is not None:
            blocked.append((cause.reason, _describe(deployment.spec.city_code, cause)))
    return blocked


def _kept_cities(placement: str, plan: PlacementPlan) -> list[str]:
    return [
        f"{each.deployment.spec.city_code} stays until "
        f"{', '.join(city for _, city in each.awaited)} {'is' if len(each.awaited) == 1 else 'are'}"
        " Available"
        for each in plan.kept
        if each.deployment.spec.placement_name == placement
    ]


def _cause(deployment: compute.WorkloadDeployment) -> Condition | None:
    """The condition that blocks the deployment."""
    for type, statuses in reasons.DEPLOYMENT_BLOCKING_CONDITIONS.items():
        condition = conditions.find(deployment.status.conditions, type)
        if condition is not None and condition.status in statuses:
            return condition
    return None


def _describe(city: str, cause: Condition) -> str:
    if cause.type == compute.CONDITION_CELL_REACHABLE:
        since = wire_time(cause.last_transition_time)
        return (
            f"{city}: no answer from the cell since {since} at the latest; its last report is shown"
        )
    return f"{city}: {cause.message or cause.reason} ({cause.reason})"


def _is_available(deployment: compute.WorkloadDeployment) -> bool:
    return conditions.is_true(deployment.status.conditions, compute.CONDITION_AVAILABLE)


def _workload_available(
    placements: Sequence[compute.PlacementStatus], missing_networks: Sequence[str]
) -> ConditionState:
    if missing_networks:
        listed = ", ".join(sorted(missing_networks))
        return ConditionState(
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
    details = "; ".join(f"{name}: {condition.message}" for name, condition in found)
    if any(condition.status == conditions.TRUE for _, condition in found):
        return ConditionState(conditions.TRUE, compute.REASON_AVAILABLE_PLACEMENT_FOUND, details)
    return ConditionState(
        conditions.FALSE,
        _blocking_reason((each.reason for _, each in found), reasons.WORKLOAD_AVAILABLE)
        or compute.REASON_NO_AVAILABLE_PLACEMENTS,
        details or "No placement is available yet",
    )
