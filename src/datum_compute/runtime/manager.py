"""What runs in one process group: controllers, and the fleets they need."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from datum_compute.env import Environment
from datum_compute.runtime.controller import Controller, ControllerStatistics
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.tasks import TaskGroup


class Manager:
    """Runs until cancelled, and is gone without a trace when ``run`` has returned.

    Fleets are found in the controllers and started here: a fleet nobody starts finds
    nothing, in silence. One that several managers share is run by one of them at a time.
    """

    def __init__(self, name: str, env: Environment) -> None:
        self.name = name
        self._env = env
        self._controllers: list[Controller] = []
        self._started = asyncio.Event()
        self._ended = asyncio.Event()

    def add(self, *controllers: Controller) -> None:
        if self._started.is_set():
            raise RuntimeError(f"manager {self.name!r} runs already: controllers come before")
        self._controllers += controllers

    async def run(self) -> None:
        if not self._controllers:
            raise RuntimeError(f"manager {self.name!r} has no controllers and would do nothing")
        try:
            async with TaskGroup(f"manager {self.name}") as tasks:
                # Stopped in reverse: no reconcile runs any more when its clusters go.
                for fleet in self.fleets():
                    tasks.start(fleet.run(), name=f"{self.name} fleet {fleet.name}")
                for controller in self._controllers:
                    tasks.start(controller.run(self._env), name=f"{self.name} {controller.name}")
                self._started.set()
        finally:
            self._ended.set()

    async def wait_ready(self) -> None:
        """Until the fleets have discovered and the required caches are synced.

        Raises RuntimeError when the manager ends before that; ``run`` has the reason.
        """
        async with TaskGroup(f"manager {self.name} ready") as tasks:
            ready = tasks.start(self._wait_ready(), name=f"{self.name} ready")
            ended = tasks.start(self._ended.wait(), name=f"{self.name} ended")
            await asyncio.wait([ready, ended], return_when=asyncio.FIRST_COMPLETED)
            await tasks.stop(ready, ended)
        if ready.cancelled():
            raise RuntimeError(f"manager {self.name!r} ended before it was ready")

    async def _wait_ready(self) -> None:
        await self._started.wait()
        for controller in self._controllers:
            await controller.wait_ready()

    def missing(self) -> list[str]:
        """What it is not ready for, in words; empty when it is."""
        found = [text for controller in self._controllers for text in controller.missing()]
        return list(dict.fromkeys(found))

    def fleets(self) -> list[Fleet]:
        """Every fleet the controllers need, those that others read before their readers."""
        ordered: dict[Fleet, None] = {}
        _collect((fleet for c in self._controllers for fleet in c.fleets()), ordered)
        return list(ordered)

    def statistics(self) -> dict[str, ControllerStatistics]:
        return {controller.name: controller.statistics() for controller in self._controllers}


def _collect(fleets: Iterable[Fleet], ordered: dict[Fleet, None]) -> None:
    for fleet in fleets:
        if fleet not in ordered:
            _collect(fleet.sources, ordered)
            ordered[fleet] = None
