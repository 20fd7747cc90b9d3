"""Starting parts of the runtime for the length of a block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.tasks import TaskGroup, stop_tasks
from datum_compute.testing import expectations
from tests.support.runtime.fake_plane import FakePlane


@asynccontextmanager
async def running(manager: Manager) -> AsyncIterator[asyncio.Task[Any]]:
    """The manager at work; an error of it fails the test."""
    task = asyncio.get_running_loop().create_task(manager.run(), name=manager.name)
    try:
        yield task
    finally:
        await stop_tasks([task])
    if not task.cancelled():
        task.result()


@asynccontextmanager
async def managed(env: Environment, *controllers: Controller) -> AsyncIterator[Manager]:
    manager = Manager("test", env)
    manager.add(*controllers)
    async with running(manager):
        await manager.wait_ready()
        yield manager


@asynccontextmanager
async def engaged(plane: FakePlane, env: Environment) -> AsyncIterator[Cluster]:
    """A cluster without a fleet around it."""
    async with TaskGroup("test") as tasks:
        cluster = Cluster(plane.cluster, plane, env, tasks)
        yield cluster
        await cluster.stop()


async def eventually(
    holds: Callable[[], bool], what: str | Callable[[], object], *, within: float = 60.0
) -> None:
    """Return once ``holds``. ``what`` was expected, or is called for what was found instead."""

    async def look() -> str:
        return "" if holds() else str(what() if callable(what) else what)

    await expectations.eventually("waiting", look, within=within)
