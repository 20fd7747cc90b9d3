"""Scheduling gates: what an Instance waits for before a provider may start it."""

from __future__ import annotations

from typing import Any

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions.references import references_of


def gates_for_new(
    template: compute.InstanceTemplate,
    *,
    networks_ready: bool,
    quota_enforced: bool = True,
    data_federated: bool = False,
) -> tuple[str, ...]:
    """The gates a new Instance of the template is stamped with, in order.

    No Network gate where networks are ready already or networking is off, and no Quota gate where
    quota is not enforced: it would only be removed again. ``data_federated``: the ConfigMaps and
    Secrets that a template names come from another plane.
    """
    network = () if networks_ready else (compute.GATE_NETWORK,)
    quota = (compute.GATE_QUOTA,) if quota_enforced else ()
    waits_for_data = data_federated and references_of(template.spec)
    data = (compute.GATE_REFERENCED_DATA,) if waits_for_data else ()
    return (*network, *quota, *data)


def has_gate(instance: compute.Instance, gate: str) -> bool:
    return gate in instance.gates


def may_clear_gate(instance: compute.Instance, gate: str, current: conditions.Conditions) -> bool:
    """Whether the gate can be removed: its condition is True, and for this very spec.

    ``current`` holds the conditions as they are about to be, or were just, written.
    """
    decided = conditions.find(current, compute.GATES[gate].condition)
    return (
        has_gate(instance, gate)
        and decided is not None
        and decided.status == conditions.TRUE
        and decided.observed_generation == instance.metadata.generation
    )


def gates_without(instance: compute.Instance, *cleared: str) -> list[dict[str, Any]] | None:
    """The gates left without these, for a patch; None when the Instance has none of them."""
    left = [gate for gate in instance.gates if gate not in cleared]
    if len(left) == len(instance.gates):
        return None
    return [{"name": gate} for gate in left]
