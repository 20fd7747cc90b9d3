"""The watches of a cell's Instance controller: Instances, their copies and their claims.

Watches on the hub and on projects are not required: a cell starts and runs without them.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from datum_compute.api import conditions, core
from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object, ObjectMeta, Unreadable
from datum_compute.api.networking import v1alpha as networking_api
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.controllers.cell.instance import denials
from datum_compute.controllers.cell.instance.quota import (
    CLAIMS_BY_DEPLOYMENT,
    ClaimManager,
    deployment_keys_of_claim,
)
from datum_compute.controllers.cell.instance.reconcile import InstanceReconciler
from datum_compute.controllers.cell.instance.removal import FINALIZERS
from datum_compute.controllers.cell.instance.signals import InstanceSignals
from datum_compute.controllers.cell.instance.write_back import WriteBack
from datum_compute.controllers.cell.referenced_data import CellData
from datum_compute.controllers.planes import SINGLE, ProjectNamespace, project_namespace_of
from datum_compute.decisions.instances.gates import has_gate
from datum_compute.decisions.references import references_of
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Read, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.metrics.registry import MetricsRegistry
from datum_compute.runtime.metrics.resource_metrics import register_resource_metrics
from datum_compute.runtime.request import Request
from datum_compute.runtime.watches.predicates import metadata_or_spec_changed

INSTANCES_BY_DEPLOYMENT_NAME = "workload-deployment-name"
INSTANCES_BY_DATA = "referenced-data"
"""Index of Instances that wait for data, by namespace and entry or deployment."""


def instance_controller(
    cell: Fleet,
    env: Environment,
    *,
    hub: Fleet | None,
    projects: Fleet | None,
    cluster_name: str,
    networking: bool = False,
    metrics: MetricsRegistry | None = None,
) -> Controller:
    """``projects`` is None where quota is not enforced, ``hub`` where nothing is written back.
    ``networking`` is whether this cell serves the networking kinds."""
    claims = ClaimManager(projects, env, cluster_name)
    signals = InstanceSignals(env, metrics, quota=projects is not None)
    register_resource_metrics(
        signals.registry, cell, compute.INSTANCES, "datum_cloud_compute_instance"
    )
    write_back = WriteBack(cluster_name, signals)
    mapped = _Watches(cell, projects, claims)
    data = CellData(hub, cluster_name)
    reconciler = InstanceReconciler(
        cell, hub, env, claims, write_back, signals, data, networking=networking
    )
    watches = mapped.cell_watches(networking=networking)
    watches += data.watches(cell, lambda _, namespace, entry: mapped.waiting(namespace, entry))
    reads: list[Read] = []
    if hub is not None:
        watches += [
            Watch(
                hub,
                compute.INSTANCES,
                _to_single,
                label_selector=write_back.selector,
                required=False,
                own_writes=False,
            ),
        ]
        reads.append(Read(hub, core.NAMESPACES, required=False))
    if projects is not None:
        watches += mapped.project_watches(projects)
    return Controller("instance", cell, reconciler.reconcile, watches=watches, reads=reads)


class _Watches:
    """Watches whose mappings look up objects in caches."""

    def __init__(self, cell: Fleet, projects: Fleet | None, claims: ClaimManager) -> None:
        self._cell = cell
        self._projects = projects
        self._claims = claims

    def cell_watches(self, *, networking: bool) -> list[Watch]:
        watches = [
            Watch.each(
                self._cell,
                compute.INSTANCES,
                indexes={
                    INSTANCES_BY_DEPLOYMENT_NAME: _deployment_name_of,
                    denials.DENIED_INSTANCES: denials.denied_index_keys,
                    INSTANCES_BY_DATA: _data_of,
                },
                predicate=_relevant_change,
                own_writes=False,
            ),
            Watch(
                self._cell,
                compute.WORKLOAD_DEPLOYMENTS,
                self.from_deployment,
                predicate=_may_open_gates,
            ),
            Watch(
                self._cell, core.NAMESPACES, self.from_namespace, predicate=metadata_or_spec_changed
            ),
        ]
        if networking:
            watches.append(
                Watch(self._cell, networking_api.NETWORK_BINDINGS, self.from_network_binding)
            )
        return watches

    def project_watches(self, projects: Fleet) -> list[Watch]:
        return [
            Watch(
                projects,
                quota.RESOURCE_CLAIMS,
                self.from_claim,
                label_selector=self._claims.selector,
                indexes={CLAIMS_BY_DEPLOYMENT: deployment_keys_of_claim},
                required=False,
                own_writes=False,
            ),
            Watch(
                projects,
                quota.ALLOWANCE_BUCKETS,
                self.from_bucket,
                predicate=_may_grant_more,
                required=False,
            ),
        ]

    def from_network_binding(self, _: str, binding: Object) -> Iterable[Request]:
        owner = binding.metadata.controller()
        return self._instances_of(binding.namespace, owner.name) if owner else []

    def from_namespace(self, _: str, namespace: Object) -> Iterable[Request]:
        """All Instances of a namespace, whose labels may arrive after them."""
        cell = self._cell_cluster()
        held = cell.cache(compute.INSTANCES).list(namespace.name) if cell else []
        return [Request(SINGLE, each.namespace, each.name) for each in held]

    def from_deployment(self, _: str, deployment: Object) -> Iterable[Request]:
        """Its Instances that wait for data, which its annotations name, and claims."""
        waiting = self.waiting(deployment.namespace, deployment.name)
        return [*waiting, *self.claims_of_deployment(_, deployment)]

    def waiting(self, namespace: str, for_: str) -> list[Request]:
        """The Instances of a namespace that wait for an entry, or of a deployment."""
        cell = self._cell_cluster()
        if cell is None:
            return []
        found = cell.cache(compute.INSTANCES).by_index(INSTANCES_BY_DATA, f"{namespace}/{for_}")
        return [Request(SINGLE, each.namespace, each.name) for each in found]

    def claims_of_deployment(self, _: str, deployment: Object) -> Iterable[Request]:
        """The Instances of claims kept for a replacement, which may no longer be wanted."""
        key = f"{deployment.namespace}/{deployment.name}"
        return [
            Request(SINGLE, deployment.namespace, names.instance_of_claim(claim.name))
            for plane in (self._projects.clusters() if self._projects else [])
            for claim in self._claims.claims_in(plane).by_index(CLAIMS_BY_DEPLOYMENT, key)
        ]

    def from_claim(self, project: str, claim: Object) -> Iterable[Request]:
        """The Instance in this cell that a claim is for: by its label, and where that names no
        namespace of this cell by the namespace of the claim."""
        cell, name = self._cell_cluster(), names.instance_of_claim(claim.name)
        if cell is None or not name:
            return []
        label = claim.metadata.labels.get(compute.LABEL_INSTANCE_NAMESPACE)
        found = [label] if label else []
        namespaces = cell.cache(core.NAMESPACES)
        if not label or namespaces.get(label) is None:
            claimed = ProjectNamespace(project, claim.namespace)
            found += [
                each.name
                for each in namespaces.list()
                if project_namespace_of(cell, each.name) == claimed
                and cell.cache(compute.INSTANCES).get(name, each.name) is not None
            ]
        return [Request(SINGLE, each, name) for each in found]

    def from_bucket(self, project: str, _: Object) -> Iterable[Request]:
        """Denied Instances, which may claim again."""
        cell = self._cell_cluster()
        if cell is None:
            return []
        namespaces = [each.name for each in cell.cache(core.NAMESPACES).list()]
        waiting = denials.denied_instances(cell, namespaces, project)
        return [Request(SINGLE, each.namespace, each.name) for each in waiting]

    def _instances_of(self, namespace: str, deployment: str) -> Iterable[Request]:
        cell = self._cell_cluster()
        if cell is None:
            return []
        cache = cell.cache(compute.INSTANCES)
        found = cache.by_index(INSTANCES_BY_DEPLOYMENT_NAME, f"{namespace}/{deployment}")
        return [Request(SINGLE, each.namespace, each.name) for each in found]

    def _cell_cluster(self) -> Cluster | None:
        return self._cell.get(SINGLE)


def _to_single(_: str, obj: Object) -> Iterable[Request]:
    return [Request(SINGLE, obj.namespace, obj.name)]


def _deployment_name_of(instance: Object) -> Iterable[str]:
    name = instance.metadata.labels.get(compute.LABEL_WORKLOAD_DEPLOYMENT_NAME)
    return [f"{instance.namespace}/{name}"] if name else []


def _data_of(instance: Object) -> Iterable[str]:
    view = instance.view(compute.Instance)
    if not has_gate(view, compute.GATE_REFERENCED_DATA):
        return []
    deployment = instance.metadata.labels.get(compute.LABEL_WORKLOAD_DEPLOYMENT_NAME, "")
    named = [deployment, *(each.entry for each in references_of(view.spec))]
    return [f"{instance.namespace}/{each}" for each in named if each]


def _may_open_gates(old: Object | None, new: Object | None) -> bool:
    """Whether more than the status of a deployment has changed, or its data has arrived."""
    return metadata_or_spec_changed(old, new) or (
        new is not None and _has_data(new) and not (old is not None and _has_data(old))
    )


def _has_data(deployment: Object) -> bool:
    try:
        status = deployment.view(compute.WorkloadDeployment).status
    except Unreadable:
        return False
    return conditions.is_true(status.conditions, compute.CONDITION_REFERENCED_DATA_READY)


def _relevant_change(old: Object | None, new: Object | None) -> bool:
    """Any change except to finalizers of others, which matter only during deletion."""
    if old is None or new is None or new.metadata.deleting:
        return True
    if bytes(old.status) != bytes(new.status) or bytes(old.spec) != bytes(new.spec):
        return True
    present = new.metadata.finalizers
    return any(each not in present for each in FINALIZERS) or _without_finalizers(
        old.metadata
    ) != _without_finalizers(new.metadata)


def _without_finalizers(metadata: ObjectMeta) -> ObjectMeta:
    return msgspec.structs.replace(metadata, resource_version="", finalizers=())


def _may_grant_more(old: Object | None, new: Object | None) -> bool:
    """Whether the bucket has more available than before, or another limit or other grants."""
    if new is None:
        return False
    if old is None:
        return True
    before, after = (each.view(quota.AllowanceBucket).status for each in (old, new))
    other_grants = (before.limit, before.contributing_grant_refs) != (
        after.limit,
        after.contributing_grant_refs,
    )
    return after.available > before.available or other_grants
