"""Which changes of a status are worth an Event, and what it says.

A function here is given a status before and after one write, and tells of transitions only:
what stays as it was has been told. The same functions speak for the plane where a status is
decided and for every plane to which it is copied, so a person reads the same in both.

Little is told while all goes well: one Event when something starts to serve, one when the
wanted number changes. What is in the way, and needs somebody to act, is always told, and so
is a workload that serves no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from datum_compute.api import conditions
from datum_compute.api.compute import reasons
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Condition, Conditions

NORMAL, WARNING = "Normal", "Warning"

_ALSO_TOLD = (compute.REASON_CELL_UNREACHABLE,)
"""Nobody needs to act at once, and yet nothing goes on."""

NO_BUDGET_AFTER = timedelta(seconds=10)
"""A claim that nobody has looked at yet says the same as one without a budget. A guess: far
longer than an answer takes."""

_COMES_BACK = (compute.CONDITION_SCHEDULED, compute.CONDITION_CELL_REACHABLE)
"""Worth telling when they are well again; at the start that goes without saying."""

_TOLD_BY_QUOTA = (compute.REASON_PENDING_QUOTA,)
"""Reasons of Ready that repeat what QuotaGranted has said already."""


@dataclass(frozen=True, slots=True)
class EventContent:
    type: str
    reason: str
    message: str


def decide_instance_events(before: Conditions, after: Conditions) -> tuple[EventContent, ...]:
    notices: list[EventContent] = []
    quota = _changed(before, after, compute.CONDITION_QUOTA_GRANTED)
    if quota is not None and quota.status != conditions.TRUE and _blocks(quota):
        notices.append(_warning(quota))
    ready = _changed(before, after, compute.CONDITION_READY)
    if ready is not None:
        if ready.status == conditions.TRUE:
            notices.append(EventContent(NORMAL, ready.reason, ready.message))
        elif _blocks(ready) and ready.reason not in _TOLD_BY_QUOTA:
            notices.append(_warning(ready))
    return tuple(notices)


def decide_no_budget_event(
    current: Conditions, *, created: datetime | None, now: datetime
) -> EventContent | None:
    """Told of an Instance that has waited for a budget, and not only for an answer."""
    quota = conditions.find(current, compute.CONDITION_QUOTA_GRANTED)
    if quota is None or quota.reason != compute.REASON_QUOTA_NO_BUDGET:
        return None
    if created is None or now - created < NO_BUDGET_AFTER:
        return None
    return _warning(quota)


def decide_deployment_events(
    before: compute.WorkloadDeploymentStatus, after: compute.WorkloadDeploymentStatus
) -> tuple[EventContent, ...]:
    notices: list[EventContent] = []
    # What no cell has, nobody scales: that is told instead.
    unplaced = _is_false(after.conditions, compute.CONDITION_SCHEDULED)
    if before.desired_replicas != after.desired_replicas and not unplaced:
        text = f"Scaled from {before.desired_replicas} to {after.desired_replicas} Instances"
        notices.append(EventContent(NORMAL, compute.REASON_SCALED, text))
    for type_ in (
        compute.CONDITION_SCHEDULED,
        compute.CONDITION_CELL_REACHABLE,
        compute.CONDITION_REPLICAS_READY,
        compute.CONDITION_AVAILABLE,
    ):
        changed = _changed(before.conditions, after.conditions, type_)
        if changed is None:
            continue
        if changed.status != conditions.TRUE:
            if _blocks(changed):
                notices.append(_warning(changed))
        elif type_ == compute.CONDITION_AVAILABLE or (
            type_ in _COMES_BACK and _is_false(before.conditions, type_)
        ):
            notices.append(EventContent(NORMAL, changed.reason, changed.message))
    return tuple(dict.fromkeys(notices))


def decide_workload_events(before: Conditions, after: Conditions) -> tuple[EventContent, ...]:
    available = _changed(before, after, compute.CONDITION_AVAILABLE)
    if available is None:
        return ()
    if available.status == conditions.TRUE:
        return (EventContent(NORMAL, available.reason, available.message),)
    has_served = conditions.is_true(before, compute.CONDITION_AVAILABLE)
    return (_warning(available),) if has_served or _blocks(available) else ()


def _changed(before: Conditions, after: Conditions, type_: str) -> Condition | None:
    """The condition where its status or its reason is another than before."""
    now, then = conditions.find(after, type_), conditions.find(before, type_)
    if now is None or (then and (then.status, then.reason) == (now.status, now.reason)):
        return None
    return now


def _is_false(given: Conditions, type_: str) -> bool:
    found = conditions.find(given, type_)
    return found is not None and found.status == conditions.FALSE


def _blocks(condition: Condition) -> bool:
    return condition.reason in _ALSO_TOLD or reasons.explain(condition.reason).blocks


def _warning(condition: Condition) -> EventContent:
    return EventContent(WARNING, condition.reason, condition.message)
