"""Which changes of a status get an Event.

Each function takes a status before and after one write and reports transitions only. The
plane where a status is decided and every plane to which it is copied use the same functions,
so both have the same Events.

A healthy object gets few: one when it starts to serve, one when the wanted number changes. A
blocking reason that needs action always gets a Warning, and so does a workload that no
longer serves, unless a user asked for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from datum_compute.api import conditions
from datum_compute.api.compute import reasons
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Condition, Conditions

NORMAL, WARNING = "Normal", "Warning"

NO_BUDGET_AFTER = timedelta(seconds=10)
"""A claim not evaluated yet has the same reason as one without a budget. A guess: far longer
than an evaluation takes."""

_RECOVERS = (compute.CONDITION_SCHEDULED, compute.CONDITION_CELL_REACHABLE)
"""Conditions with an Event when they are True again, but not when they are first True."""

_ROLLOUT_ENDS = (compute.REASON_COMPLETE, compute.REASON_PAUSED)
"""Reasons of Progressing with a Normal Event, besides those that need a person, with a Warning."""


@dataclass(frozen=True, slots=True)
class EventContent:
    type: str
    reason: str
    message: str


def decide_instance_events(before: Conditions, after: Conditions) -> tuple[EventContent, ...]:
    events: list[EventContent] = []
    for gate in reasons.DECIDED_GATES:
        decided = _changed(before, after, gate.condition)
        if decided is not None and decided.status != conditions.TRUE and _warns(decided):
            events.append(_warning(decided))
    ready = _changed(before, after, compute.CONDITION_READY)
    if ready is not None:
        if ready.status == conditions.TRUE:
            events.append(EventContent(NORMAL, ready.reason, ready.message))
        elif _warns(ready) and ready.reason not in reasons.GATE_REASONS:
            events.append(_warning(ready))
    return tuple(dict.fromkeys(events))


def decide_no_budget_event(
    current: Conditions, *, created: datetime | None, now: datetime
) -> EventContent | None:
    """The Warning for an Instance that has had no budget for longer than an evaluation takes."""
    quota = conditions.find(current, compute.CONDITION_QUOTA_GRANTED)
    if quota is None or quota.reason != compute.REASON_QUOTA_NO_BUDGET:
        return None
    if created is None or now - created < NO_BUDGET_AFTER:
        return None
    return _warning(quota)


def decide_deployment_events(
    before: compute.WorkloadDeploymentStatus, after: compute.WorkloadDeploymentStatus
) -> tuple[EventContent, ...]:
    events: list[EventContent] = []
    # Without a cell nothing is scaled: Scheduled gets the Event instead.
    unplaced = _is_false(after.conditions, compute.CONDITION_SCHEDULED)
    if before.desired_replicas != after.desired_replicas and not unplaced:
        text = f"Scaled from {before.desired_replicas} to {after.desired_replicas} Instances"
        events.append(EventContent(NORMAL, compute.REASON_SCALED, text))
    for type_ in (
        compute.CONDITION_SCHEDULED,
        compute.CONDITION_CELL_REACHABLE,
        compute.CONDITION_PROPAGATED,
        compute.CONDITION_REPLICAS_READY,
        compute.CONDITION_AVAILABLE,
        compute.CONDITION_REFERENCED_DATA_READY,
        compute.CONDITION_REMOVED,
        compute.CONDITION_FOUND_ON_HUB,
    ):
        changed = _changed(before.conditions, after.conditions, type_)
        if changed is None:
            continue
        if changed.status != conditions.TRUE:
            if _warns(changed):
                events.append(_warning(changed))
        elif type_ == compute.CONDITION_AVAILABLE or (
            type_ in _RECOVERS and _is_false(before.conditions, type_)
        ):
            events.append(EventContent(NORMAL, changed.reason, changed.message))
    return tuple(dict.fromkeys(events))


def decide_workload_events(before: Conditions, after: Conditions) -> tuple[EventContent, ...]:
    events = []
    available = _changed(before, after, compute.CONDITION_AVAILABLE)
    if available is not None:
        has_served = conditions.is_true(before, compute.CONDITION_AVAILABLE)
        if available.status == conditions.TRUE:
            events.append(EventContent(NORMAL, available.reason, available.message))
        elif has_served or _warns(available):
            events.append(_warning(available))
    progressing = _changed(before, after, compute.CONDITION_PROGRESSING)
    if progressing is not None and progressing.reason in _ROLLOUT_ENDS:
        events.append(EventContent(NORMAL, progressing.reason, progressing.message))
    elif progressing is not None and reasons.lookup(progressing.reason).terminal:
        events.append(_warning(progressing))
    return tuple(events)


def _changed(before: Conditions, after: Conditions, type_: str) -> Condition | None:
    """The condition where its status or its reason has changed."""
    now, then = conditions.find(after, type_), conditions.find(before, type_)
    if now is None or (then and (then.status, then.reason) == (now.status, now.reason)):
        return None
    return now


def _is_false(given: Conditions, type_: str) -> bool:
    found = conditions.find(given, type_)
    return found is not None and found.status == conditions.FALSE


def _warns(condition: Condition) -> bool:
    reason = reasons.lookup(condition.reason)
    return reason.needs_action or reason.warns


def _warning(condition: Condition) -> EventContent:
    requested = reasons.lookup(condition.reason).requested
    return EventContent(NORMAL if requested else WARNING, condition.reason, condition.message)
