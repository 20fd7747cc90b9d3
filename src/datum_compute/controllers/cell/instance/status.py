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
    quota: ConditionState,
    *,
    now: datetime,
    network_failure: str | None,
) -> DecidedStatus:
    """The conditions to write, and whether this reconcile removes the gate ``Quota``. If it does,
    Ready is decided as if the gate were gone, so that no second status write is needed."""
    before = instance.status.conditions
    current = _with_quota(instance, quota, now)
    instance = _with_conditions(instance, current)
    clears = may_clear_gate(instance, compute.GATE_QUOTA, current)
    decided = decide_conditions(instance, now=now, network_failure=network_failure)
    if clears:
        instance = _without_quota_gate(_with_conditions(instance, decided))
        decided = decide_conditions(instance, now=now, network_failure=network_failure)
    wanted = _with_unchanged_ready(current, decided)
    if wanted != before:
        wanted = _with_quota_as_of(wanted, instance.metadata.generation)
    return DecidedStatus(wanted, clears)


def _with_quota(instance: compute.Instance, quota: ConditionState, now: datetime) -> Conditions:
    current = instance.status.conditions
    previous = conditions.find(current, compute.CONDITION_QUOTA_GRANTED)
    is_same = previous is not None and ConditionState.of(previous) == quota
    if is_same and not has_gate(instance, compute.GATE_QUOTA):
        return current  # a grant of an older generation still holds
    return conditions.with_condition(
        current,
        compute.CONDITION_QUOTA_GRANTED,
        quota.status,
        quota.reason,
        quota.message,
        now=now,
        observed_generation=instance.metadata.generation,
    )


def _with_quota_as_of(current: Conditions, generation: int) -> Conditions:
    """A grant of an older generation still holds, and a client that waits ignores conditions of an
    older generation. Called only when another condition changes: it is not worth a write."""
    granted = conditions.find(current, compute.CONDITION_QUOTA_GRANTED)
    if granted is None or granted.status != conditions.TRUE:
        return current
    return conditions.merged(
        current, msgspec.structs.replace(granted, observed_generation=generation)
    )


def _with_unchanged_ready(before: Conditions, after: Conditions) -> Conditions:
    """``after``, with the previous Ready where only its observedGeneration would change: removing
    a gate changes the generation, and is not worth a write."""
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
