"""The project planes that have work in a cell.

A cell learns which projects concern it from its own cluster: a namespace that holds a
WorkloadDeployment carries the name of the plane it came from. Such a project is engaged
while at least one such namespace exists, on any cluster of the cell's fleet, and longer
where that is needed: a claim that was asked for may arrive when its Instance has gone, and
one that could not be given up while the project was away is given up on contact.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client.protocol import Client
from datum_compute.decisions import names
from datum_compute.env import Environment
from datum_compute.fleets.wanted import Changes, follow
from datum_compute.runtime.cache import Cache, CacheState
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.tasks import TaskGroup

FAREWELL_SECONDS = 45.0
"""How long a project is followed at least after its last deployment has gone: as long as a
request may take that nobody waits for any more."""

Place = tuple[str, str]
"""A namespace on a cluster of the cell's fleet."""


class TenantFleet(Fleet):
    def __init__(
        self,
        name: str,
        cell_fleet: Fleet,
        client_for: Callable[[str], Client],
        env: Environment,
    ) -> None:
        super().__init__(name, env)
        self.sources = (cell_fleet,)
        self._cell_fleet = cell_fleet
        self._client_for = client_for

    async def discover(self, tasks: TaskGroup) -> None:
        changes = Changes()
        presence = _Presence(changes, self._is_owed)
        unlisten = self._cell_fleet.listen(presence.engaged, presence.disengaged)
        try:
            await self._wait_known()
            await follow(self, changes, presence.wanted, self._client_for)
        finally:
            unlisten()
            presence.stop()

    async def _wait_known(self) -> None:
        await self._cell_fleet.wait_discovered()
        while unsynced := self._unsynced():
            await unsynced[0].wait_synced()
            # A cluster may have been engaged anew while its caches were waited for.
            await self._cell_fleet.wait_discovered()

    def _unsynced(self) -> list[Cache]:
        caches = [cache for cluster in self._cell_fleet.clusters() for cache in _caches(cluster)]
        return [cache for cache in caches if not cache.synced]

    def _is_owed(self, project: str) -> bool:
        """Whether the project is away, or holds something that carries this cell's name: only
        what does so is watched with a selector."""
        cluster = self.get(project)
        return cluster is not None and any(
            cache.state is CacheState.INTERRUPTED or (cache.label_selector and len(cache))
            for cache in cluster.caches()
        )


class _Presence:
    """Which projects are present where, kept up to date by the cell's caches."""

    def __init__(self, changes: Changes, is_owed: Callable[[str], bool]) -> None:
        self._changes = changes
        self._is_owed = is_owed
        self._project_at: dict[Place, str] = {}
        self._places: dict[str, dict[Place, None]] = {}
        self._unsubscribe: dict[str, list[Callable[[], object]]] = {}
        self._leaving: dict[str, asyncio.TimerHandle] = {}

    def wanted(self, project: str, engaged: str) -> str:
        return project if project in self._places or project in self._leaving else ""

    def engaged(self, cluster: Cluster) -> None:
        namespaces, deployments = _caches(cluster)
        settle = partial(self._settle, cluster.name, namespaces, deployments)

        def namespace_changed(old: Object | None, new: Object | None) -> None:
            changed = new or old
            if changed is not None:
                settle(changed.name)

        def deployment_changed(old: Object | None, new: Object | None) -> None:
            changed = new or old
            # Only a first or a last one can make a difference.
            if changed is not None and (old is None or new is None):
                settle(changed.namespace)

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
        for timer in self._leaving.values():
            timer.cancel()

    def _settle(self, cluster: str, namespaces: Cache, deployments: Cache, name: str) -> None:
        namespace = namespaces.get(name)
        project = ""
        if namespace is not None and deployments.has_any(name):
            label = namespace.metadata.labels.get(compute.LABEL_UPSTREAM_CLUSTER_NAME, "")
            project = names.decode_project(label)
        self._move((cluster, name), project)

    def _move(self, place: Place, project: str) -> None:
        before = self._project_at.get(place, "")
        if before == project:
            return
        if before:
            del self._project_at[place]
            del self._places[before][place]
            if not self._places[before]:
                del self._places[before]
                self._take_leave(before)
        if project:
            self._project_at[place] = project
            self._places.setdefault(project, {})[place] = None
            if timer := self._leaving.pop(project, None):
                timer.cancel()
            self._changes.note(project)

    def _take_leave(self, project: str) -> None:
        loop = asyncio.get_running_loop()
        self._leaving[project] = loop.call_later(FAREWELL_SECONDS, self._left, project)

    def _left(self, project: str) -> None:
        del self._leaving[project]
        if self._is_owed(project):
            self._take_leave(project)
        else:
            self._changes.note(project)


def _caches(cluster: Cluster) -> tuple[Cache, Cache]:
    return cluster.cache(core.NAMESPACES), cluster.cache(compute.WORKLOAD_DEPLOYMENTS)
