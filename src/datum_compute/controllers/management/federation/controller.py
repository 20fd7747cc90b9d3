"""The watches of the federator: the deployment on both planes, and Karmada's objects for it."""

from __future__ import annotations

from collections.abc import Iterable

from datum_compute.api import conditions, core, karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.controllers.management.federation import bindings, status
from datum_compute.controllers.management.federation.reconcile import Federator
from datum_compute.controllers.management.federation.signals import FederationSignals
from datum_compute.controllers.planes import HUB, project_request
from datum_compute.env import Environment
from datum_compute.runtime.controller import Controller, Read, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.metrics.registry import MetricsRegistry
from datum_compute.runtime.metrics.resource_metrics import register_resource_metrics
from datum_compute.runtime.request import Request
from datum_compute.runtime.watches.predicates import (
    changed,
    created_or_deleted,
    metadata_or_spec_changed,
)

BINDINGS_BY_CELL = "cell"


def federator(
    projects: Fleet, hub: Fleet, env: Environment, *, metrics: MetricsRegistry | None = None
) -> Controller:
    """Requests name the deployment in its project, which the labels of its hub namespace name."""

    def requests_for(hub_namespace: str, deployment_name: str) -> Iterable[Request]:
        namespace = hub.require(HUB).cache(core.NAMESPACES).get(hub_namespace)
        if namespace is None or not deployment_name:
            return []
        return project_request(namespace.metadata.labels, deployment_name)

    def from_hub_deployment(_: str, hub_deployment: Object) -> Iterable[Request]:
        return requests_for(hub_deployment.namespace, hub_deployment.name)

    def from_hub_namespace(_: str, namespace: Object) -> Iterable[Request]:
        # The event of a hub deployment may arrive before that of its namespace.
        held = hub.require(HUB).cache(compute.WORKLOAD_DEPLOYMENTS).list(namespace.name)
        return [
            request
            for hub_deployment in held
            for request in project_request(namespace.metadata.labels, hub_deployment.name)
        ]

    def from_policy(_: str, policy: Object) -> Iterable[Request]:
        held = hub.require(HUB).cache(compute.WORKLOAD_DEPLOYMENTS).list(policy.namespace)
        return [request for each in held for request in requests_for(each.namespace, each.name)]

    def from_binding(_: str, binding: Object) -> Iterable[Request]:
        return requests_for(binding.namespace, bindings.deployment_of_binding(binding.name))

    def from_work(_: str, work: Object) -> Iterable[Request]:
        return [
            request
            for key in bindings.binding_key_of_work(work)
            for namespace, _, name in [key.partition("/")]
            for request in requests_for(namespace, bindings.deployment_of_binding(name))
        ]

    def from_cell(_: str, cell: Object) -> Iterable[Request]:
        bound = (
            hub.require(HUB).cache(karmada.RESOURCE_BINDINGS).by_index(BINDINGS_BY_CELL, cell.name)
        )
        return [request for binding in bound for request in from_binding("", binding)]

    def from_interpreter(_: str, __: Object) -> Iterable[Request]:
        held = hub.require(HUB).cache(compute.WORKLOAD_DEPLOYMENTS).list()
        return [request for each in held for request in requests_for(each.namespace, each.name)]

    signals = FederationSignals(env, metrics, hub)
    register_resource_metrics(
        signals.registry,
        projects,
        compute.WORKLOAD_DEPLOYMENTS,
        "datum_cloud_compute_workload_deployment",
    )
    return Controller(
        "federator",
        projects,
        Federator(projects, hub, env, signals).reconcile,
        watches=[
            Watch.each(projects, compute.WORKLOAD_DEPLOYMENTS, own_writes=False),
            Watch(hub, compute.WORKLOAD_DEPLOYMENTS, from_hub_deployment),
            Watch(hub, core.NAMESPACES, from_hub_namespace),
            Watch(
                hub, karmada.PROPAGATION_POLICIES, from_policy, predicate=metadata_or_spec_changed
            ),
            Watch(
                hub,
                karmada.RESOURCE_BINDINGS,
                from_binding,
                predicate=changed(_routing),
                indexes={BINDINGS_BY_CELL: _cells_of},
            ),
            Watch(
                hub,
                karmada.WORKS.metadata,  # a Work may carry a Secret
                from_work,
                predicate=created_or_deleted,
                indexes={bindings.WORKS_BY_BINDING: bindings.binding_key_of_work},
            ),
            Watch(hub, karmada.CLUSTERS, from_cell, predicate=changed(_readiness)),
            Watch(hub, karmada.INTERPRETER_CUSTOMIZATIONS, from_interpreter, required=False),
        ],
        reads=[Read(projects, core.NAMESPACES)],
    )


def _cells_of(binding: Object) -> Iterable[str]:
    return [target.name for target in binding.view(karmada.ResourceBinding).spec.clusters]


def _routing(binding: Object) -> tuple[object, ...]:
    """What the federator reads of a binding. The aggregated status is left out, since it changes
    with every report and the hub deployment has it too; except for a cell's refusal."""
    view = binding.view(karmada.ResourceBinding)
    scheduled = conditions.find(view.status.conditions, karmada.CONDITION_SCHEDULED)
    owned = binding.metadata.controller() is not None
    return view.spec.clusters, scheduled, status.refusal_in(view), binding.metadata.deleting, owned


def _readiness(cell: Object) -> object:
    ready = conditions.find(cell.view(karmada.Cluster).status.conditions, karmada.CONDITION_READY)
    return (ready.status, ready.last_transition_time) if ready else None
