"""Product controllers, run on stale views of a federation and checked against the present.

:class:`StaleViews` records every event of a project, the hub and a cell. For each controller and
key it runs the reconcile on the caches as they were up to ``lags`` events ago: all planes late
together, and each combination of late planes beside current ones. A replica may have such a
view when it becomes leader while its watches lag. Its writes are dry runs; those that the
server would accept must do no harm, by the rules of :class:`StaleWriteRules`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import sqrt
from random import Random
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object, ObjectList
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.controllers.cell.instance import instance_controller
from datum_compute.controllers.cell.workload_deployment import workload_deployment_controller
from datum_compute.controllers.management.federation import federator
from datum_compute.controllers.management.projection import projector
from datum_compute.controllers.management.workload import workload_controller
from datum_compute.env import Environment
from datum_compute.fleets.static import StaticFleet
from datum_compute.runtime.cache.index import IndexKeys
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import Waiting
from datum_compute.runtime.tasks import TaskGroup
from datum_compute.runtime.writes.own_writes import WriteRecording
from datum_compute.testing.cache_history import CacheHistory, DryRunClient, StaleFleet
from tests.support.federation.stage import Stage
from tests.support.federation.stale_write_rules import (
    CELL,
    CITY,
    HUB,
    PROJECT,
    StaleWriteRules,
)

Fleets = Mapping[str, Fleet]


@dataclass(frozen=True)
class CheckedController:
    build: Callable[[Fleets, Environment], Controller]
    reads: tuple[str, ...]
    """The clusters whose objects it reads; each of them may be late."""
    keys: tuple[str, Resource]
    """The objects that its requests name."""


CONTROLLERS: dict[str, CheckedController] = {
    "workload": CheckedController(
        lambda of, env: workload_controller(of[PROJECT], env),
        (PROJECT,),
        (PROJECT, compute.WORKLOADS),
    ),
    "federator": CheckedController(
        lambda of, env: federator(of[PROJECT], of[HUB], env),
        (PROJECT, HUB),
        (PROJECT, compute.WORKLOAD_DEPLOYMENTS),
    ),
    "projector": CheckedController(
        lambda of, env: projector(of[PROJECT], of[HUB], env),
        (PROJECT, HUB),
        (PROJECT, compute.INSTANCES),
    ),
    "workload-deployment": CheckedController(
        lambda of, env: workload_deployment_controller(
            of[CELL],
            env,
            networking=True,
            hub=of[HUB],
            projects=of[PROJECT],
            cluster_name=CITY.lower(),
        ),
        (CELL,),  # of the others it reads only whether they are reachable
        (CELL, compute.WORKLOAD_DEPLOYMENTS),
    ),
    "instance": CheckedController(
        lambda of, env: instance_controller(
            of[CELL],
            env,
            hub=of[HUB],
            projects=of[PROJECT],
            cluster_name=CITY.lower(),
            networking=True,
        ),
        (PROJECT, HUB, CELL),
        (CELL, compute.INSTANCES),
    ),
}


class StaleViews:
    def __init__(
        self,
        stage: Stage,
        *,
        lags: int,
        share: float,
        seed: int,
        trusts_caches: bool = False,
    ) -> None:
        """Of all views of the last ``lags`` events a ``share`` is checked, drawn by ``seed``.
        ``trusts_caches`` plants a bug in every controller: its live reads come from the
        caches."""
        self.history = CacheHistory()
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._stage = stage
        self._lags = lags
        self._share = sqrt(share)  # of the keys, and of the views of each
        self._random = Random(seed)
        self._client_type = CachedReads if trusts_caches else DryRunClient
        self._clients: dict[str, Client] = {
            PROJECT: stage.project,
            HUB: stage.hub,
            CELL: stage.cell(CITY),
        }
        self.rules = StaleWriteRules(self.history, self._clients, stage.hub_namespace)

    @asynccontextmanager
    async def recording(self) -> AsyncIterator[None]:
        """Record the events of all planes, for the length of the block."""
        fleets = {
            name: StaticFleet(name, {name: client}, self._stage.env)
            for name, client in self._clients.items()
        }
        kinds: dict[str, dict[Resource, dict[str, IndexKeys]]] = {name: {} for name in fleets}
        for each in CONTROLLERS.values():
            for source in each.build(fleets, self._stage.env).sources:
                indexes = kinds[source.fleet.name].setdefault(source.resource, {})
                indexes.update(source.indexes)

        def follow(cluster: Cluster) -> None:
            for resource, indexes in kinds[cluster.name].items():
                self.history.follow(cluster, resource, **indexes)

        async with TaskGroup("recording") as tasks:
            running = [tasks.start(fleet.run(), name=fleet.name) for fleet in fleets.values()]
            for fleet in fleets.values():
                fleet.listen(follow, lambda _: None)
            yield
            await tasks.stop(*running)

    async def check(self) -> None:
        """Run every controller for every key on its share of the stale views."""
        for name, checked in CONTROLLERS.items():
            for request in self._requests(*checked.keys):
                if self._is_drawn():
                    await self._check(name, checked, request)

    def _is_drawn(self) -> bool:
        return self._random.random() < self._share

    def _requests(self, cluster: str, resource: Resource) -> list[Request]:
        """For all objects there ever were."""
        names = {
            (each.event.object.namespace, each.event.object.name)
            for each in self.history.events
            if each.cluster == cluster and each.resource == resource
        }
        return [Request(cluster, *name) for name in sorted(names)]

    async def _check(self, name: str, checked: CheckedController, request: Request) -> None:
        now = len(self.history.events)
        oldest = max(0, now - self._lags)
        current = {each: self._view(name, each, now, oldest) for each in self._clients}
        late = {each: self._view(name, each, oldest, oldest) for each in self._clients}
        moved = set(checked.reads)
        for event in self.history.events[oldest:now]:
            for subset in _subsets(checked.reads):
                # Only where the late planes differ from the view before.
                if moved & set(subset) and self._is_drawn():
                    fleets = {**current, **{each: late[each] for each in subset}}
                    await self._reconcile(name, checked, request, fleets)
            for each in late.values():
                each.see(event)
            moved = {event.cluster}

    def _view(self, controller: str, cluster: str, seen: int, oldest: int) -> StaleFleet:
        check = partial(self._written, controller, cluster, oldest)
        client = self._client_type(self._clients[cluster], check)
        view = self.history.view(cluster, seen, client, self._stage.env)
        if isinstance(client, CachedReads):
            client.view = view.clusters()[0]
        return view

    async def _reconcile(
        self, name: str, checked: CheckedController, request: Request, fleets: Fleets
    ) -> None:
        self.counts[f"{name} runs"] += 1
        try:
            with WriteRecording():
                # Built anew: a new leader has no memory of earlier runs.
                await checked.build(fleets, self._stage.env).reconcile(request)
        except (errors.Conflict, errors.NotFound, errors.AlreadyExists):
            self.counts["refused"] += 1  # the server saw that the view was stale
        except Waiting:
            self.counts["waits"] += 1
        except Exception as error:  # noqa: BLE001  # the controller would only log it
            self.wrong.append(f"{name} {request}: {error!r}")

    async def _written(
        self,
        controller: str,
        cluster: str,
        oldest: int,
        verb: str,
        before: Object | None,
        after: Object | None,
    ) -> None:
        obj = after or before
        assert obj is not None
        if obj.kind == "Event":
            return
        self.counts[verb] += 1
        async for fault in self.rules.faults(cluster, oldest, before, after):
            self.wrong.append(f"{controller}: {verb} of {obj!r} on {cluster}: {fault}")


class CachedReads(DryRunClient):
    """Answers reads from the stale caches, where there is one of the kind."""

    view: Cluster

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        try:
            found = self.view.cache(resource).get(name, namespace)
        except KeyError:
            return await super().get(resource, name, namespace)
        if found is None:
            raise errors.NotFound(404, "NotFound", f"{name} is not in the cache")
        return found

    async def list(self, resource: Resource, namespace: str = "", **options: Any) -> ObjectList:
        found = await super().list(resource, namespace, **options)
        cache = self.view.cache(resource)
        known = [each for each in found.items if cache.get(each.name, each.namespace) is not None]
        return ObjectList(known, found.resource_version, found.continue_token, found.remaining)


def _subsets(names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for size in range(1, len(names) + 1):
        yield from combinations(names, size)
