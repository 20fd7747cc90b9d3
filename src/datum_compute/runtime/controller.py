"""A controller: requests come in, reconciles run, and their outcome decides what follows.

A change anywhere reaches the controller through its :mod:`intake <.watches.intake>` as a request, a
key with a cluster name. The :mod:`queue <.workqueue.queue>` hands each key to one worker at a time.
Before it runs, its cluster must be open and the caches must have seen what the key's last
run wrote (:mod:`.writes.own_writes`). What the run returns or raises becomes a delay in exactly
one place, ``_conclude``, by the table in :mod:`.result`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from datum_compute.api.meta import Unreadable
from datum_compute.client import errors
from datum_compute.env import Environment
from datum_compute.log import get_logger
from datum_compute.runtime import log_context
from datum_compute.runtime.backoff import RECONCILE
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.leadership import NotLeader
from datum_compute.runtime.metrics.controller_metrics import ControllerMeter, MeteredQueue
from datum_compute.runtime.metrics.registry import MetricsRegistry
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, Terminal, Waiting
from datum_compute.runtime.tasks import TaskGroup
from datum_compute.runtime.watches.intake import Intake, fleets_of
from datum_compute.runtime.watches.watch_source import Read, Source, Watch
from datum_compute.runtime.workqueue.queue import Queue, QueueClosed, QueueStatistics
from datum_compute.runtime.workqueue.start_limiter import StartLimiter
from datum_compute.runtime.writes.own_writes import OwnWriteFilter, Write, WriteRecording

__all__ = ["Controller", "ControllerStatistics", "Read", "Reconcile", "Watch"]

logger = get_logger(__name__)

Reconcile = Callable[[Request], Awaitable[Result | None]]

SEEN_SECONDS = 5.0
"""How long a key waits for the caches to see its last writes, and the deadline of the live read
that follows."""

UNREADABLE_SECONDS = 300.0
"""How often a key is tried again that needs an object which cannot be read."""

TERMINATING_SECONDS = 5.0
"""How often a key is tried again that would create something in a namespace that is being deleted:
a namespace of the same name may follow, on a plane whose namespaces are not watched."""

CONFLICT_SECONDS = 0.25
"""The longest wait after a conflict where the cache does not show the other write before."""


@dataclass(frozen=True, slots=True)
class ControllerStatistics:
    runs: int
    errors: int
    conflicts: int
    waits: int
    terminal: int
    deferred: int
    """Runs put off because a cache had not seen the key's last writes."""
    live_reads: int
    """Times the caches took too long, and the object was read from the server."""
    dropped_empty: int
    dropped_unengaged: int
    mapping_errors: int
    queue: QueueStatistics | None
    """None while the controller does not run."""


@dataclass(slots=True)
class _Unseen:
    """What the last run of a key wrote and the caches have still to see."""

    writes: list[Write]
    deadline: float
    awaited: Write | None = None


