"""Whose turn it is when a denied budget shows room again.

Each Instance decides for itself, and all of them see the same room; so each looks at who
else waits, and takes only what those before it leave. Lowest ordinal first, so that ordered
deployments get on; among equals the one that has waited longest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.controllers.cell.instance.tenancy import tenant_of
from datum_compute.decisions import names
from datum_compute.decisions import quota as decisions
from datum_compute.decisions.gates import has_gate
from datum_compute.runtime.cluster import Cluster

DENIED_INSTANCES = "quota-denied"

_LATEST = datetime.max.replace(tzinfo=UTC)


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


def is_its_turn(
    instance: Object,
    waiting: Sequence[Object],
    buckets: Sequence[quota.AllowanceBucket],
    project: str,
) -> bool:
    """Whether there is room for this one after those before it. One that does not fit is
    passed over: it must not keep out those that do."""
    left = {
        bucket.spec.resource_type: bucket.status.available
        for bucket in buckets
        if bucket.spec.consumer_ref.name == project
    }
    for each in sorted(waiting, key=_rank):
        if each.metadata.deleting:
            continue
        asked = decisions.decide_size(each.view(compute.Instance).spec).requests()
        fits = all(left.get(kind, 0) >= amount for kind, amount in asked.items())
        if each.metadata.uid == instance.metadata.uid:
            return fits
        if fits:
            left = {kind: room - asked.get(kind, 0) for kind, room in left.items()}
    # Its own denial has not reached the cache: the next pass will see it.
    return False


def _rank(instance: Object) -> tuple[int, datetime, str, str]:
    labels = instance.metadata.labels
    deployment = labels.get(compute.LABEL_WORKLOAD_DEPLOYMENT_NAME, "")
    ordinal = names.ordinal_of(labels, instance.name, deployment)
    created = instance.metadata.creation_timestamp or _LATEST
    return ordinal if ordinal is not None else 10**9, created, instance.namespace, instance.name
