"""Deletion of a deployment: drain, then delete the hub copy, then release the finalizer.

When the hub copy is deleted Karmada deletes the cell's deployment at once, and its status with it.
So the copy is first scaled to zero, and deleted when the cell reports no Instance. It is deleted
without that report when the cell is unreachable, when no cell has the deployment, and after ten
minutes. The finalizer stays until the hub has nothing left of the deployment.
"""

from __future__ import annotations

from datetime import datetime

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client.protocol import Client
from datum_compute.controllers.management.federation import bindings
from datum_compute.controllers.management.federation.hub_objects import city_of
from datum_compute.controllers.management.federation.status import Route
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.live_reads import find_live
from datum_compute.runtime.writes import patch

DRAIN_SECONDS = 600.0
"""How long a reachable cell may take to stop its Instances before the copy is deleted."""


def seconds_left(deployment: Object, now: datetime) -> float:
    since = deployment.metadata.deletion_timestamp or now
    return DRAIN_SECONDS - (now - since).total_seconds()


async def ensure_drained(
    hub_client: Client, deployment: Object, hub_deployment: Object, route: Route, now: datetime
) -> bool:
    """Scale the copy to zero; True once it may be deleted."""
    if not route.cells or route.reachable is False or seconds_left(deployment, now) <= 0:
        return True
    if _has_drained(hub_deployment):
        return True
    await _scale_to_zero(hub_client, deployment, hub_deployment)
    return False


def _has_drained(hub_deployment: Object) -> bool:
    view = hub_deployment.view(compute.WorkloadDeployment)
    # Zero must be both desired and observed: a deployment that was never reconciled reports
    # zero as well.
    return (
        view.spec.scale_settings.min_replicas == 0
        and bool(hub_deployment.status)
        and view.status.observed_generation == view.source_generation
        and view.status.replicas == 0
        and view.status.desired_replicas == 0
    )


async def _scale_to_zero(hub_client: Client, deployment: Object, hub_deployment: Object) -> None:
    view = hub_deployment.view(compute.WorkloadDeployment)
    is_zero = view.spec.scale_settings.min_replicas == 0
    stamp = str(deployment.metadata.generation)
    await patch.ensure_metadata(
        hub_client,
        compute.WORKLOAD_DEPLOYMENTS,
        hub_deployment,
        annotations={compute.ANNOTATION_SOURCE_GENERATION: stamp},
        spec={} if is_zero else {"scaleSettings": {"minReplicas": 0}},
    )


async def is_deleted(hub: Cluster, hub_namespace: str, deployment: Object) -> bool:
    """Whether copy, binding and Works are deleted on the hub. The caches can only prove that
    something still exists; that nothing does is confirmed by live reads."""
    name = deployment.name
    if bindings.binding_of(hub, hub_namespace, name) or bindings.works_of(hub, hub_namespace, name):
        return False
    for resource, each in (
        (compute.WORKLOAD_DEPLOYMENTS, name),
        (karmada.RESOURCE_BINDINGS, bindings.binding_name(name)),
    ):
        if await find_live(hub.client, resource, each, hub_namespace):
            return False
    return not await _has_live_works(hub, hub_namespace, deployment)


async def _has_live_works(hub: Cluster, hub_namespace: str, deployment: Object) -> bool:
    """Works have no label to select by, so all Works of the city's cells are searched."""
    for cluster in hub.cache(karmada.CLUSTERS).list():
        if cluster.metadata.labels.get(compute.LABEL_TOPOLOGY_CITY_CODE) != city_of(deployment):
            continue
        works = await hub.client.list(karmada.WORKS, karmada.execution_namespace(cluster.name))
        wanted = f"{hub_namespace}/{bindings.binding_name(deployment.name)}"
        if any(wanted in bindings.binding_key_of_work(work) for work in works.items):
            return True
    return False
