"""A process of a simulated world, which can crash and start again.

A crash has two steps. First the network refuses everything from the process, so that nothing it
still does has an effect; only then its tasks are cancelled and their ``finally`` clauses run.
The next life starts without cache, queue or memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from datum_compute.env import Environment
from datum_compute.runtime.tasks import TaskGroup
from datum_compute.testing.network import SimulatedNetwork


class Program(Protocol):
    """What runs in a process; a :class:`~datum_compute.runtime.manager.Manager` is one."""

    async def run(self) -> None: ...

    async def wait_ready(self) -> None: ...


ProgramFactory = Callable[[Environment], Program]
"""Builds a program with its clients; called once for every life."""


class Process:
    def __init__(
        self, name: str, build: ProgramFactory, env: Environment, network: SimulatedNetwork
    ) -> None:
        self.name = name
        self.lives = 0
        self._build = build
        self._env = env
        """This process's own: its clock may be wrong."""
        self._network = network
        self._program: Program | None = None
        self._started = asyncio.Event()
        self._crash = asyncio.Event()
        self._down_for = 0.0

    async def run(self) -> None:
        """Run one life after another until cancelled."""
        async with TaskGroup(f"process {self.name}") as tasks:
            while True:
                self._network.revive(self.name)
                self.lives += 1
                self._crash.clear()
                program = self._program = self._build(self._env)
                self._started.set()
                life = tasks.start(program.run(), name=f"{self.name} life {self.lives}")
                await self._crash.wait()
                self._program = None
                self._started.clear()
                await tasks.stop(life)
                await asyncio.sleep(self._down_for)

    async def wait_ready(self) -> None:
        """Wait until its program is ready, across crashes."""
        while True:
            await self._started.wait()
            program = self._program
            if program is None:
                continue
            try:
                await program.wait_ready()
            except RuntimeError:
                if self._program is program:
                    raise
            else:
                return

    def crash(self, down_for: float = 0.0) -> None:
        """Crash now, and start again after ``down_for`` seconds."""
        if self._program is not None and not self._crash.is_set():
            self._down_for = down_for
            self._network.kill(self.name)
            self._crash.set()
