"""Networks of projects, in the cells where the project has deployments.

Cells know only their own plane, so a network must exist there before a deployment can be bound
to it. A project's network is mirrored into the project's ``ns-<uid>`` of each cell that holds
one of its deployments; the namespace's labels name the project. When the last deployment is
gone the mirror is deleted, and its contexts, claims and subnets with it by ownership. In
production this is the duty of network services.
"""

from __future__ import annotations

from collections.abc import Iterable

from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.core import NAMESPACES
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.live_reads import find_live, has_live
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result
from datum_compute.runtime.watches.predicates import created_or_deleted
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.create import create_or_wait

NAMESPACES_BY_UPSTREAM = "network/upstream"
LABEL_UPSTREAM_NAME = "meta.datumapis.com/upstream-name"
"""On a mirror: marks what this controller created and may therefore change and delete."""

_INHERITED = (compute.LABEL_UPSTREAM_CLUSTER_NAME, compute.LABEL_UPSTREAM_NAMESPACE)


def mirror_controller(projects: Fleet, cells: Fleet, env: Environment) -> Controller:
    reconciler = _Mirror(projects, cells, env)
    return Controller(
        "network-mirror",
        cells,
        reconciler.reconcile,
        watches=[
            Watch(projects, networking.NETWORKS, reconciler.mirrors_of, required=False),
            Watch.each(cells, networking.NETWORKS),
            Watch(
                cells,
                NAMESPACES,
                lambda cluster, namespace: reconciler.networks_in(cluster, namespace.name),
                indexes={NAMESPACES_BY_UPSTREAM: _upstream_key_of},
            ),
            Watch(
                cells,
                compute.WORKLOAD_DEPLOYMENTS,
                lambda cluster, deployment: reconciler.networks_in(cluster, deployment.namespace),
                predicate=created_or_deleted,
            ),
        ],
    )


def upstream_of(namespace: Object) -> tuple[str, str]:
    """Project and project namespace of a cell's namespace; empty where it has none."""
    labels = namespace.metadata.labels
    project = names.decode_project(labels.get(compute.LABEL_UPSTREAM_CLUSTER_NAME, ""))
    return project, labels.get(compute.LABEL_UPSTREAM_NAMESPACE, "")


def _upstream_key_of(namespace: Object) -> Iterable[str]:
    project, upstream = upstream_of(namespace)
    return [f"{project}/{upstream}"] if project and upstream else []


class _Mirror:
    def __init__(self, projects: Fleet, cells: Fleet, env: Environment) -> None:
        self._projects = projects
        self._cells = cells
        self._env = env

    def mirrors_of(self, project: str, network: Object) -> Iterable[Request]:
        key = f"{project}/{network.namespace}"
        for cell in self._cells.clusters():
            for namespace in cell.cache(NAMESPACES).by_index(NAMESPACES_BY_UPSTREAM, key):
                yield Request(cell.name, namespace.name, network.name)

    def networks_in(self, cluster: str, namespace_name: str) -> Iterable[Request]:
        """Every network that a cell's namespace has or should have."""
        cell = self._cells.get(cluster)
        namespace = cell.cache(NAMESPACES).get(namespace_name) if cell else None
        if cell is None or namespace is None:
            return
        found = {network.name for network in cell.cache(networking.NETWORKS).list(namespace_name)}
        project_name, upstream = upstream_of(namespace)
        project = self._projects.get(project_name)
        if project is not None and upstream:
            found |= {one.name for one in project.cache(networking.NETWORKS).list(upstream)}
        for name in sorted(found):
            yield Request(cluster, namespace_name, name)

    async def reconcile(self, request: Request) -> Result:
        cell = self._cells.get(request.cluster)
        namespace = cell.cache(NAMESPACES).get(request.namespace) if cell else None
        if cell is None or namespace is None or namespace.metadata.deleting:
            return DONE
        project_name, upstream = upstream_of(namespace)
        mirror = cell.cache(networking.NETWORKS).get(request.name, request.namespace)
        if not project_name or not upstream or (mirror and not _is_ours(mirror)):
            return DONE
        if not cell.cache(compute.WORKLOAD_DEPLOYMENTS).has_any(request.namespace):
            await self._remove_unused(cell, mirror)
            return DONE
        project = self._projects.get(project_name)
        if project is None or not project.cache(networking.NETWORKS).synced:
            return DONE  # woken by the project's networks when they are synced
        source = project.cache(networking.NETWORKS).get(request.name, upstream)
        if source is None or source.metadata.deleting:
            await self._remove_orphan(cell, mirror, project, upstream)
            return DONE
        await self._ensure(cell, namespace, mirror, source)
        return DONE

    async def _ensure(
        self, cell: Cluster, namespace: Object, mirror: Object | None, source: Object
    ) -> None:
        spec = patch.values(source.spec)
        if mirror is not None:
            if not mirror.metadata.deleting:
                change = patch.difference(patch.values(mirror.spec), spec)
                await patch.ensure_metadata(
                    cell.client, networking.NETWORKS, mirror, spec=change or None
                )
            return
        body = {
            "metadata": {
                "name": source.name,
                "namespace": namespace.name,
                "labels": {
                    LABEL_UPSTREAM_NAME: source.name,
                    **{key: namespace.metadata.labels[key] for key in _INHERITED},
                },
            },
            "spec": spec,
        }
        await create_or_wait(cell.client, networking.NETWORKS, body, namespace.name)

    async def _remove_unused(self, cell: Cluster, mirror: Object | None) -> None:
        """Live, because a deployment the cache has not seen needs its network."""
        if mirror is None or mirror.metadata.deleting:
            return
        if not await has_live(cell.client, compute.WORKLOAD_DEPLOYMENTS, mirror.namespace):
            await patch.delete_if_present(cell.client, networking.NETWORKS, mirror)

    async def _remove_orphan(
        self, cell: Cluster, mirror: Object | None, project: Cluster, upstream: str
    ) -> None:
        """Only a live read of the project proves that a network is gone."""
        if mirror is None or mirror.metadata.deleting:
            return
        if await find_live(project.client, networking.NETWORKS, mirror.name, upstream) is None:
            await patch.delete_if_present(cell.client, networking.NETWORKS, mirror)


def _is_ours(network: Object) -> bool:
    return LABEL_UPSTREAM_NAME in network.metadata.labels
