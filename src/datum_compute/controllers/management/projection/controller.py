"""The watches of the projector: hub Instances, projections, and the owners of projections."""

from __future__ import annotations

from collections.abc import Iterable

from datum_compute.api import conditions, core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.compute.instance_names import deployment_of
from datum_compute.api.meta import Object
from datum_compute.controllers.management.projection.reconcile import Projector
from datum_compute.controllers.management.projection.signals import ProjectionSignals
from datum_compute.controllers.planes import HUB, project_request
from datum_compute.env import Environment
from datum_compute.runtime.controller import Controller, Read, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.metrics.registry import MetricsRegistry
from datum_compute.runtime.request import Request
from datum_compute.runtime.watches.predicates import changed

HUB_INSTANCES_BY_DEPLOYMENT = "deployment-name"
STATUS_SECONDS = 0.1
"""How long a new hub Instance waits for its status, which its cell writes next."""


def projector(
    projects: Fleet, hub: Fleet, env: Environment, *, metrics: MetricsRegistry | None = None
) -> Controller:
    """Requests name an Instance in its project."""

    signals = ProjectionSignals(env, metrics, hub)

    def from_hub(_: str, hub_instance: Object) -> Iterable[Request]:
        signals.quarantine.check(hub_instance)
        return project_request(hub_instance.metadata.labels, hub_instance.name)

    def from_deployment(project: str, deployment: Object) -> Iterable[Request]:
        # Hub Instances that have waited for this owner can be projected now.
        namespace = deployment.metadata.annotations.get(compute.ANNOTATION_FEDERATION_NAMESPACE)
        if not namespace:
            return []
        key = f"{namespace}/{deployment.name}"
        cache = hub.require(HUB).cache(compute.INSTANCES)
        hub_instances = cache.by_index(HUB_INSTANCES_BY_DEPLOYMENT, key)
        return [Request(project, deployment.namespace, each.name) for each in hub_instances]

    return Controller(
        "projector",
        projects,
        Projector(projects, hub, signals).reconcile,
        watches=[
            Watch(
                hub,
                compute.INSTANCES,
                from_hub,
                delay=_delay,
                indexes={HUB_INSTANCES_BY_DEPLOYMENT: _deployment_key},
            ),
            Watch.each(projects, compute.INSTANCES, own_writes=False),
            Watch(
                projects,
                compute.WORKLOAD_DEPLOYMENTS,
                from_deployment,
                predicate=changed(_identity),
            ),
        ],
        reads=[Read(projects, core.NAMESPACES)],
    )


def _delay(before: Object | None, now: Object | None) -> float:
    """Seconds until a change on the hub requests a reconcile: the creation of a copy is in one
    with its first status."""
    if before is not None or now is None:
        return 0.0
    ready = conditions.find(conditions.of_status(now.status), compute.CONDITION_READY)
    # The server gives a new Instance a status in which everything is Unknown.
    return STATUS_SECONDS if ready is None or ready.status == conditions.UNKNOWN else 0.0


def _deployment_key(hub_instance: Object) -> Iterable[str]:
    name = deployment_of(hub_instance.metadata.labels, hub_instance.name)
    return [f"{hub_instance.namespace}/{name}"] if name else []


def _identity(deployment: Object) -> tuple[str, str | None]:
    namespace = deployment.metadata.annotations.get(compute.ANNOTATION_FEDERATION_NAMESPACE)
    return deployment.metadata.uid, namespace
