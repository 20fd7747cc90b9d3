"""The end of a deployment: drain, then delete, then let go.

Deleting the hub copy would make Karmada delete the cell's at once, and with it everything
that says how far the cell has come. So the copy first asks for zero Instances, and is
deleted when the cell reports that none are left. Nobody who does not answer can hold this
up: a cell that is unreachable, a deployment no cell ever took, or ten minutes of silence
end the wait. The finalizer stays until the hub holds nothing of the deployment any more.
"""

from __future__ import annotations

from datetime import datetime

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.controllers.management.federation import bindings
from datum_compute.controllers.management.federation.hub_objects import city_of
from datum_compute.controllers.management.federation.status import Route
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.writes import patch

DRAIN_SECONDS = 600.0
"""How long a cell that answers may take to stop its Instances before the copy goes anyway."""


def seconds_left(deployment: Object, now: datetime) -> float:
    since = deployment.metadata.deletion_timestamp or now
    return DRAIN_SECONDS - (now - since).total_seconds()


async def ensure_drained(
    hub_client: Client, deployment: Object, hub_deployment: Object, route: Route, now: datetime
) -> bool:
    """Ask for zero Instances; True once the copy may be deleted."""
    if not route.cells or route.reachable is False or seconds_left(deployment, now) <= 0:
        return True
    if _has_drained(hub_deployment):
        return True
    await _ask_for_none(hub_client, deployment, hub_deployment)
    return False


def _has_drained(hub_deployment: Object) -> bool:
    view = hub_deployment.view(compute.WorkloadDeployment)
    # Zero must be asked for and reported on: a deployment nobody has looked at yet
    # reports zero as well.
    return (
        view.spec.scale_settings.min_replicas == 0
        and bool(hub_deployment.status)
        and view.status.observed_generation == view.source_generation
        and view.status.replicas == 0
        and view.status.desired_replicas == 0
    )


async def _ask_for_none(hub_client: Client, deployment: Object, hub_deployment: Object) -> None:
    view = hub_deployment.view(compute.WorkloadDeployment)
    asked = view.spec.scale_settings.min_replicas == 0
    stamp = str(deployment.metadata.generation)
    await patch.ensure_metadata(
        hub_client,
        compute.WORKLOAD_DEPLOYMENTS,
        hub_deployment,
        annotations={compute.ANNOTATION_SOURCE_GENERATION: stamp},
        spec={} if asked else {"scaleSettings": {"minReplicas": 0}},
    )


async def is_gone(hub: Cluster, hub_namespace: str, deployment: Object) -> bool:
    """Whether the hub itself says that copy, binding and Works are gone. The caches only
    spare it the question: a quick answer from them is believed when it is "not yet"."""
    name = deployment.name
    if bindings.binding_of(hub, hub_namespace, name) or bindings.works_of(hub, hub_namespace, name):
        return False
    for resource, each in (
        (compute.WORKLOAD_DEPLOYMENTS, name),
        (karmada.RESOURCE_BINDINGS, bindings.binding_name(name)),
    ):
        try:
            await hub.client.get(resource, each, hub_namespace)
        except errors.NotFound:
            continue
        return False
    return not await _live_works(hub, hub_namespace, deployment)


async def _live_works(hub: Cluster, hub_namespace: str, deployment: Object) -> bool:
    """Works have no link to ask by, so those of the cells of this city are looked through."""
    for cluster in hub.cache(karmada.CLUSTERS).list():
        if cluster.metadata.labels.get(compute.LABEL_TOPOLOGY_CITY_CODE) != city_of(deployment):
            continue
        works = await hub.client.list(karmada.WORKS, karmada.execution_namespace(cluster.name))
        wanted = f"{hub_namespace}/{bindings.binding_name(deployment.name)}"
        if any(wanted in bindings.binding_key_of_work(work) for work in works.items):
            return True
    return False
