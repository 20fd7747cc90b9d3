"""Scheduling gates: what an Instance waits for before a provider may start it."""

from __future__ import annotations

from typing import Any

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute


def gates_for_new(*, networks_ready: bool) -> tuple[str, ...]:
    """The gates a new Instance is stamped with, in order.

    No Network gate where networks are ready already, or nobody provides them: it would
    only be taken off again.
    """
    if networks_ready:
        return (compute.GATE_QUOTA,)
    return (compute.GATE_NETWORK, compute.GATE_QUOTA)


def has_gate(instance: compute.Instance, gate: str) -> bool:
    return gate in instance.gates


def may_clear_quota_gate(instance: compute.Instance, verdict: conditions.Conditions) -> bool:
    """Whether the Quota gate can go: granted, and for this very spec.

    ``verdict`` holds the conditions as they are about to be, or were just, written.
    """
    granted = conditions.find(verdict, compute.CONDITION_QUOTA_GRANTED)
    return (
        has_gate(instance, compute.GATE_QUOTA)
        and granted is not None
        and granted.status == conditions.TRUE
        and granted.observed_generation == instance.metadata.generation
    )


def gates_without(instance: compute.Instance, *cleared: str) -> list[dict[str, Any]] | None:
    """The gates left when these are gone, for a patch; None when none of them is there."""
    left = [gate for gate in instance.gates if gate not in cleared]
    if len(left) == len(instance.gates):
        return None
    return [{"name": gate} for gate in left]
