"""Ready of an Instance: whether it serves, and if not, why.

Several reasons can hold at once. Ready carries the one of highest priority, the one worth acting
on: a network that failed explains more than a gate that is still set.
"""

from __future__ import annotations

from datetime import datetime

from datum_compute.api import conditions
from datum_compute.api.compute import reasons
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Condition, Conditions, ConditionState

_NEVER_EXPLAINING = (
    compute.CONDITION_PROGRAMMED,
    compute.CONDITION_READY,
    *(each.condition for each in reasons.DECIDED_GATES),
    "Running",  # the former name of Available
)


def decide_conditions(
    instance: compute.Instance, *, now: datetime, network_failure: str | None = None
) -> Conditions:
    """The Instance's conditions with Ready brought up to date.

    The conditions of its gates must be up to date already. ``network_failure`` is the message
    of a NetworkBinding that failed for good. Programmed and Available, which belong to the
    provider, are written only while a gate with a reason for them keeps the provider from starting.
    """
    current = instance.status.conditions
    generation = instance.metadata.generation
    for gate in (each for each in _decided(instance.gates) if each.reason):
        for type in (compute.CONDITION_PROGRAMMED, compute.CONDITION_AVAILABLE):
            current = _with_gate_reason(gate, current, type, now=now, generation=generation)
    if instance.gates:
        ready = _behind_gates(instance.gates, current, network_failure)
    elif not conditions.is_true(current, compute.CONDITION_PROGRAMMED):
        ready = _not_programmed(current)
    else:
        ready = _programmed(current)
    return conditions.with_condition(
        current,
        compute.CONDITION_READY,
        *ready,
        now=now,
        observed_generation=generation,
    )


def is_ready_due(instance: compute.Instance) -> bool:
    """Whether Ready does not reflect the provider's report yet. Never while a gate is set: no
    provider reports then."""
    return instance.serves != instance.ready and not instance.gates


def gate_denial(gate: reasons.Gate, current: Conditions) -> Condition | None:
    """The gate's condition if it is False; it matters only while the gate is set."""
    found = conditions.find(current, gate.condition)
    return found if found is not None and found.status == conditions.FALSE else None


def _decided(gates: tuple[str, ...]) -> list[reasons.Gate]:
    """Those of the gates that a condition of the Instance decides."""
    return [each for each in reasons.DECIDED_GATES if each.name in gates]


def _with_gate_reason(
    gate: reasons.Gate, current: Conditions, type: str, *, now: datetime, generation: int
) -> Conditions:
    """The provider's condition of this type with the gate's reason while the gate is denied, and
    Pending once it is not."""
    denial = gate_denial(gate, current)
    found = conditions.find(current, type)
    if denial is not None:
        state = ConditionState(conditions.FALSE, gate.reason, denial.message)
    elif found is not None and found.reason == gate.reason:
        state = ConditionState(
            conditions.UNKNOWN, compute.REASON_PENDING, compute.WAITING_FOR_CONTROLLER
        )
    else:
        return current
    return conditions.with_condition(current, type, *state, now=now, observed_generation=generation)


def _behind_gates(
    gates: tuple[str, ...], current: Conditions, network_failure: str | None
) -> ConditionState:
    states = [
        ConditionState(
            conditions.FALSE,
            compute.REASON_SCHEDULING_GATES_PRESENT,
            f"Scheduling gates present: {', '.join(gates)}",
        )
    ]
    for gate in _decided(gates):
        denial = gate_denial(gate, current)
        if denial is not None:
            reason = gate.reason or denial.reason
            states.append(ConditionState(conditions.FALSE, reason, denial.message))
    if network_failure is not None:
        states.append(
            ConditionState(
                conditions.FALSE, compute.REASON_NETWORK_FAILED_TO_CREATE, network_failure
            )
        )
    return max(states, key=lambda each: reasons.lookup(each.reason).priority)


def _not_programmed(current: Conditions) -> ConditionState:
    best = ConditionState(
        conditions.FALSE, compute.REASON_PENDING_PROGRAMMING, "Instance has not been programmed"
    )
    programmed = conditions.find(current, compute.CONDITION_PROGRAMMED)
    others = [each for each in current if each.type not in _NEVER_EXPLAINING]
    if programmed is not None and _explains(programmed):
        best = ConditionState.of(programmed)
        # Last: of two that explain as much, the other one is more specific.
        others.append(programmed)
    highest = 0
    for condition in others:
        priority = reasons.lookup(condition.reason).priority
        open_ = condition.status != conditions.TRUE and _explains(condition)
        if open_ and priority > highest:
            best, highest = ConditionState.of(condition), priority
    return best


def _explains(condition: Condition) -> bool:
    # Without gates, a gate's reason on a provider's condition is outdated.
    placeholder = reasons.lookup(condition.reason).placeholder
    return not placeholder and condition.reason not in reasons.GATE_REASONS


def _programmed(current: Conditions) -> ConditionState:
    available = conditions.find(current, compute.CONDITION_AVAILABLE)
    if available is not None and available.status == conditions.TRUE:
        return ConditionState(conditions.TRUE, compute.REASON_AVAILABLE, "Instance is ready")
    if available is None or not _explains(available):
        return ConditionState(conditions.FALSE, compute.REASON_PENDING, "Instance is not available")
    return ConditionState.of(available)
