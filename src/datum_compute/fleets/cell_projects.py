"""The project planes that have work in a cell.

A cell learns its projects from its own cluster: a namespace that holds a WorkloadDeployment
carries the name of the project, and so do its deployments. A project is engaged while at least one
such namespace exists, on any cluster of the cell's fleet, and for as long as it holds claims of
this cell: a claim may arrive after its Instance is deleted, and one that could not be released
while the project was unreachable is released later. So a project without deployments is drained
before it is disengaged (:mod:`.draining_projects`).

None of this survives a restart, nor needs to: a namespace stays in its cell when it is empty. At
the start every project named by an empty namespace is checked as if it had just
lost its last deployment, and engaged only if it holds claims of this cell.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial

from datum_compute.api import core
from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.env import Environment
from datum_compute.fleets.draining_projects import DRAIN_SECONDS, DrainingProjects
from datum_compute.fleets.engagement import ChangedNames, sync_engagements
from datum_compute.runtime.cache.cache import Cache
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.tasks import TaskGroup

CellNamespace = tuple[str, str]
"""A namespace on a cluster of the cell's fleet."""


class CellProjectFleet(Fleet):
    """``cluster_name`` is the cell's name in the label ``source-cluster`` of its claims."""

    def __init__(
        self,
        name: str,
        cell_fleet: Fleet,
        client_for: Callable[[str], Client],
        env: Environment,
        *,
        cluster_name: str,
    ) -> None:
        super().__init__(name, env)
        self.sources = (cell_fleet,)
        self._cell_fleet = cell_fleet
        self._client_for = client_for
        self._selector = f"{compute.LABEL_SOURCE_CLUSTER}={cluster_name}"
        self._checked: dict[str, Client] = {}  # of projects that are checked and not engaged

    async def discover(self, tasks: TaskGroup) -> None:
        presence = _Presence(self.env, self._holds)
        unlisten = self._cell_fleet.listen(presence.engaged, presence.disengaged)
        try:
            await self._wait_known()
            presence.check_absent(self._named())
            tasks.start(presence.draining.run(), name=f"draining projects of {self.name}")
            await sync_engagements(self, presence.changes, presence.wanted, self._client_for)
        finally:
            unlisten()
            presence.stop()

    async def _wait_known(self) -> None:
        await self._cell_fleet.wait_discovered()
        while unsynced := self._unsynced():
            await unsynced[0].wait_synced()
            # A cluster may have been engaged again while its caches were synced.
            await self._cell_fleet.wait_discovered()

    def _unsynced(self) -> list[Cache]:
        caches = [cache for cluster in self._cell_fleet.clusters() for cache in _caches(cluster)]
        return [cache for cache in caches if not cache.synced]

    def _named(self) -> list[str]:
        """The projects of all namespaces of the cell, empty ones included."""
        labels = {
            namespace.metadata.labels.get(compute.LABEL_UPSTREAM_CLUSTER_NAME, "")
            for cluster in self._cell_fleet.clusters()
            for namespace in cluster.cache(core.NAMESPACES).list()
        }
        return [project for label in sorted(labels) if (project := names.decode_project(label))]

    async def _holds(self, project: str) -> bool:
        """Whether the project holds claims of this cell."""
        engaged = self.get(project)
        client = engaged.client if engaged is not None else self._checked.get(project)
        if client is None:
            client = self._checked[project] = self._client_for(project)
        found: list[Object] = []
        try:
            page = await client.list(quota.RESOURCE_CLAIMS, label_selector=self._selector, limit=1)
            found = page.items
        except (errors.NotFound, errors.NotServed):
            pass  # there is no such project, or it does not serve claims
        self._checked.pop(project, None)
        return bool(found)


class _Presence:
    """Which projects have deployments in which namespaces, by the cell's caches."""

    def __init__(self, env: Environment, holds: Callable[[str], Awaitable[bool]]) -> None:
        self.changes = ChangedNames()
        self.draining = DrainingProjects(env, holds, found=self._found, drained=self._drained)
        self._project_at: dict[CellNamespace, str] = {}
        self._places: dict[str, dict[CellNamespace, None]] = {}
        self._unsubscribe: dict[str, list[Callable[[], object]]] = {}
        self._leaving: set[str] = set()

    def wanted(self, project: str, engaged: str) -> str:
        return project if project in self._places or project in self._leaving else ""

    def check_absent(self, projects: Iterable[str]) -> None:
        """Drain those without deployments: it is unknown when they lost the last one."""
        for project in projects:
            if project not in self._places and project not in self._leaving:
                self.draining.begin(project, check_in=0.0)

    def engaged(self, cluster: Cluster) -> None:
        namespaces, deployments = _caches(cluster)
        update = partial(self._update, cluster.name, namespaces, deployments)

        def namespace_changed(old: Object | None, new: Object | None) -> None:
            changed = new or old
            if changed is not None:
                update(changed.name)

        def deployment_changed(old: Object | None, new: Object | None) -> None:
            changed = new or old
            # Only the first or the last one of a namespace can make a difference.
            if changed is not None and (old is None or new is None):
                update(changed.namespace)

        self._unsubscribe[cluster.name] = [
            namespaces.subscribe(namespace_changed),
            deployments.subscribe(deployment_changed),
        ]

    def disengaged(self, cluster: Cluster) -> None:
        for unsubscribe in self._unsubscribe.pop(cluster.name):
            unsubscribe()
        for place in [place for place in self._project_at if place[0] == cluster.name]:
            self._move(place, "")

    def stop(self) -> None:
        for subscriptions in self._unsubscribe.values():
            for unsubscribe in subscriptions:
                unsubscribe()
        self.draining.stop()

    def _update(self, cluster: str, namespaces: Cache, deployments: Cache, name: str) -> None:
        namespace = namespaces.get(name)
        project = ""
        if namespace is not None and deployments.has_any(name):
            project = _project_of(_labelled(namespace, deployments))
        self._move((cluster, name), project)

    def _move(self, place: CellNamespace, project: str) -> None:
        before = self._project_at.get(place, "")
        if before == project:
            return
        if before:
            del self._project_at[place]
            del self._places[before][place]
            if not self._places[before]:
                del self._places[before]
                self._leaving.add(before)
                self.draining.begin(before, check_in=DRAIN_SECONDS)
        if project:
            self._project_at[place] = project
            self._places.setdefault(project, {})[place] = None
            self._leaving.discard(project)
            self.draining.cancel(project)
            self.changes.note(project)

    def _found(self, project: str) -> None:
        self._leaving.add(project)
        self.changes.note(project)

    def _drained(self, project: str) -> None:
        self._leaving.discard(project)
        self.changes.note(project)


def _labelled(namespace: Object, deployments: Cache) -> Iterator[Object]:
    """The namespace, and then, listed only if asked for, its deployments, which have the same
    labels: a namespace may have lost its own."""
    yield namespace
    yield from deployments.list(namespace.name)


def _project_of(objects: Iterable[Object]) -> str:
    """The project that the first of these objects with a label names."""
    labels = (each.metadata.labels.get(compute.LABEL_UPSTREAM_CLUSTER_NAME) for each in objects)
    return names.decode_project(next((label for label in labels if label), ""))


def _caches(cluster: Cluster) -> tuple[Cache, Cache]:
    return cluster.cache(core.NAMESPACES), cluster.cache(compute.WORKLOAD_DEPLOYMENTS)
