"""The conditions of an Instance: those of its gates as decided, Ready from all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from datum_compute.api import conditions
from datum_compute.api.compute import reasons
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Conditions, ConditionState
from datum_compute.decisions.instances.gates import has_gate, may_clear_gate
from datum_compute.decisions.rollup.readiness import decide_conditions

GateConditions = Mapping[str, ConditionState]
"""What the conditions of gates should be, by gate."""


@dataclass(frozen=True, slots=True)
class DecidedStatus:
    conditions: Conditions
    cleared_gates: tuple[str, ...]
    """The gates that this reconcile removes."""


def decide_instance_status(
    instance: compute.Instance,
    gate_conditions: GateConditions,
    *,
    now: datetime,
    network_failure: str | None,
) -> DecidedStatus:
    """The conditions to write, and the gates to remove. Ready is decided as if these were gone, so
    that no second status write is needed."""
    before = instance.status.conditions
    gates = [each for each in reasons.DECIDED_GATES if each.name in gate_conditions]
    current = before
    for gate in gates:
        wanted_state = gate_conditions[gate.name]
        current = _with_gate_condition(instance, current, gate, wanted_state, now)
    instance = _with_conditions(instance, current)
    cleared = tuple(each.name for each in gates if may_clear_gate(instance, each.name, current))
    decided = decide_conditions(instance, now=now, network_failure=network_failure)
    if cleared:
        instance = _without_gates(_with_conditions(instance, decided), cleared)
        decided = decide_conditions(instance, now=now, network_failure=network_failure)
    wanted = _with_unchanged_ready(current, decided)
    if wanted != before:
        for gate in gates:
            wanted = _with_condition_as_of(wanted, gate.condition, instance.metadata.generation)
    return DecidedStatus(wanted, cleared)


def _with_gate_condition(
    instance: compute.Instance,
    current: Conditions,
    gate: reasons.Gate,
    wanted: ConditionState,
    now: datetime,
) -> Conditions:
    previous = conditions.find(current, gate.condition)
    is_same = previous is not None and ConditionState.of(previous) == wanted
    if is_same and not has_gate(instance, gate.name):
        return current  # a grant of an older generation still holds
    return conditions.with_condition(
        current,
        gate.condition,
        wanted.status,
        wanted.reason,
        wanted.message,
        now=now,
        observed_generation=instance.metadata.generation,
    )


def _with_condition_as_of(current: Conditions, type_: str, generation: int) -> Conditions:
    """A grant of an older generation still holds, and a client that waits ignores conditions of an
    older generation. Called only when another condition changes: it is not worth a write."""
    granted = conditions.find(current, type_)
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


def _without_gates(instance: compute.Instance, cleared: Sequence[str]) -> compute.Instance:
    controller = instance.spec.controller
    if controller is None:
        return instance
    left = tuple(gate for gate in controller.scheduling_gates if gate.name not in cleared)
    controller = msgspec.structs.replace(controller, scheduling_gates=left)
    spec = msgspec.structs.replace(instance.spec, controller=controller)
    return msgspec.structs.replace(instance, spec=spec)