class Controller:
    """Requests whose cluster is empty or not engaged in ``fleet`` are not run; one key is
    never in two workers; before a key runs again, caches have seen its last writes."""

    def __init__(
        self,
        name: str,
        fleet: Fleet,
        reconcile: Reconcile,
        *,
        watches: Sequence[Watch],
        reads: Sequence[Read] = (),
        workers: int = 8,
    ) -> None:
        """``workers`` is how many keys of one cluster run at once. All clusters together have
        twice as many, so that a cluster that hangs leaves half of them to the others; with 1
        there is one run at a time over all clusters."""
        self.name = name
        self.fleet = fleet
        self.reconcile = reconcile
        """One run, without the queue and the wait for own writes."""
        self._workers = workers
        self._all_workers = 2 * workers if workers > 1 else 1
        self.sources: tuple[Source, ...] = (*watches, *reads)
        """Everything it watches or reads."""
        self._own_writes = OwnWriteFilter(
            watch.resource for watch in watches if not watch.own_writes
        )
        self._intake = Intake(
            name, fleet, self.sources, self._add, self._forget_cluster, self._own_writes
        )
        self._queue: Queue[Request] | None = None
        self._meter: ControllerMeter | None = None
        self._active = 0
        self._idle = asyncio.Event()
        self._unseen: dict[Request, _Unseen] = {}
        self._sweep_at = 1024
        self._terminal_errors: dict[Request, str] = {}  # the terminal error last logged for a key
        self._counts = dict.fromkeys(
            ("runs", "errors", "conflicts", "waits", "terminal", "deferred", "live_reads"), 0
        )

    def fleets(self) -> list[Fleet]:
        """Every fleet this controller needs, its own first."""
        return fleets_of(self.fleet, self.sources)

    async def run(
        self,
        env: Environment,
        *,
        metrics: MetricsRegistry | None = None,
        elected: Callable[[], Awaitable[None]] | None = None,
        start_limiter: StartLimiter | None = None,
        start_rank: int = 0,
    ) -> None:
        """Until cancelled or closed. Fleets are run by the manager. Watches are followed at
        once; reconciles run when ``elected`` returns. ``start_limiter`` is shared with the others
        on this loop, each with its ``start_rank`` there."""
        random = env.random(f"runtime.controller.{self.name}")
        queue = self._queue = self._new_queue(random.random, metrics, start_limiter, start_rank)
        try:
            async with TaskGroup(f"controller {self.name}") as tasks:
                self._intake.start()
                if elected is not None:
                    await elected()
                for number in range(self._all_workers):
                    tasks.start(self._work(queue), name=f"{self.name} worker {number}")
        finally:
            self._intake.stop()
            queue.close()
            if self._meter is not None:
                self._meter.close()
                self._meter = None
            self._queue = None
            self._unseen.clear()

    def close(self) -> None:
        """Take no more keys. Reconciles that run go on to their end."""
        if self._queue is not None:
            self._queue.close()

    async def wait_idle(self) -> None:
        """Until no reconcile runs."""
        while self._active:
            self._idle = asyncio.Event()
            await self._idle.wait()

    async def wait_ready(self) -> None:
        """Until every fleet has discovered and every required cache is synced."""
        await self._intake.wait_ready()

    def missing(self) -> list[str]:
        """What it waits for before it is ready."""
        return self._intake.missing()

    def unserved(self) -> list[str]:
        """Clusters that lack a kind it needs there, and that readiness does not wait for."""
        return self._intake.unserved()

    def enqueue(self, request: Request) -> None:
        """Request a run from outside the watches: a timer, a test."""
        self._intake.offer(request)

    def statistics(self) -> ControllerStatistics:
        return ControllerStatistics(
            **self._counts,
            dropped_empty=self._intake.dropped_empty,
            dropped_unengaged=self._intake.dropped_unengaged,
            mapping_errors=self._intake.mapping_errors,
            queue=self._queue.statistics() if self._queue is not None else None,
        )

    def _new_queue(
        self,
        chance: Callable[[], float],
        metrics: MetricsRegistry | None,
        limiter: StartLimiter | None,
        rank: int,
    ) -> Queue[Request]:
        lane = attrgetter("cluster")
        turn = partial(limiter.acquire, self, rank) if limiter is not None else None
        if metrics is None:
            return Queue(RECONCILE, chance, lane=lane, workers=self._all_workers, turn=turn)
        queue: MeteredQueue[Request] = MeteredQueue(
            RECONCILE, chance, lane=lane, workers=self._all_workers, turn=turn
        )
        self._meter = meter = ControllerMeter(metrics, self.name, self._workers)
        meter.track_queue(queue)
        meter.track_intake(self._intake)
        meter.track_own_writes(lambda: self._counts["deferred"], lambda: self._counts["live_reads"])
        return queue

    def _add(self, request: Request, delay: float = 0.0) -> None:
        if self._queue is not None:
            self._queue.add_after(request, delay)

    def _forget_cluster(self, name: str) -> None:
        if self._queue is not None:
            self._queue.drop(name)
        for kept in (self._unseen, self._terminal_errors):
            for request in [request for request in kept if request.cluster == name]:
                kept.pop(request)

    async def _work(self, queue: Queue[Request]) -> None:
        while True:
            try:
                request = await queue.get()
            except QueueClosed:
                return
            self._active += 1
            try:
                if not self._intake.is_open(request.cluster):
                    self._intake.offer(request)  # its gate was closed since
                elif await self._is_caught_up(queue, request):
                    await self._run(queue, request)
            finally:
                queue.done(request)
                self._active -= 1
                if not self._active:
                    self._idle.set()
            if len(queue):
                # A reconcile that only reads caches never yields; let others run.
                await asyncio.sleep(0)

    async def _run(self, queue: Queue[Request], request: Request) -> None:
        self._counts["runs"] += 1
        number = self._counts["runs"]
        outcome: Result | Exception
        started = asyncio.get_running_loop().time()
        scope = log_context.enter(self.name, request, number)
        try:
            with WriteRecording(self._own_writes) as recording:
                try:
                    outcome = await self.reconcile(request) or DONE
                except Exception as error:  # noqa: BLE001  # _conclude logs and counts it
                    outcome = error
        finally:
            log_context.leave(scope)
        if self._meter is not None:
            self._meter.ran(outcome, asyncio.get_running_loop().time() - started)
        if not self._intake.is_engaged(request.cluster):
            return  # disengaged since: nothing may wait for this cluster
        if recording.writes:
            self._remember_writes(request, recording.writes)
        self._conclude(queue, request, outcome, number)
        if isinstance(outcome, errors.Conflict):
            for each in recording.refused:
                each.cache.when_seen(each.expectation, partial(self._add, request))

    def _conclude(
        self, queue: Queue[Request], request: Request, outcome: Result | Exception, number: int
    ) -> None:
        """The one place where an outcome becomes a delay."""
        if not isinstance(outcome, Terminal):
            self._terminal_errors.pop(request, None)
        match outcome:
            case Result(delay=delay):
                queue.forget(request)
                if delay is not None:
                    queue.add_after(request, delay)
            case Waiting(reason=reason, delay=delay):
                self._counts["waits"] += 1
                queue.forget(request)
                queue.add_after(request, delay)
                self._log(logging.DEBUG, "waiting", request, number, reason=reason, delay=delay)
            case Terminal():
                self._counts["terminal"] += 1
                queue.forget(request)
                self._log_terminal(request, number, outcome)
            case Unreadable():
                # Quarantined, hence reported; what it needs may be read again without an event.
                self._counts["terminal"] += 1
                queue.forget(request)
                queue.add_after(request, UNREADABLE_SECONDS)
                self._log(logging.DEBUG, "unreadable", request, number, reason=str(outcome))
            case NotLeader():
                # Another process has the key now, and this one is about to end.
                self._log(logging.INFO, "not leading", request, number, reason=str(outcome))
            case errors.NamespaceTerminating():
                # Nothing may be created there any more, and all that is there goes.
                self._counts["waits"] += 1
                queue.forget(request)
                queue.add_after(request, TERMINATING_SECONDS)
                self._log(logging.DEBUG, "waiting", request, number, reason=str(outcome))
            case errors.Conflict():
                self._counts["conflicts"] += 1
                queue.retry_soon(request, CONFLICT_SECONDS)
                self._log(logging.DEBUG, "conflict", request, number, reason=str(outcome))
            case _:
                self._counts["errors"] += 1
                after = getattr(outcome, "retry_after", None) or 0.0
                delay = queue.retry(request, at_least=after)
                self._log_error(request, number, outcome, delay)

    async def _is_caught_up(self, queue: Queue[Request], request: Request) -> bool:
        unseen = self._unseen.get(request)
        if unseen is None:
            return True
        unseen.writes = [write for write in unseen.writes if not write.seen()]
        if unseen.writes:
            left = unseen.deadline - asyncio.get_running_loop().time()
            if left > 0:
                self._defer(queue, request, unseen, left)
                return False
        del self._unseen[request]
        await self._read_live(request, unseen.writes)
        return True

    def _defer(self, queue: Queue[Request], request: Request, unseen: _Unseen, left: float) -> None:
        """Free the worker; the event or the deadline, whichever is first, requests the key."""
        self._counts["deferred"] += 1
        queue.add_after(request, left)
        first = unseen.writes[0]
        if unseen.awaited is not first:
            unseen.awaited = first
            first.cache.when_seen(first.expectation, partial(self._resume, request, unseen))

    def _resume(self, request: Request, unseen: _Unseen) -> None:
        if self._unseen.get(request) is unseen:
            self._add(request)

    async def _read_live(self, request: Request, writes: list[Write]) -> None:
        for write in writes:
            self._counts["live_reads"] += 1
            try:
                async with asyncio.timeout(SEEN_SECONDS):
                    await write.read_live()
            except (errors.ClientError, TimeoutError) as error:
                # That plane may be unreachable, and the run may not need it: writes are
                # conditional. The missing event requests another run when it arrives.
                self._own_writes.forget()
                self._log(
                    logging.WARNING, "own write could not be read", request, 0, reason=str(error)
                )

    def _remember_writes(self, request: Request, writes: list[Write]) -> None:
        deadline = asyncio.get_running_loop().time() + SEEN_SECONDS
        self._unseen[request] = _Unseen(writes, deadline)
        if len(self._unseen) > self._sweep_at:
            # Keys that never run again would stay here for ever.
            for key in [k for k, u in self._unseen.items() if all(w.seen() for w in u.writes)]:
                del self._unseen[key]
            self._sweep_at = max(1024, 2 * len(self._unseen))

    def _log_terminal(self, request: Request, number: int, error: Terminal) -> None:
        if self._terminal_errors.get(request) != str(error):
            self._terminal_errors[request] = str(error)
            self._log(
                logging.ERROR, "reconcile failed for good", request, number, reason=str(error)
            )

    def _log_error(self, request: Request, number: int, error: Exception, delay: float) -> None:
        # The traceback explains nothing about a failed call to a server.
        trace = None if isinstance(error, errors.ClientError) else error
        level = logging.WARNING if isinstance(error, errors.TransportFailure) else logging.ERROR
        self._log(level, "reconcile failed", request, number, trace, reason=str(error), delay=delay)

    def _log(
        self,
        level: int,
        message: str,
        request: Request,
        number: int,
        trace: Exception | None = None,
        **more: Any,
    ) -> None:
        if not logger.is_enabled_for(level):
            return
        logger.log(
            level,
            message,
            exc_info=trace,
            controller=self.name,
            cluster=request.cluster,
            namespace=request.namespace,
            name=request.name,
            reconcile_id=log_context.reconcile_id(self.name, number),
            **more,
        )
