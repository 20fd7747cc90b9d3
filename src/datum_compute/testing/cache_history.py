"""Caches as they were any number of events ago, beside a client that reads live.

A cache is always somewhat stale, and a controller must be safe with any view it may have.
A :class:`CacheHistory` records the events of some kinds on some planes in one order;
:meth:`CacheHistory.view` gives the caches after any number of them. What a reconcile writes
there is checked and not stored: :class:`DryRunClient` lets reads through, sends creates and
patches with ``dryRun``, and compares deletes with what exists.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from datum_compute.api.meta import Object, WireObject
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.protocol import (
    Client,
    EventType,
    Patch,
    Propagation,
    ReadForwarder,
    WatchEvent,
)
from datum_compute.env import Environment
from datum_compute.runtime.cache.cache import Cache, CacheState
from datum_compute.runtime.cache.index import IndexKeys
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.tasks import TaskGroup


@dataclass(frozen=True)
class RecordedEvent:
    cluster: str
    resource: Resource
    event: WatchEvent


class CacheHistory:
    """Events from subscriptions to current caches, in one order over all of them."""

    def __init__(self) -> None:
        self.events: list[RecordedEvent] = []
        self._kinds: dict[str, dict[Resource, dict[str, IndexKeys]]] = {}

    def follow(self, cluster: Cluster, resource: Resource, **indexes: IndexKeys) -> None:
        """Record from now on. ``indexes`` are those that reconciles use, by name."""
        self.declare(cluster.name, resource, **indexes)

        def changed(old: Object | None, new: Object | None) -> None:
            if new is not None:
                kind = EventType.MODIFIED if old else EventType.ADDED
                self.events.append(RecordedEvent(cluster.name, resource, WatchEvent(kind, new)))
            elif old is not None:
                event = WatchEvent(EventType.DELETED, old)
                self.events.append(RecordedEvent(cluster.name, resource, event))

        cluster.cache(resource).subscribe(changed)

    def declare(self, cluster: str, resource: Resource, **indexes: IndexKeys) -> None:
        """Views have a cache of this kind; its content comes from :attr:`events`."""
        self._kinds.setdefault(cluster, {})[resource] = indexes

    def view(self, name: str, seen: int, client: Client, env: Environment) -> StaleFleet:
        """One cluster as its caches were after the first ``seen`` events."""
        caches: dict[Resource, Cache] = {}
        for resource, indexes in self._kinds[name].items():
            cache = caches[resource] = Cache(resource)
            for index, keys in indexes.items():
                cache.add_index(index, keys)
            cache.replace([], "")
            cache.state = CacheState.CURRENT  # synced, and behind
        view = StaleFleet(_StaleCluster(name, client, env, caches), env)
        for happened in self.events[:seen]:
            view.see(happened)
        return view


class _StaleCluster(Cluster):
    def __init__(
        self, name: str, client: Client, env: Environment, known: dict[Resource, Cache]
    ) -> None:
        super().__init__(name, client, env, TaskGroup(f"stale {name}"))
        self.known = known

    def cache(self, resource: Resource, *, label_selector: str = "") -> Cache:
        return self.known[resource]


class StaleFleet(Fleet):
    """A fleet of one cluster, as its caches were after some number of events."""

    def __init__(self, cluster: _StaleCluster, env: Environment) -> None:
        super().__init__(cluster.name, env)
        self._cluster = cluster
        self._clusters[cluster.name] = cluster
        self.discovered = True

    def see(self, happened: RecordedEvent) -> None:
        """Apply one more event, if it was on this cluster."""
        if happened.cluster == self._cluster.name:
            self._cluster.known[happened.resource].apply(happened.event)


WriteCheck = Callable[[str, Object | None, Object | None], Awaitable[None]]
"""Given ``create``, ``patch`` or ``delete``, the object before (None: it is created) and after
(None: it is deleted); raises or records if the write must not happen."""


class DryRunClient(ReadForwarder):
    """A client whose writes take no effect. Those that the server would accept are checked."""

    def __init__(self, client: Client, check: WriteCheck) -> None:
        super().__init__(client)
        self._check = check

    async def create(
        self, resource: Resource, body: WireObject, namespace: str = "", *, dry_run: bool = False
    ) -> Object:
        created = await self._client.create(resource, body, namespace, dry_run=True)
        await self._check("create", None, created)
        return created

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str = "",
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        before = await self._client.get(resource, name, namespace)
        patched = await self._client.patch(
            resource, name, patch, namespace, subresource=subresource, dry_run=True
        )
        await self._check("patch", before, patched)
        return patched

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: Propagation = "Background",
    ) -> None:
        before = await self._client.get(resource, name, namespace)
        found = before.metadata
        if uid not in ("", found.uid) or resource_version not in ("", found.resource_version):
            raise errors.Conflict(409, "Conflict", f"{before!r} fails the precondition")
        await self._check("delete", before, None)
