"""From changes on many clusters to the requests of one controller.

When a fleet engages a cluster, every source of that fleet gets its cache there. Each change
in a watched cache is mapped to requests, and each request is handled in one of five ways:

- its cluster name is empty: dropped and counted; no such cluster can ever exist;
- its cluster has not been engaged in the controller's fleet: counted, and kept aside in case
  it will be, because the event will not be repeated;
- its cluster was engaged and no longer is: counted and dropped, with all keys of it; when it
  is engaged again, everything that maps to it is requested as at a first start;
- something the reconcile has to know is not synced yet: kept aside until it is;
- otherwise: on to the queue.

The gate of a cluster is open when the required caches of that cluster are synced, and those
of every cluster in the controller's other fleets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from datum_compute.api.meta import Object, Unreadable
from datum_compute.log import get_logger
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.watches.mapping import itself
from datum_compute.runtime.watches.watch_source import Source, Watch
from datum_compute.runtime.writes.own_writes import OwnWriteFilter

logger = get_logger(__name__)

MAX_UNENGAGED = 100_000
"""Requests kept aside for clusters that are not engaged; more are dropped. Bounds the memory for
clusters that are never engaged to about 20 MB."""

MAX_REPORTED = 1_000
"""Objects whose mapping failed that are remembered, to log each once; a bound on memory."""


class _Engagement:
    """A cluster as this controller uses it."""

    __slots__ = ("awaited", "cluster", "missing", "unsubscribe")

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.missing = 0  # required caches that are not synced
        self.awaited = 0  # of these, the ones that the process's readiness waits for
        self.unsubscribe: list[Callable[[], object]] = []

    def end(self) -> None:
        for unsubscribe in self.unsubscribe:
            unsubscribe()


class Intake:
    def __init__(
        self,
        name: str,
        fleet: Fleet,
        sources: Sequence[Source],
        add: Callable[[Request, float], None],
        forget: Callable[[str], None] = lambda _: None,
        own_writes: OwnWriteFilter | None = None,
    ) -> None:
        """``add`` takes a request that may run, and in how many seconds; ``forget`` is called for
        a disengaged cluster; ``own_writes`` knows what the controller wrote itself."""
        self._own_writes = own_writes if own_writes is not None else OwnWriteFilter()
        self._name = name
        self._fleet = fleet
        self._add = add
        self._forget = forget
        self._sources = {
            used: [s for s in sources if s.fleet is used] for used in fleets_of(fleet, sources)
        }
        self._engagements: dict[Fleet, dict[str, _Engagement]] = {
            used: {} for used in self._sources
        }
        self._required = [
            used
            for used, wanted in self._sources.items()
            if used is not fleet and any(source.required for source in wanted)
        ]
        self._others_ready = False
        self._open: dict[str, None] = {}
        self._aside: dict[str, dict[Request, None]] = {}
        self._aside_size = 0
        self._left: dict[str, None] = {}  # clusters that were engaged once
        self._reported: dict[tuple[str, ...], None] = {}
        self._unlisten: list[Callable[[], object]] = []
        self._on_ready: list[asyncio.Event] = []
        self.dropped_empty = 0
        self.dropped_unengaged = 0
        self.mapping_errors = 0

    def start(self) -> None:
        for fleet in self._sources:
            engaged = partial(self._engaged, fleet)
            disengaged = partial(self._disengaged, fleet)
            self._unlisten.append(fleet.listen(engaged, disengaged, self._reconsider))
        self._reconsider()

    def stop(self) -> None:
        for unlisten in self._unlisten:
            unlisten()
        for engagements in self._engagements.values():
            for engagement in engagements.values():
                engagement.end()
            engagements.clear()
        self._unlisten.clear()
        self._open.clear()
        self._others_ready = False

    def is_open(self, cluster_name: str) -> bool:
        return cluster_name in self._open

    def offer(self, request: Request, delay: float = 0.0) -> None:
        cluster = request.cluster
        if cluster in self._open:
            self._add(request, delay)
        elif not cluster:
            self.dropped_empty += 1
            self._log("request without a cluster dropped", request)
        else:
            if cluster not in self._engagements[self._fleet]:
                self.dropped_unengaged += 1
                self._log("request for a cluster that is not engaged", request)
                if cluster in self._left or self._aside_size >= MAX_UNENGAGED:
                    return
            kept = self._aside.setdefault(cluster, {})
            if request not in kept:
                kept[request] = None
                self._aside_size += 1

    def is_engaged(self, cluster_name: str) -> bool:
        return cluster_name in self._engagements[self._fleet]

    def kept_aside(self) -> int:
        return self._aside_size

    @property
    def ready(self) -> bool:
        """Every fleet that is needed has discovered, and every gate is open, except where a
        plane lacks a kind that readiness does not wait for."""
        return (
            self._others_ready
            and self._fleet.discovered
            and not any(each.awaited for each in self._engagements[self._fleet].values())
        )

    async def wait_ready(self) -> None:
        while not self.ready:
            event = asyncio.Event()
            self._on_ready.append(event)
            await event.wait()

    def missing(self) -> list[str]:
        """What reconciles wait for, to report: fleets, then caches with their state."""
        needed = [self._fleet, *self._required]
        found = [f"fleet {fleet.name}: not discovered" for fleet in needed if not fleet.discovered]
        return found + self._unsynced(awaited=True)

    def unserved(self) -> list[str]:
        """Clusters without reconciles of this controller, since they lack a kind that readiness
        does not wait for."""
        return self._unsynced(awaited=False)

    def _unsynced(self, *, awaited: bool) -> list[str]:
        found = []
        for cluster, source in self._required_caches():
            cache = cluster.cache(source.resource, label_selector=source.label_selector)
            if source.awaited is awaited and not cache.synced:
                found.append(f"{cluster.name} {source.resource}: {cache.state} {cache.message}")
        return found

    def _required_caches(self) -> Iterator[tuple[Cluster, Source]]:
        for fleet, sources in self._sources.items():
            for engagement in self._engagements[fleet].values():
                for source in sources:
                    if source.required:
                        yield engagement.cluster, source

    def _engaged(self, fleet: Fleet, cluster: Cluster) -> None:
        engagement = self._engagements[fleet][cluster.name] = _Engagement(cluster)
        sources = self._sources[fleet]
        caches = [cluster.cache(s.resource, label_selector=s.label_selector) for s in sources]
        # All indexes before any event: a mapping may look things up.
        for source, cache in zip(sources, caches, strict=True):
            for name, keys in source.indexes.items():
                cache.add_index(name, keys)
        for source, cache in zip(sources, caches, strict=True):
            if source.required and not cache.synced:
                engagement.missing += 1
                engagement.awaited += source.awaited
                cache.when_synced(partial(self._synced, fleet, engagement, source))
        if fleet is not self._fleet:
            self._reconsider()
        for source, cache in zip(sources, caches, strict=True):
            if isinstance(source, Watch):
                deliver = partial(self._deliver, source, cluster.name)
                engagement.unsubscribe.append(cache.subscribe(deliver))
        if fleet is self._fleet:
            self._open_gate(engagement)
            if cluster.name in self._left:
                del self._left[cluster.name]
                self._request_again(cluster.name)

    def _disengaged(self, fleet: Fleet, cluster: Cluster) -> None:
        self._engagements[fleet].pop(cluster.name).end()
        if fleet is self._fleet:
            self._open.pop(cluster.name, None)
            self._left[cluster.name] = None
            self._aside_size -= len(self._aside.pop(cluster.name, ()))
            self._forget(cluster.name)
            self._notify_ready()
        else:
            self._reconsider()

    def _request_again(self, name: str) -> None:
        """Request what other clusters' objects map to this one; its own come from its caches."""
        for fleet, sources in self._sources.items():
            watches = [source for source in sources if isinstance(source, Watch)]
            for engagement in list(self._engagements[fleet].values()):
                seen = engagement.cluster
                if fleet is self._fleet and seen.name == name:
                    continue
                for watch in watches:
                    cache = seen.cache(watch.resource, label_selector=watch.label_selector)
                    for obj in cache.list():
                        for request in self._mapped(watch, seen.name, None, obj):
                            if request.cluster == name:
                                self.offer(request)

    def _synced(self, fleet: Fleet, engagement: _Engagement, source: Source) -> None:
        engagement.missing -= 1
        engagement.awaited -= source.awaited
        if engagement.missing:
            self._notify_ready()
            return
        if fleet is self._fleet:
            self._open_gate(engagement)
        else:
            self._reconsider()

    def _reconsider(self) -> None:
        """The other fleets have changed: open all gates, or close them."""
        self._others_ready = all(
            fleet.discovered and not any(e.missing for e in self._engagements[fleet].values())
            for fleet in self._required
        )
        if not self._others_ready:
            self._open.clear()
            return
        for engagement in self._engagements[self._fleet].values():
            self._open_gate(engagement)
        self._notify_ready()

    def _open_gate(self, engagement: _Engagement) -> None:
        name = engagement.cluster.name
        if engagement.missing or not self._others_ready or name in self._open:
            return
        if self._engagements[self._fleet].get(name) is not engagement:
            return  # disengaged, or engaged again, before its caches were synced
        self._open[name] = None
        kept = self._aside.pop(name, {})
        self._aside_size -= len(kept)
        for request in kept:
            self._add(request, 0.0)
        self._notify_ready()

    def _notify_ready(self) -> None:
        if self._on_ready and self.ready:
            events, self._on_ready = self._on_ready, []
            for event in events:
                event.set()

    def _deliver(self, watch: Watch, cluster: str, old: Object | None, new: Object | None) -> None:
        if not watch.own_writes and new is not None:
            again = partial(self._deliver, watch, cluster, old, new)
            if self._own_writes.consume(new) or self._own_writes.hold(watch.resource, new, again):
                return
        requests = self._mapped(watch, cluster, old, new)
        delay = watch.delay(old, new) if watch.delay is not None and requests else 0.0
        for request in requests:
            self.offer(request, delay)

    def _mapped(
        self, watch: Watch, cluster: str, old: Object | None, new: Object | None
    ) -> Sequence[Request]:
        """Each state is mapped by itself: an object that can no longer be read, or can be again,
        still concerns whom its other state names. One that cannot be mapped stops no other."""
        faults: list[Exception] = []
        try:
            if watch.predicate is not None and not watch.predicate(old, new):
                return ()
        except Exception as error:  # noqa: BLE001  # a predicate may fail in any way
            faults.append(error)  # nothing says that the change does not matter
        requests = _try_map(watch, cluster, new, faults)
        # An object stays itself, so there the old state has nothing to add.
        if old is not None and (new is None or watch.map is not itself):
            before = _try_map(watch, cluster, old, faults)
            if before != requests:  # mostly the owner is the same
                requests = [*requests, *before]
        if faults:
            self.mapping_errors += 1
            self._report(watch, cluster, new or old, faults[0])
        return requests

    def _report(self, watch: Watch, cluster: str, obj: Object | None, error: Exception) -> None:
        """Log once for each object: a malformed one is likely to stay malformed."""
        if isinstance(error, Unreadable):
            return  # quarantined, hence reported
        name, namespace = (obj.name, obj.namespace) if obj is not None else ("", "")
        key = (cluster, str(watch.resource), namespace, name)
        if key in self._reported or len(self._reported) >= MAX_REPORTED:
            return
        self._reported[key] = None
        logger.error(
            "change could not be mapped",
            exc_info=error,
            controller=self._name,
            cluster=cluster,
            resource=str(watch.resource),
            namespace=namespace,
            name=name,
        )

    def _log(self, message: str, request: Request) -> None:
        logger.debug(message, controller=self._name, request=str(request))


def _try_map(
    watch: Watch, cluster: str, state: Object | None, faults: list[Exception]
) -> list[Request]:
    if state is None:
        return []
    try:
        requests = watch.map(cluster, state)
        return requests if isinstance(requests, list) else list(requests)
    except Exception as error:  # noqa: BLE001  # a mapping may fail in any way
        faults.append(error)
        return []


def fleets_of(fleet: Fleet, sources: Sequence[Source]) -> list[Fleet]:
    """The controller's own fleet first, then the others in the order of their sources."""
    return list(dict.fromkeys([fleet, *(source.fleet for source in sources)]))
