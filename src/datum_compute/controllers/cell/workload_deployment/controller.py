"""The watches of a cell's WorkloadDeployment controller: deployments, Instances, networks."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object, Unreadable
from datum_compute.api.networking import v1alpha as networking
from datum_compute.controllers.cell.contact import ContactMonitor
from datum_compute.controllers.cell.referenced_data import CellData, template_references
from datum_compute.controllers.cell.workload_deployment import instances, networks
from datum_compute.controllers.cell.workload_deployment.orphans import OrphanMonitor
from datum_compute.controllers.cell.workload_deployment.reconcile import DeploymentReconciler
from datum_compute.controllers.cell.workload_deployment.signals import DeploymentSignals
from datum_compute.decisions.instances.gates import has_gate
from datum_compute.decisions.rollup.readiness import is_ready_due
from datum_compute.env import Environment
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.metrics.registry import MetricsRegistry
from datum_compute.runtime.metrics.resource_metrics import register_resource_metrics
from datum_compute.runtime.request import Request
from datum_compute.runtime.watches.predicates import changed
from datum_compute.runtime.workqueue.rate_limiter import MIN_INTERVAL_SECONDS

START_SECONDS = 0.5
"""How long a report may wait for the next step of an Instance that starts. A guess: most starts of
containers take longer, those of simulated Instances a tenth of it."""

DEPLOYMENTS_BY_CITY = "city"
DEPLOYMENTS_BY_DATA = "referenced-data"
"""Index of deployments by namespace and entry of the ConfigMaps and Secrets they name."""


def workload_deployment_controller(
    cell: Fleet,
    env: Environment,
    *,
    networking: bool,
    hub: Fleet | None = None,
    projects: Fleet | None = None,
    cluster_name: str = "",
    metrics: MetricsRegistry | None = None,
) -> Controller:
    """``networking`` is whether this cell serves the networking kinds. ``hub`` is None where
    nothing is federated, ``projects`` where quota is not enforced; rolls are held while one that
    is given is unreachable."""
    watches = [
        Watch.each(
            cell,
            compute.WORKLOAD_DEPLOYMENTS,
            indexes={DEPLOYMENTS_BY_CITY: _city_of, DEPLOYMENTS_BY_DATA: _data_of},
            own_writes=False,
        ),
        Watch.owned(
            cell,
            compute.INSTANCES,
            compute.WORKLOAD_DEPLOYMENTS,
            predicate=changed(_relevant_state),
            delay=_delay,
            indexes={instances.INSTANCES_BY_DEPLOYMENT: instances.deployment_uid_of},
        ),
    ]
    if networking:
        watches += _network_watches(cell)
    data = CellData(hub, cluster_name)
    watches += data.watches(cell, _naming(cell))
    contacts = ContactMonitor(hub, projects, cluster_name)
    orphans = OrphanMonitor(hub, env)
    signals = DeploymentSignals(env, metrics, orphans)
    register_resource_metrics(
        signals.registry,
        cell,
        compute.WORKLOAD_DEPLOYMENTS,
        "datum_cloud_compute_workload_deployment",
    )
    reconciler = DeploymentReconciler(
        cell,
        env,
        networking=networking,
        contacts=contacts,
        signals=signals,
        orphans=orphans,
        data=data,
    )
    return Controller(
        "workload-deployment",
        cell,
        reconciler.reconcile,
        watches=watches,
        reads=contacts.reads(cell),
    )


def _network_watches(cell: Fleet) -> list[Watch]:
    def in_city(cluster: str, city: str) -> Iterable[Request]:
        found = cell.get(cluster)
        if found is None:
            return []
        deployments = found.cache(compute.WORKLOAD_DEPLOYMENTS)
        return [
            Request(cluster, deployment.namespace, deployment.name)
            for deployment in deployments.by_index(DEPLOYMENTS_BY_CITY, city)
        ]

    def from_location(cluster: str, location: Object) -> Iterable[Request]:
        return [
            request
            for city in networks.city_of_location(location)
            for request in in_city(cluster, city)
        ]

    def from_located(cluster: str, obj: Object) -> Iterable[Request]:
        # Contexts, claims and subnets name their Location, which names the city.
        found = cell.get(cluster)
        name = networks.location_name(obj)
        location = found.cache(networking.LOCATIONS).get(name) if found and name else None
        return from_location(cluster, location) if location is not None else []

    return [
        Watch(
            cell,
            networking.LOCATIONS,
            from_location,
            indexes={networks.LOCATIONS_BY_CITY: networks.city_of_location},
        ),
        Watch.owned(cell, networking.NETWORK_BINDINGS, compute.WORKLOAD_DEPLOYMENTS),
        Watch(cell, networking.NETWORK_CONTEXTS, from_located),
        Watch(cell, networking.SUBNET_CLAIMS, from_located),
        Watch(cell, networking.SUBNETS, from_located),
    ]


def _relevant_state(instance: Object) -> tuple[object, ...]:
    """What a reconcile reads of an Instance. Most writes to an Instance concern only its own
    controller and provider, and each would cost a read of all Instances of the deployment."""
    view = instance.view(compute.Instance)
    return (
        view.metadata.deleting,
        view.metadata.labels,
        view.metadata.annotations,
        view.metadata.owner_references,
        instances.content_of(instance),
        view.spec.location,
        view.template_hash,
        view.observed_template_hash,
        has_gate(view, compute.GATE_NETWORK),
        view.programmed,
        conditions.find(view.status.conditions, compute.CONDITION_READY),
    )


def _delay(before: Object | None, now: Object | None) -> float:
    """Seconds until a change of an Instance that calls for no step requests a reconcile: its
    creation, and the course of its start. Only the report has it, and Ready follows soon."""
    if now is None:
        return 0.0
    try:
        view = now.view(compute.Instance)
        if view.ready or view.metadata.deleting:
            return 0.0
        is_step = before is not None and (
            before.view(compute.Instance).plan_key != view.plan_key
            or instances.content_of(before) != instances.content_of(now)
        )
    except Unreadable:
        return 0.0
    if is_step:
        return 0.0
    return MIN_INTERVAL_SECONDS if is_ready_due(view) else START_SECONDS


def _data_of(deployment: Object) -> Iterable[str]:
    return [f"{deployment.namespace}/{each.entry}" for each in template_references(deployment)]


def _naming(cell: Fleet) -> Callable[[str, str, str], Iterable[Request]]:
    def requests(cluster: str, namespace: str, entry: str) -> Iterable[Request]:
        found = cell.get(cluster)
        if found is None:
            return []
        deployments = found.cache(compute.WORKLOAD_DEPLOYMENTS)
        held = deployments.by_index(DEPLOYMENTS_BY_DATA, f"{namespace}/{entry}")
        return [Request(cluster, each.namespace, each.name) for each in held]

    return requests


def _city_of(deployment: Object) -> Iterable[str]:
    city = deployment.view(compute.WorkloadDeployment).spec.city_code
    return [city.upper()] if city else []
