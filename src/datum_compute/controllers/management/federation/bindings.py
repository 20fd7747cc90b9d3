"""Karmada's objects for a deployment: its ResourceBinding and its Works."""

from __future__ import annotations

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.live_reads import find_live

WORKS_BY_BINDING = "binding"

_SUFFIX = karmada.binding_name("", compute.WORKLOAD_DEPLOYMENTS.kind)


def binding_name(deployment_name: str) -> str:
    return karmada.binding_name(deployment_name, compute.WORKLOAD_DEPLOYMENTS.kind)


def deployment_of_binding(name: str) -> str:
    """The name of the deployment that this binding is for; empty when it is for another kind."""
    return name.removesuffix(_SUFFIX) if name.endswith(_SUFFIX) else ""


def binding_of(hub: Cluster, hub_namespace: str, deployment_name: str) -> Object | None:
    return hub.cache(karmada.RESOURCE_BINDINGS).get(binding_name(deployment_name), hub_namespace)


async def find_binding(hub: Cluster, hub_namespace: str, deployment_name: str) -> Object | None:
    """The binding, read live unless the cached one has a cell: a stale cache is no proof that no
    cell ever had the deployment."""
    cached = binding_of(hub, hub_namespace, deployment_name)
    if cached is not None and cached.view(karmada.ResourceBinding).spec.clusters:
        return cached
    name = binding_name(deployment_name)
    return await find_live(hub.client, karmada.RESOURCE_BINDINGS, name, hub_namespace)


def is_orphaned(binding: Object) -> bool:
    """Whether its deployment was deleted without it, as by ``--cascade=orphan``."""
    return binding.metadata.controller() is None and not binding.metadata.deleting


def works_of(hub: Cluster, hub_namespace: str, deployment_name: str) -> list[Object]:
    key = f"{hub_namespace}/{binding_name(deployment_name)}"
    return hub.cache(karmada.WORKS.metadata).by_index(WORKS_BY_BINDING, key)


def binding_key_of_work(work: Object) -> list[str]:
    """``namespace/name`` of the binding of a Work, as an index key."""
    notes = work.metadata.annotations
    namespace = notes.get(karmada.ANNOTATION_BINDING_NAMESPACE)
    name = notes.get(karmada.ANNOTATION_BINDING_NAME)
    return [f"{namespace}/{name}"] if namespace and name else []
