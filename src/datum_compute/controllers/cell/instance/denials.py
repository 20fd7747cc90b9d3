"""Index of the Instances of this cell whose claim was denied.

:mod:`datum_compute.decisions.claim_order` decides which of them may claim next.
"""

from __future__ import annotations

from collections.abc import Iterable

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.controllers.planes import project_namespace_of
from datum_compute.decisions import quota as decisions
from datum_compute.decisions.instances.gates import has_gate
from datum_compute.runtime.cluster import Cluster

DENIED_INSTANCES = "quota-denied"


def denied_index_keys(instance: Object) -> Iterable[str]:
    """The namespace of an Instance that has the gate ``Quota`` and a denial, as an index key."""
    view = instance.view(compute.Instance)
    granted = conditions.find(view.status.conditions, compute.CONDITION_QUOTA_GRANTED)
    waits = granted is not None and decisions.is_denied(granted)
    return [instance.namespace] if waits and has_gate(view, compute.GATE_QUOTA) else []


def denied_instances(cell: Cluster, namespaces: Iterable[str], project: str) -> list[Object]:
    """The denied Instances of a project in this cell, of all its namespaces."""
    instances = cell.cache(compute.INSTANCES)
    return [
        instance
        for namespace in namespaces
        if (project_namespace := project_namespace_of(cell, namespace)) is not None
        and project_namespace.project == project
        for instance in instances.by_index(DENIED_INSTANCES, namespace)
    ]
