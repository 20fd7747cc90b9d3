"""What wakes a Workload: itself, its deployments, and what it is placed by."""

from __future__ import annotations

from collections.abc import Iterable

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.controllers.management.workload.deployments import (
    DEPLOYMENTS_BY_WORKLOAD,
    workload_uid_of,
)
from datum_compute.controllers.management.workload.reconcile import WorkloadReconciler
from datum_compute.controllers.management.workload.signals import WorkloadSignals
from datum_compute.controllers.resource_metrics import register_resource_metrics
from datum_compute.env import Environment
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.metrics.registry import MetricsRegistry
from datum_compute.runtime.request import Request
from datum_compute.runtime.watches.mapping import itself
from datum_compute.runtime.watches.predicates import metadata_or_spec_changed

WORKLOADS_BY_NETWORK = "network"


def workload_controller(
    projects: Fleet, env: Environment, *, metrics: MetricsRegistry | None = None
) -> Controller:
    def from_network(project: str, network: Object) -> Iterable[Request]:
        found = projects.get(project)
        if found is None:
            return []
        key = f"{network.namespace}/{network.name}"
        users = found.cache(compute.WORKLOADS).by_index(WORKLOADS_BY_NETWORK, key)
        return [Request(project, workload.namespace, workload.name) for workload in users]

    def from_location_binding(project: str, _: Object) -> Iterable[Request]:
        found = projects.get(project)
        workloads = found.cache(compute.WORKLOADS).list() if found else []
        return [Request(project, workload.namespace, workload.name) for workload in workloads]

    signals = WorkloadSignals(env, metrics)
    register_resource_metrics(signals.registry, projects, compute.WORKLOADS, "workload")
    return Controller(
        "workload",
        projects,
        WorkloadReconciler(projects, env, signals).reconcile,
        watches=[
            Watch(
                projects,
                compute.WORKLOADS,
                itself,
                predicate=metadata_or_spec_changed,
                indexes={WORKLOADS_BY_NETWORK: _networks_of},
            ),
            Watch(
                projects,
                compute.WORKLOAD_DEPLOYMENTS,
                _from_deployment,
                indexes={DEPLOYMENTS_BY_WORKLOAD: workload_uid_of},
            ),
            Watch(projects, networking.NETWORKS, from_network, predicate=_came_or_went),
            Watch(projects, networking.LOCATION_BINDINGS, from_location_binding),
        ],
    )


def _from_deployment(project: str, deployment: Object) -> Iterable[Request]:
    # By name, not by owner: a successor waits for the deployments of its predecessor.
    name = deployment.view(compute.WorkloadDeployment).spec.workload_ref.name
    return [Request(project, deployment.namespace, name)] if name else []


def _networks_of(workload: Object) -> Iterable[str]:
    interfaces = workload.view(compute.Workload).spec.template.spec.network_interfaces
    return sorted({f"{workload.namespace}/{each.network.name}" for each in interfaces})


def _came_or_went(old: Object | None, new: Object | None) -> bool:
    return old is None or new is None
