"""What runs in one process group: controllers, and the fleets they need.

Started in this order: what the controllers hold open, such as connections; the candidate for the
lease, if there is one; fleets, which find clusters and fill caches; the controllers, which follow
their watches at once and work when this process leads. Stopped in reverse, so that no reconcile
runs when the lease is released.

A replica that does not lead fills all caches once, which shows that it could lead, and is ready.
Then it drops them and follows nothing until it is elected: to follow all watches took it a third
of the leader's CPU (measured).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from datum_compute.env import Environment
from datum_compute.runtime.controller import Controller, ControllerStatistics
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.leadership import Leadership
from datum_compute.runtime.metrics.controller_metrics import FleetMeter
from datum_compute.runtime.metrics.registry import MetricsRegistry
from datum_compute.runtime.tasks import TaskGroup
from datum_compute.runtime.workqueue.start_limiter import StartLimiter


class Manager:
    """Runs until cancelled; nothing of it runs when ``run`` has returned.

    Fleets are collected from the controllers and started here: a fleet that is not started
    finds nothing, silently. One that several managers share is run by one of them at a time.
    """

    def __init__(
        self,
        name: str,
        env: Environment,
        *,
        metrics: MetricsRegistry | None = None,
        leadership: Leadership | None = None,
        start_limiter: StartLimiter | None = None,
        start_rank: int = 0,
    ) -> None:
        """Without ``leadership`` it acts as soon as it is ready; with it, clients of the
        fleets are expected to be fenced by it. Managers that share a loop with a server
        share ``start_limiter``, each with its ``start_rank``."""
        self.name = name
        self.leadership = leadership
        self.metrics = metrics
        self._start_limiter = start_limiter
        self._start_rank = start_rank
        self._env = env
        self.controllers: list[Controller] = []
        self._held: list[AbstractAsyncContextManager[object]] = []
        self._measured: list[Callable[[], None]] = []
        self._started = asyncio.Event()
        self._ready = asyncio.Event()
        self._ended = asyncio.Event()
        self._awaits_election = False

    def add(self, *controllers: Controller) -> None:
        if self._started.is_set():
            raise RuntimeError(f"manager {self.name!r} is already running: add controllers before")
        self.controllers += controllers

    def enter(self, held: AbstractAsyncContextManager[object]) -> None:
        """Enter this context before anything else runs, and leave it after all of it has ended."""
        self._held.append(held)

    async def run(self) -> None:
        if not self.controllers:
            raise RuntimeError(f"manager {self.name!r} has no controllers and would do nothing")
        try:
            async with AsyncExitStack() as stack:
                for held in self._held:
                    await stack.enter_async_context(held)
                async with TaskGroup(f"manager {self.name}") as tasks:
                    self._start(tasks)
                    self._started.set()
        finally:
            self._ended.set()
            for stop_measuring in self._measured:
                stop_measuring()
            self._measured.clear()

    async def drain(self, seconds: float) -> bool:
        """Take no more keys, and give running reconciles this long to end. Returns whether all
        have; the caller then stops the manager."""
        try:
            async with asyncio.timeout(seconds):
                for controller in self.controllers:
                    controller.close()
                for controller in self.controllers:
                    await controller.wait_idle()
        except TimeoutError:
            return False
        return True

    def _start(self, tasks: TaskGroup) -> None:
        if self.metrics is not None:
            self._measured += [FleetMeter(self.metrics, each).close for each in self.fleets()]
        if self.leadership is not None:
            tasks.start(self.leadership.run(), name=f"{self.name} leadership")
            if self.metrics is not None:
                self._measured.append(self.leadership.track(self.metrics))
        following = self._follow(tasks)
        tasks.start(self._become_ready(tasks, following), name=f"{self.name} ready")

    def _follow(self, tasks: TaskGroup) -> list[asyncio.Task[None]]:
        """Start the fleets and the controllers."""
        started = [
            tasks.start(fleet.run(), name=f"{self.name} fleet {fleet.name}")
            for fleet in self.fleets()
        ]
        elected = self.leadership.wait_elected if self.leadership is not None else None
        for controller in self.controllers:
            work = controller.run(
                self._env,
                metrics=self.metrics,
                elected=elected,
                start_limiter=self._start_limiter,
                start_rank=self._start_rank,
            )
            started.append(tasks.start(work, name=f"{self.name} {controller.name}"))
        return started

    async def _become_ready(self, tasks: TaskGroup, following: list[asyncio.Task[None]]) -> None:
        for controller in self.controllers:
            await controller.wait_ready()
        self._ready.set()
        if self.leadership is None or self.leadership.elected:
            return
        self._awaits_election = True
        await tasks.stop(*following)
        await self.leadership.wait_elected()
        self._awaits_election = False
        self._follow(tasks)

    async def wait_ready(self) -> None:
        """Until the fleets have discovered and the required caches are synced.

        Raises RuntimeError when the manager ends before that; ``run`` has the reason.
        """
        async with TaskGroup(f"manager {self.name} ready") as tasks:
            ready = tasks.start(self._ready.wait(), name=f"{self.name} ready")
            ended = tasks.start(self._ended.wait(), name=f"{self.name} ended")
            await asyncio.wait([ready, ended], return_when=asyncio.FIRST_COMPLETED)
            await tasks.stop(ready, ended)
        if ready.cancelled():
            raise RuntimeError(f"manager {self.name!r} ended before it was ready")

    def missing(self) -> list[str]:
        """What it waits for before it is ready; empty when it is."""
        if self._awaits_election:
            return []
        found = [text for controller in self.controllers for text in controller.missing()]
        return list(dict.fromkeys(found))

    def unserved(self) -> list[str]:
        """Clusters on which a controller does nothing because they lack a kind it needs."""
        return [
            f"{controller.name}: {text}"
            for controller in self.controllers
            for text in controller.unserved()
        ]

    def fleets(self) -> list[Fleet]:
        """Every fleet the controllers need, those that others read before their readers."""
        ordered: dict[Fleet, None] = {}
        _collect((fleet for c in self.controllers for fleet in c.fleets()), ordered)
        return list(ordered)

    def statistics(self) -> dict[str, ControllerStatistics]:
        return {controller.name: controller.statistics() for controller in self.controllers}


def _collect(fleets: Iterable[Fleet], ordered: dict[Fleet, None]) -> None:
    for fleet in fleets:
        if fleet not in ordered:
            _collect(fleet.sources, ordered)
            ordered[fleet] = None
