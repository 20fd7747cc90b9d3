"""Deletion of a deployment: drain, then delete the hub copy, then release the finalizer.

When the hub copy is deleted Karmada deletes the cell's deployment at once, and its status with it.
So the copy is first scaled to zero, and deleted when the cell reports no Instance. It is deleted
without that report when the cell is unreachable, when no cell has the deployment, when the copy
cannot be read, and when the cell has had its time: 90 seconds where it has not even acknowledged
the scale to zero, as when its manager is down, ten minutes where it has, or where it refuses the
copy of a deployment that it runs. The finalizer stays until the hub has nothing left of the
deployment. What a deletion waits for is in the condition ``Removed``.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime

from datum_compute.api import conditions, karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client.protocol import Client
from datum_compute.controllers.management.federation import bindings
from datum_compute.controllers.management.federation.status import Route
from datum_compute.runtime.cache.quarantine import readable, views
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.live_reads import find_live
from datum_compute.runtime.writes import patch

DRAIN_SECONDS = 600.0
"""How long a reachable cell may take to stop its Instances before the copy is deleted."""
ACKNOWLEDGE_SECONDS = 90.0
"""How long a reachable cell may take to acknowledge the scale to zero. A guess: longer than a
cell's manager takes to restart, and far less than the drain itself may take."""
REPORT_SECONDS = 5.0
"""A deletion that takes longer than this says what it waits for. A guess: most are done by then."""

HUB_WAIT_SECONDS = 5.0
"""How often the hub is checked after the copy is deleted; usually an event comes sooner."""


@dataclass(frozen=True, slots=True)
class RemovalWait:
    """What the deletion of a deployment waits for."""

    reason: str
    message: str
    delay: float
    """Seconds until it is to be decided again."""
    shown: bool = True
    """Whether it has lasted long enough to be reported."""


class DrainClock:
    """How long each deployment has been drained, in the loop's time: the deletion timestamp is of
    another clock. A restart of the manager begins again; the ten minutes are counted from the
    deletion, so that the sum is bounded."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def seconds(self, deployment: Object) -> float:
        now = asyncio.get_running_loop().time()
        return now - self._since.setdefault(deployment.metadata.uid, now)

    def forget(self, deployment: Object) -> None:
        self._since.pop(deployment.metadata.uid, None)


def decide_drain(
    deployment: Object, hub_deployment: Object, route: Route, *, drained_for: float, now: datetime
) -> RemovalWait | None:
    """What the copy waits for before it may be deleted; None when it may."""
    if not route.cells or route.reachable is False:
        return None
    if not readable((hub_deployment,), compute.WorkloadDeployment) or _has_drained(hub_deployment):
        return None
    left = DRAIN_SECONDS - (now - _deleted_at(deployment, now)).total_seconds()
    since = conditions.wire_time(_deleted_at(deployment, now))
    cell = ", ".join(route.cells)
    if route.refusal and hub_deployment.status:
        # Karmada would leave running what it could not apply to. The scale to zero may change that:
        # the policy takes over an object that has lost Karmada's labels.
        reason = compute.REASON_DRAIN_REFUSED
        message = f"Cell {cell} was asked at {since} to stop the Instances: {route.refusal}"
    elif _has_acknowledged(hub_deployment):
        count = hub_deployment.view(compute.WorkloadDeployment).status.replicas
        reason = compute.REASON_DRAINING
        rest = "1 is left" if count == 1 else f"{count} are left"
        message = f"Cell {cell} has been stopping Instances since {since}, {rest}"
    else:
        left = min(left, ACKNOWLEDGE_SECONDS - drained_for)
        reason = compute.REASON_DRAIN_NOT_ACKNOWLEDGED
        message = (
            f"Cell {cell} was asked at {since} to stop the Instances and has not acknowledged it;"
            f" after {ACKNOWLEDGE_SECONDS:.0f} s the deletion goes on without it"
        )
    if left <= 0:
        return None
    shown = drained_for >= REPORT_SECONDS
    delay = left if shown else min(left, REPORT_SECONDS - drained_for)
    return RemovalWait(reason, message, max(1.0, delay), shown)


def decide_hub_wait(
    deployment: Object, route: Route, *, drained_for: float, now: datetime
) -> RemovalWait:
    """The wait for binding and Works, which Karmada deletes when the cell answers."""
    since = conditions.wire_time(_deleted_at(deployment, now))
    message = f"The hub has been deleting this deployment since {since}"
    if route.reachable is False:
        cell = ", ".join(route.cells)
        message = (
            f"Cell {cell} does not answer; what was deleted at {since} is removed when it does"
        )
    shown = drained_for >= REPORT_SECONDS
    return RemovalWait(compute.REASON_REMOVING_FROM_HUB, message, HUB_WAIT_SECONDS, shown)


def _deleted_at(deployment: Object, now: datetime) -> datetime:
    return deployment.metadata.deletion_timestamp or now


def _has_acknowledged(hub_deployment: Object) -> bool:
    """Whether the cell has reported on the generation that asks for zero. Zero must be both desired
    and observed: a deployment that was never reconciled reports zero as well."""
    view = hub_deployment.view(compute.WorkloadDeployment)
    return (
        view.spec.scale_settings.min_replicas == 0
        and bool(hub_deployment.status)
        and view.status.observed_generation == view.source_generation
        and view.status.desired_replicas == 0
    )


def _has_drained(hub_deployment: Object) -> bool:
    reported = hub_deployment.view(compute.WorkloadDeployment).status.replicas
    return _has_acknowledged(hub_deployment) and reported == 0


async def scale_to_zero(hub_client: Client, deployment: Object, hub_deployment: Object) -> Object:
    view = hub_deployment.view(compute.WorkloadDeployment)
    is_zero = view.spec.scale_settings.min_replicas == 0
    stamp = str(deployment.metadata.generation)
    return await patch.ensure_metadata(
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


def cities_of(deployment: Object) -> list[str]:
    """The city of a deployment; none where it cannot be read."""
    return [each.spec.city_code for each in views((deployment,), compute.WorkloadDeployment)]


async def _has_live_works(hub: Cluster, hub_namespace: str, deployment: Object) -> bool:
    """Works have no label to select by, so all Works of the city's cells are searched, or of all
    cells where the city cannot be read."""
    cities = cities_of(deployment)
    for cluster in hub.cache(karmada.CLUSTERS).list():
        city = cluster.metadata.labels.get(compute.LABEL_TOPOLOGY_CITY_CODE)
        if cities and city not in cities:
            continue
        namespace = karmada.execution_namespace(cluster.name)
        works = await hub.client.list(karmada.WORKS.metadata, namespace)
        wanted = f"{hub_namespace}/{bindings.binding_name(deployment.name)}"
        if any(wanted in bindings.binding_key_of_work(work) for work in works.items):
            return True
    return False
