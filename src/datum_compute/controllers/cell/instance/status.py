"""The conditions of an Instance: QuotaGranted from its claim, Ready from all others."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import msgspec

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Conditions, ConditionState
from datum_compute.decisions.instances.gates import has_gate, may_clear_gate
from datum_compute.decisions.rollup.readiness import decide_conditions


@dataclass(frozen=True, slots=True)
class DecidedStatus:
    conditions: Conditions
    clears_quota_gate: bool


def decide_instance_status(
    instance: compute.Instance,
    verdict: ConditionState,
    *,
    now: datetime,
    network_failure: str | None,
) -> DecidedStatus:
    """The wanted conditions, and whether the Quota gate is removed in this reconcile. Ready is
    decided without that gate then, so that its removal needs no second status write."""
    before = instance.status.conditions
    current = _with_quota(instance, verdict, now)
    instance = _with_conditions(instance, current)
    clears = may_clear_gate(instance, compute.GATE_QUOTA, current)
    decided = decide_conditions(instance, now=now, network_failure=network_failure)
    if clears:
        instance = _without_quota_gate(_with_conditions(instance, decided))
        decided = decide_conditions(instance, now=now, network_failure=network_failure)
    wanted = _settled(current, decided)
    if wanted != before:
        wanted = _with_quota_as_of(wanted, instance.metadata.generation)
    return DecidedStatus(wanted, clears)


def _with_quota(instance: compute.Instance, verdict: ConditionState, now: datetime) -> Conditions:
    current = instance.status.conditions
    previous = conditions.find(current, compute.CONDITION_QUOTA_GRANTED)
    is_same = previous is not None and ConditionState.of(previous) == verdict
    if is_same and not has_gate(instance, compute.GATE_QUOTA):
        return current  # of an older generation, and still true
    return conditions.with_condition(
        current,
        compute.CONDITION_QUOTA_GRANTED,
        verdict.status,
        verdict.reason,
        verdict.message,
        now=now,
        observed_generation=instance.metadata.generation,
    )


def _with_quota_as_of(current: Conditions, generation: int) -> Conditions:
    """A grant of an older generation holds for this one. Updated only together with another
    change; a client that waits ignores conditions of an older generation."""
    granted = conditions.find(current, compute.CONDITION_QUOTA_GRANTED)
    if granted is None or granted.status != conditions.TRUE:
        return current
    return conditions.merged(
        current, msgspec.structs.replace(granted, observed_generation=generation)
    )


def _settled(before: Conditions, after: Conditions) -> Conditions:
    """Ready as before where only its generation would change: removing a gate changes that,
    which is no news."""
    was = conditions.find(before, compute.CONDITION_READY)
    ready = conditions.find(after, compute.CONDITION_READY)
    if was is None or ready is None:
        return after
    same = (was.status, was.reason, was.message) == (ready.status, ready.reason, ready.message)
    return conditions.merged(after, was) if same else after


def _with_conditions(instance: compute.Instance, current: Conditions) -> compute.Instance:
    status = msgspec.structs.replace(instance.status, conditions=current)
    return msgspec.structs.replace(instance, status=status)


def _without_quota_gate(instance: compute.Instance) -> compute.Instance:
    controller = instance.spec.controller
    if controller is None:
        return instance
    left = tuple(gate for gate in controller.scheduling_gates if gate.name != compute.GATE_QUOTA)
    controller = msgspec.structs.replace(controller, scheduling_gates=left)
    spec = msgspec.structs.replace(instance.spec, controller=controller)
    return msgspec.structs.replace(instance, spec=spec)
