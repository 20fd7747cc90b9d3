"""The watches of the Workload controller: Workloads, deployments, networks, LocationBindings."""

from __future__ import annotations

from collections.abc import Iterable

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.services import v1alpha1 as services
from datum_compute.controllers.management.workload.deployments import (
    DEPLOYMENTS_BY_WORKLOAD,
    workload_uid_of,
)
from datum_compute.controllers.management.workload.reconcile import WorkloadReconciler
from datum_compute.controllers.management.workload.signals import WorkloadSignals
from datum_compute.decisions.suspension import is_project_suspended
from datum_compute.env import Environment
from datum_compute.runtime.cache.quarantine import views
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.metrics.registry import MetricsRegistry
from datum_compute.runtime.metrics.resource_metrics import register_resource_metrics
from datum_compute.runtime.object_reconcile import for_object
from datum_compute.runtime.request import Request
from datum_compute.runtime.watches.mapping import all_of, by_index
from datum_compute.runtime.watches.predicates import changed, created_or_deleted

WORKLOADS_BY_NETWORK = "network"
_ENTITLEMENT = services.ServiceEntitlement


def workload_controller(
    projects: Fleet,
    env: Environment,
    *,
    metrics: MetricsRegistry | None = None,
    entitlements: bool = False,
) -> Controller:
    """``entitlements`` is whether the planes are Milo's, where a project can be suspended."""
    signals = WorkloadSignals(env, metrics)
    register_resource_metrics(
        signals.registry, projects, compute.WORKLOADS, "datum_cloud_compute_workload"
    )
    suspensions = Watch(
        projects,
        services.SERVICE_ENTITLEMENTS,
        all_of(projects, compute.WORKLOADS),
        predicate=changed(lambda each: is_project_suspended(each.view(_ENTITLEMENT))),
        required=False,
        awaited=False,
    )
    return Controller(
        "workload",
        projects,
        for_object(
            projects,
            compute.WORKLOADS,
            WorkloadReconciler(env, signals, entitlements=entitlements).reconcile,
            deleting=True,
        ),
        watches=[
            Watch.each(
                projects,
                compute.WORKLOADS,
                indexes={WORKLOADS_BY_NETWORK: _networks_of},
                own_writes=False,
            ),
            Watch(
                projects,
                compute.WORKLOAD_DEPLOYMENTS,
                _from_deployment,
                indexes={DEPLOYMENTS_BY_WORKLOAD: workload_uid_of},
            ),
            Watch(
                projects,
                networking.NETWORKS,
                by_index(projects, compute.WORKLOADS, WORKLOADS_BY_NETWORK),
                predicate=created_or_deleted,
                awaited=False,
            ),
            Watch(
                projects,
                networking.LOCATION_BINDINGS,
                all_of(projects, compute.WORKLOADS),
                awaited=False,
            ),
            *([suspensions] if entitlements else []),
        ],
    )


def _from_deployment(project: str, deployment: Object) -> Iterable[Request]:
    # By the name in its spec too, not by owner alone: a successor waits for the deployments of its
    # predecessor.
    owner = deployment.metadata.controller()
    names = {owner.name} if owner is not None and owner.kind == compute.WORKLOADS.kind else set()
    for readable in views((deployment,), compute.WorkloadDeployment):
        names.add(readable.spec.workload_ref.name)
    return [Request(project, deployment.namespace, name) for name in sorted(names) if name]


def _networks_of(workload: Object) -> Iterable[str]:
    interfaces = workload.view(compute.Workload).spec.template.spec.network_interfaces
    return sorted({f"{workload.namespace}/{each.network.name}" for each in interfaces})
