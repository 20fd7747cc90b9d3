"""Who waits in this cell after a denial; whose turn it is, :mod:`datum_compute.decisions.turns`
tells."""

from __future__ import annotations

from collections.abc import Iterable

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.controllers.cell.instance.tenancy import tenant_of
from datum_compute.decisions import quota as decisions
from datum_compute.decisions.gates import has_gate
from datum_compute.runtime.cluster import Cluster

DENIED_INSTANCES = "quota-denied"


def denied_in(instance: Object) -> Iterable[str]:
    """The namespace of an Instance that waits at the gate after a denial, as an index key."""
    view = instance.view(compute.Instance)
    granted = conditions.find(view.status.conditions, compute.CONDITION_QUOTA_GRANTED)
    waits = granted is not None and decisions.is_denied(granted)
    return [instance.namespace] if waits and has_gate(view, compute.GATE_QUOTA) else []


def denied_of(cell: Cluster, namespaces: Iterable[str], project: str) -> list[Object]:
    """The Instances of a project that wait in this cell, whichever namespace they are in."""
    instances = cell.cache(compute.INSTANCES)
    return [
        instance
        for namespace in namespaces
        if (tenant := tenant_of(cell, namespace)) is not None and tenant.project == project
        for instance in instances.by_index(DENIED_INSTANCES, namespace)
    ]
