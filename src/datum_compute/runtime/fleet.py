"""Clusters that come and go.

A fleet finds clusters and gives each a name. It *engages* one by creating a
:class:`~datum_compute.runtime.cluster.Cluster` for it and notifying every listener, and
*disengages* it by notifying them again and ending its watches. How clusters are found is up to
a subclass; one fixed cluster is the simplest case of many.

Several managers of one process may share a fleet: each of them calls ``run``, one of the calls
does the work, and when that one ends another takes over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from datum_compute.client.protocol import Client
from datum_compute.env import Environment
from datum_compute.log import get_logger
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.tasks import TaskGroup

logger = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Listener:
    engaged: Callable[[Cluster], None]
    disengaged: Callable[[Cluster], None]
    discovered: Callable[[], None]


class ClusterNotEngaged(Exception):
    """A cluster that a reconcile needs is not engaged: retried, and no proof of absence."""


class Fleet:
    """A subclass finds clusters in ``discover``."""

    sources: Sequence[Fleet] = ()
    """Fleets this one reads; a manager runs them too."""

    def __init__(self, name: str, env: Environment) -> None:
        self.name = name
        self.env = env
        self.discovered = False
        """Whether everything there was at the start has been engaged."""
        self._clusters: dict[str, Cluster] = {}
        self._listeners: dict[int, _Listener] = {}
        self._listens = 0
        self._runner = asyncio.Lock()
        self._tasks: TaskGroup | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {len(self._clusters)} clusters>"

    def get(self, cluster_name: str) -> Cluster | None:
        return self._clusters.get(cluster_name)

    def require(self, cluster_name: str) -> Cluster:
        """Raises :class:`ClusterNotEngaged`."""
        cluster = self._clusters.get(cluster_name)
        if cluster is None:
            raise ClusterNotEngaged(f"fleet {self.name!r} has no cluster {cluster_name!r}")
        return cluster

    def clusters(self) -> list[Cluster]:
        return [self._clusters[name] for name in sorted(self._clusters)]

    async def run(self) -> None:
        """Discover until cancelled; then disengage everything. Waits while another call
        does so already."""
        async with self._runner, TaskGroup(f"fleet {self.name}") as tasks:
            self._tasks = tasks
            try:
                await self.discover(tasks)
            finally:
                self.discovered = False
                for name in sorted(self._clusters, reverse=True):
                    self._release(name)
                self._tasks = None  # which now ends the watches

    async def discover(self, tasks: TaskGroup) -> None:
        """Engage and disengage until cancelled, and call ``mark_discovered`` after the first round.
        ``tasks`` owns what has to run for it."""
        raise NotImplementedError

    def listen(
        self,
        engaged: Callable[[Cluster], None],
        disengaged: Callable[[Cluster], None],
        discovered: Callable[[], None] = lambda: None,
    ) -> Callable[[], object]:
        """Be notified of clusters, beginning with those engaged; the result ends it."""
        self._listens += 1
        number = self._listens
        for cluster in self.clusters():
            engaged(cluster)
        if self.discovered:
            discovered()
        self._listeners[number] = _Listener(engaged, disengaged, discovered)
        return partial(self._listeners.pop, number, None)

    async def wait_discovered(self) -> None:
        event = asyncio.Event()
        unlisten = self.listen(lambda _: None, lambda _: None, event.set)
        try:
            await event.wait()
        finally:
            unlisten()

    def mark_discovered(self) -> None:
        self.discovered = True
        for listener in list(self._listeners.values()):
            listener.discovered()

    def engage(self, name: str, client: Client) -> Cluster:
        if not name:
            raise ValueError(f"fleet {self.name!r}: a cluster needs a name")
        if name in self._clusters:
            raise ValueError(f"fleet {self.name!r}: cluster {name!r} is engaged already")
        if self._tasks is None:
            raise RuntimeError(f"fleet {self.name!r} does not run: cannot engage {name!r}")
        cluster = self._clusters[name] = Cluster(name, client, self.env, self._tasks)
        self._log("cluster engaged", name)
        for listener in list(self._listeners.values()):
            listener.engaged(cluster)
        return cluster

    async def disengage(self, name: str) -> None:
        """Returns when the watches of the cluster have ended."""
        cluster = self._release(name)
        if cluster is not None:
            await cluster.stop()

    def _release(self, name: str) -> Cluster | None:
        cluster = self._clusters.pop(name, None)
        if cluster is not None:
            self._log("cluster disengaged", name)
            for listener in list(self._listeners.values()):
                listener.disengaged(cluster)
            cluster.close()
        return cluster

    def _log(self, message: str, cluster: str) -> None:
        logger.info(message, fleet=self.name, cluster=cluster)
