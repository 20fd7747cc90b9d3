"""The runtime's own metrics, under the names of controller-runtime.

Most of them are read at scrape time; a reconcile costs two observations, a queued key three
entries in a dictionary.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from functools import partial
from operator import attrgetter
from typing import Generic, Protocol, TypeVar

from datum_compute.api.meta import Unreadable
from datum_compute.client import errors
from datum_compute.runtime.cache.cache import Cache
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.metrics.registry import QUEUE_SECONDS, RECONCILE_SECONDS, MetricsRegistry
from datum_compute.runtime.result import Result, Terminal, Waiting
from datum_compute.runtime.workqueue.queue import Queue

K = TypeVar("K", bound=Hashable)


class QueueMeter(Generic[K]):
    """Measures how long keys wait and run; called by the queue."""

    def __init__(self, registry: MetricsRegistry, name: str) -> None:
        self._time = asyncio.get_running_loop().time
        waited, worked = _QUEUE_HISTOGRAMS
        labels = ("name", "controller")
        self._waited = registry.histogram(*waited, *labels, buckets=QUEUE_SECONDS)
        self._worked = registry.histogram(*worked, *labels, buckets=QUEUE_SECONDS)
        self._observe_wait = self._waited.labels(name, name).observe
        self._observe_work = self._worked.labels(name, name).observe
        self._added_at: dict[K, float] = {}
        self._taken_at: dict[K, float] = {}

    def added(self, key: K) -> None:
        """Also while it runs: it waits from now on for its next turn."""
        self._added_at.setdefault(key, self._time())

    def taken(self, key: K) -> None:
        now = self._taken_at[key] = self._time()
        self._observe_wait(now - self._added_at.pop(key, now))

    def done(self, key: K) -> None:
        now = self._time()
        self._observe_work(now - self._taken_at.pop(key, now))

    def forget(self, is_dropped: Callable[[K], bool]) -> None:
        for key in [key for key in self._added_at if is_dropped(key)]:
            del self._added_at[key]

    def unfinished_seconds(self) -> float:
        now = self._time()
        return sum(now - since for since in self._taken_at.values())

    def longest_seconds(self) -> float:
        now = self._time()
        return max((now - since for since in self._taken_at.values()), default=0.0)


_QUEUE_HISTOGRAMS = (
    ("workqueue_queue_duration_seconds", "How long keys wait until a worker takes them."),
    ("workqueue_work_duration_seconds", "How long a worker takes for a key."),
)


class MeteredQueue(Queue[K]):
    """A queue that calls a meter."""

    meter: QueueMeter[K]

    def add(self, key: K) -> None:
        self.meter.added(key)
        super().add(key)

    async def get(self) -> K:
        key = await super().get()
        self.meter.taken(key)
        return key

    def done(self, key: K) -> None:
        self.meter.done(key)
        super().done(key)

    def drop(self, lane: str) -> None:
        super().drop(lane)
        self.meter.forget(lambda key: self._lane(key) == lane)

    def close(self) -> None:
        super().close()
        self.meter.forget(lambda _: True)


class IntakeNumbers(Protocol):
    @property
    def dropped_empty(self) -> int: ...
    @property
    def dropped_unengaged(self) -> int: ...
    @property
    def mapping_errors(self) -> int: ...


class ControllerMeter:
    """The numbers of one controller while it runs."""

    def __init__(self, registry: MetricsRegistry, name: str, workers: int) -> None:
        self._registry = registry
        self._name = name
        self._untrack: list[Callable[[], None]] = []
        total = registry.counter(
            "controller_runtime_reconcile_total",
            "Reconciles by result: success, error, requeue (a conflict), requeue_after (a delay was"
            " requested).",
            *("controller", "result"),
        )
        self._success, self._error, self._requeue, self._requeue_after = (
            total.labels(name, result)
            for result in ("success", "error", "requeue", "requeue_after")
        )
        self._errors = registry.counter(
            "controller_runtime_reconcile_errors_total", "Reconciles that failed.", "controller"
        ).labels(name)
        self._terminal = registry.counter(
            "controller_runtime_terminal_reconcile_errors_total",
            "Of the reconciles that failed, those that are not retried until something changes.",
            "controller",
        ).labels(name)
        self._seconds = registry.histogram(
            "controller_runtime_reconcile_time_seconds",
            "How long a reconcile takes.",
            "controller",
            buckets=RECONCILE_SECONDS,
        ).labels(name)
        self._gauge("controller_runtime_max_concurrent_reconciles", "Workers.", lambda: workers)

    def ran(self, outcome: Result | Exception, seconds: float) -> None:
        self._seconds.observe(seconds)
        match outcome:
            case Result(delay=None):
                self._success.inc()
            case Result() | Waiting():
                self._requeue_after.inc()
            case errors.NamespaceTerminating():
                self._requeue_after.inc()
            case errors.Conflict():
                self._requeue.inc()
            case _:
                self._error.inc()
                self._errors.inc()
                if isinstance(outcome, Terminal | Unreadable):
                    self._terminal.inc()

    def track_queue(self, queue: MeteredQueue[K]) -> None:
        """Before anything is added to it."""
        meter: QueueMeter[K] = QueueMeter(self._registry, self._name)
        queue.meter = meter
        self._queue_gauge("workqueue_depth", "Keys that wait.", lambda: len(queue))
        self._queue_gauge(
            "workqueue_unfinished_work_seconds",
            "Total age of the keys that workers have now.",
            meter.unfinished_seconds,
        )
        self._queue_gauge(
            "workqueue_longest_running_processor_seconds",
            "Age of the oldest key that a worker has now.",
            meter.longest_seconds,
            combine=max,
        )
        numbers = queue.statistics
        self._queue_counter("workqueue_adds_total", "Keys added.", lambda: numbers().adds)
        self._queue_counter(
            "workqueue_retries_total", "Keys retried after a failure.", lambda: numbers().retries
        )
        self._gauge(
            "controller_runtime_active_workers",
            "Workers that run a reconcile now.",
            lambda: numbers().running,
        )

    def track_intake(self, numbers: IntakeNumbers) -> None:
        dropped = self._registry.counter(
            "compute_runtime_dropped_requests_total",
            "Requests that could not run: without a cluster (empty_cluster), or for one that is not"
            " engaged (unengaged).",
            *("controller", "reason"),
        )
        for reason, read in (
            ("empty_cluster", lambda: numbers.dropped_empty),
            ("unengaged", lambda: numbers.dropped_unengaged),
        ):
            self._untrack.append(dropped.labels(self._name, reason).track(read))
        self._counter(
            "compute_runtime_mapping_errors_total",
            "Changes that could not be mapped to requests.",
            lambda: numbers.mapping_errors,
        )

    def track_own_writes(
        self, deferred: Callable[[], float], live_reads: Callable[[], float]
    ) -> None:
        self._counter(
            "compute_runtime_own_write_deferrals_total",
            "Runs deferred until a cache had received the key's last writes.",
            deferred,
        )
        self._counter(
            "compute_runtime_own_write_live_reads_total",
            "Live reads because a cache took too long to receive the key's last writes.",
            live_reads,
        )

    def close(self) -> None:
        """Nothing is tracked any more; what was counted stays."""
        for untrack in self._untrack:
            untrack()
        self._untrack.clear()

    def _counter(self, name: str, text: str, read: Callable[[], float]) -> None:
        family = self._registry.counter(name, text, "controller")
        self._untrack.append(family.labels(self._name).track(read))

    def _gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        family = self._registry.gauge(name, text, "controller")
        self._untrack.append(family.labels(self._name).track(read))

    def _queue_counter(self, name: str, text: str, read: Callable[[], float]) -> None:
        family = self._registry.counter(name, text, "name", "controller")
        self._untrack.append(family.labels(self._name, self._name).track(read))

    def _queue_gauge(
        self,
        name: str,
        text: str,
        read: Callable[[], float],
        *,
        combine: Callable[..., float] = sum,
    ) -> None:
        family = self._registry.gauge(name, text, "name", "controller", combine=combine)
        self._untrack.append(family.labels(self._name, self._name).track(read))


class FleetMeter:
    """The clusters and caches of a fleet, by fleet and kind.

    Not by cluster: there may be thousands of those, and a series for each would cost more
    than it is worth."""

    def __init__(self, registry: MetricsRegistry, fleet: Fleet) -> None:
        self._fleet = fleet
        labels = ("fleet", "resource")
        clusters = registry.gauge("compute_runtime_clusters", "Engaged clusters.", "fleet")
        objects = registry.gauge("compute_runtime_cache_objects", "Objects in caches.", *labels)
        quarantined = registry.gauge(
            "compute_runtime_quarantined_objects",
            "Objects that cannot be read in full: a status that counts as none, or a spec that"
            " stops what concerns this object alone.",
            *labels,
        )
        unsynced = registry.gauge(
            "compute_runtime_caches_unsynced", "Caches that wait for their first list.", *labels
        )
        self._totals = {
            "lists": registry.counter(
                "compute_runtime_lists_total",
                "Full lists: one per cache, and one more each time the server had compacted its"
                " history.",
                *labels,
            ),
            "watches": registry.counter(
                "compute_runtime_watches_total", "Watches opened, the first one included.", *labels
            ),
        }
        self._close = [
            clusters.labels(fleet.name).track(lambda: len(fleet.clusters())),
            objects.sample(lambda: self._by_kind(len)),
            quarantined.sample(lambda: self._by_kind(lambda cache: len(cache.quarantine))),
            unsynced.sample(lambda: self._by_kind(lambda cache: not cache.synced)),
            *(
                family.sample(partial(self._by_kind, attrgetter(what)))
                for what, family in self._totals.items()
            ),
            fleet.listen(lambda _: None, self._keep_counts),
        ]

    def close(self) -> None:
        for close in self._close:
            close()

    def _by_kind(self, read: Callable[[Cache], float]) -> dict[tuple[str, ...], float]:
        found: dict[tuple[str, ...], float] = {}
        for cluster in self._fleet.clusters():
            for cache in cluster.caches():
                key = (self._fleet.name, str(cache.resource))
                found[key] = found.get(key, 0) + read(cache)
        return found

    def _keep_counts(self, cluster: Cluster) -> None:
        """The counts of a disengaged cluster stay."""
        for cache in cluster.caches():
            for what, family in self._totals.items():
                family.labels(self._fleet.name, str(cache.resource)).inc(getattr(cache, what))
