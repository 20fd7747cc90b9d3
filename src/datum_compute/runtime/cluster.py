"""One engaged cluster: a client, and the caches that are kept of it."""

from __future__ import annotations

import asyncio
from typing import Any

from datum_compute.api.compute.reasons import REASON_UNREADABLE
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.client.protocol import Client
from datum_compute.decisions.status_events import WARNING, EventContent
from datum_compute.env import Environment
from datum_compute.runtime.cache.cache import Cache
from datum_compute.runtime.cache.reflector import Reflector
from datum_compute.runtime.events import EventRecorder
from datum_compute.runtime.tasks import TaskGroup
from datum_compute.runtime.writes.own_writes import RecordingClient

COMPONENT = "controller-runtime"
"""The source of the Events on objects that are quarantined."""


class Cluster:
    """Created by a fleet when it engages; its watches run in the fleet's tasks."""

    def __init__(self, name: str, client: Client, env: Environment, tasks: TaskGroup) -> None:
        self.name = name
        """What the fleet calls it, and what requests carry."""
        self.client: Client = RecordingClient(client, self._caches_of)
        self._client = client
        self._env = env
        self._tasks = tasks
        self._caches: dict[tuple[Resource, str], Cache] = {}
        self._by_resource: dict[Resource, list[Cache]] = {}
        self._watching: list[asyncio.Task[Any]] = []
        self._events = EventRecorder(COMPONENT, env)

    def __repr__(self) -> str:
        return f"<Cluster {self.name}>"

    def cache(self, resource: Resource, *, label_selector: str = "") -> Cache:
        """The one cache of this kind and selector; the first call starts its watch.

        Until it is ``synced`` an object that is not in it may well exist. A controller
        declares what it reads, so that its reconciles wait for that.
        """
        key = (resource, label_selector)
        cache = self._caches.get(key)
        if cache is None:
            cache = Cache(resource, label_selector=label_selector)
            cache.quarantine.on_added = self._record_unreadable
            reflector = Reflector(self._client, cache, self._env)
            name = f"watch {self.name} {resource}"
            # The task first: a disengaged cluster refuses, and must not keep the cache.
            self._watching.append(self._tasks.start(reflector.run(), name=name))
            self._caches[key] = cache
            self._by_resource.setdefault(resource.whole, []).append(cache)
        return cache

    def caches(self) -> list[Cache]:
        """In the order of the first call for each."""
        return list(self._caches.values())

    def close(self) -> None:
        """End every wait for these caches; for the fleet that disengages."""
        for cache in self._caches.values():
            cache.close()

    async def stop(self) -> None:
        """End all watches."""
        self.close()
        await self._tasks.stop(*self._watching)

    def _record_unreadable(self, obj: Object) -> None:
        # The same Event whoever meets the object: a second process finds it and adds none.
        notice = EventContent(WARNING, REASON_UNREADABLE, f"Cannot be read: {obj.problem}")
        record = self._events.record_once(self._client, obj, notice)
        self._tasks.start(record, name=f"event {self.name} {obj.key}")

    def _caches_of(self, resource: Resource) -> list[Cache]:
        return self._by_resource.get(resource, [])
