"""Ready of an Instance: one condition that says whether it serves, and if not, why.

Several things can stand in the way at once; the reader gets the one worth acting on. An
obstacle has a priority, and the highest wins: a network that failed to come up explains
more than a gate that is still closed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Condition, Conditions

_PRIORITY = {
    compute.REASON_PROVISIONING: 1,
    compute.REASON_PENDING_QUOTA: 3,
    compute.REASON_IMAGE_UNAVAILABLE: 5,
    compute.REASON_INSTANCE_CRASHING: 5,
    compute.REASON_CONFIGURATION_ERROR: 5,
    compute.REASON_NETWORK_FAILED_TO_CREATE: 7,
}

_NO_CAUSE = (compute.REASON_PENDING, compute.REASON_PENDING_PROGRAMMING, "")
"""Reasons of Programmed that say no more than that it is not."""

_NEVER_COMPETES = (
    compute.CONDITION_PROGRAMMED,
    compute.CONDITION_READY,
    compute.CONDITION_QUOTA_GRANTED,
    "Running",  # what Available was called; a leftover entry means nothing
)


def reason_priority(reason: str) -> int:
    """How much a reason explains: the highest of several is the one to show."""
    return _PRIORITY.get(reason, 0)


@dataclass(frozen=True, slots=True)
class _Verdict:
    status: str
    reason: str
    message: str


def decide_conditions(
    instance: compute.Instance, *, now: datetime, network_failure: str | None = None
) -> Conditions:
    """The Instance's conditions with Ready put right.

    Ask it with QuotaGranted already up to date. ``network_failure`` is the message of a
    NetworkBinding that failed for good. Programmed and Available, which belong to the
    provider, are touched only while the Quota gate keeps the provider away.
    """
    current = instance.status.conditions
    generation = instance.metadata.generation
    if compute.GATE_QUOTA in instance.gates:
        for type in (compute.CONDITION_PROGRAMMED, compute.CONDITION_AVAILABLE):
            current = _quota_on(current, type, now=now, generation=generation)
    if instance.gates:
        ready = _behind_gates(instance.gates, current, network_failure)
    elif not conditions.is_true(current, compute.CONDITION_PROGRAMMED):
        ready = _not_programmed(current)
    else:
        ready = _programmed(current)
    return conditions.with_condition(
        current,
        compute.CONDITION_READY,
        ready.status,
        ready.reason,
        ready.message,
        now=now,
        observed_generation=generation,
    )


def is_ready_due(instance: compute.Instance) -> bool:
    """Whether Ready has still to follow what the provider says by now; behind a gate there is
    no provider to follow."""
    return instance.serves != instance.ready and not instance.gates


def denied_quota(current: Conditions) -> Condition | None:
    """QuotaGranted when it is False; it matters only while the Quota gate is on."""
    quota = conditions.find(current, compute.CONDITION_QUOTA_GRANTED)
    return quota if quota is not None and quota.status == conditions.FALSE else None


def _quota_on(current: Conditions, type: str, *, now: datetime, generation: int) -> Conditions:
    """Say on a provider's condition that quota is in the way, and take it back after."""
    denied = denied_quota(current)
    if denied is not None:
        return conditions.with_condition(
            current,
            type,
            conditions.FALSE,
            compute.REASON_PENDING_QUOTA,
            denied.message,
            now=now,
            observed_generation=generation,
        )
    said = conditions.find(current, type)
    if said is None or said.reason != compute.REASON_PENDING_QUOTA:
        return current
    return conditions.with_condition(
        current,
        type,
        conditions.UNKNOWN,
        compute.REASON_PENDING,
        "Waiting for controller",
        now=now,
        observed_generation=generation,
    )


def _behind_gates(
    gates: tuple[str, ...], current: Conditions, network_failure: str | None
) -> _Verdict:
    obstacles = [
        _Verdict(
            conditions.FALSE,
            compute.REASON_SCHEDULING_GATES_PRESENT,
            f"Scheduling gates present: {', '.join(gates)}",
        )
    ]
    denied = denied_quota(current)
    if denied is not None and compute.GATE_QUOTA in gates:
        obstacles.append(_Verdict(conditions.FALSE, compute.REASON_PENDING_QUOTA, denied.message))
    if network_failure is not None:
        obstacles.append(
            _Verdict(conditions.FALSE, compute.REASON_NETWORK_FAILED_TO_CREATE, network_failure)
        )
    return max(obstacles, key=lambda each: reason_priority(each.reason))


def _not_programmed(current: Conditions) -> _Verdict:
    best = _Verdict(
        conditions.FALSE, compute.REASON_PENDING_PROGRAMMING, "Instance has not been programmed"
    )
    programmed = conditions.find(current, compute.CONDITION_PROGRAMMED)
    others = [each for each in current if each.type not in _NEVER_COMPETES]
    if programmed is not None and _explains(programmed):
        best = _verdict_of(programmed)
        # Last in line: of two that explain as much, the other one is the more telling.
        others.append(programmed)
    highest = 0
    for condition in others:
        open_ = condition.status != conditions.TRUE and _explains(condition)
        if open_ and reason_priority(condition.reason) > highest:
            best, highest = _verdict_of(condition), reason_priority(condition.reason)
    return best


def _explains(condition: Condition) -> bool:
    # Without gates quota plays no part: its word on a provider's condition is a leftover.
    return condition.reason not in (*_NO_CAUSE, compute.REASON_PENDING_QUOTA)


def _programmed(current: Conditions) -> _Verdict:
    available = conditions.find(current, compute.CONDITION_AVAILABLE)
    if available is not None and available.status == conditions.TRUE:
        return _Verdict(conditions.TRUE, compute.REASON_AVAILABLE, "Instance is ready")
    if available is None or not _explains(available):
        return _Verdict(conditions.FALSE, compute.REASON_PENDING, "Instance is not available")
    return _verdict_of(available)


def _verdict_of(condition: Condition) -> _Verdict:
    return _Verdict(condition.status, condition.reason, condition.message)
