"""The container provider passes the kit of providers on a real engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.env import SystemEnvironment
from datum_compute.fleets.single import SingleFleet
from datum_compute.providers import conformance
from datum_compute.providers.conformance import Check, ConformanceCell
from datum_compute.providers.container import ContainerProvider, host
from datum_compute.providers.protocol import LogSource
from datum_compute.runtime.manager import Manager
from datum_compute.testing.server import EmbeddedServer, embedded_server

pytestmark = [pytest.mark.containers, pytest.mark.realtime]


class Runner:
    """The provider on one cell, which can be restarted."""

    def __init__(self, embedded: EmbeddedServer, engine: str, platform: str) -> None:
        self._embedded = embedded
        self._engine = engine
        self._platform = platform
        self._env = SystemEnvironment()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        client = self._embedded.client("cell/dfw", "provider-dfw")
        cell = SingleFleet("cell", "single", client, self._env)
        self.provider = ContainerProvider(
            "dfw",
            cell,
            self._env,
            engine=self._engine,
            platform=self._platform,
            networking=False,
            settle_seconds=1.0,
        )
        manager = Manager("provider", self._env)
        manager.enter(self.provider)
        manager.add(*self.provider.controllers())
        self._task = asyncio.create_task(manager.run())
        await manager.wait_ready()

    def lines(self) -> LogSource:
        return self.provider

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def restart(self) -> None:
        await self.stop()
        await self.start()


@asynccontextmanager
async def container_cell(engine: str) -> AsyncIterator[ConformanceCell]:
    env = SystemEnvironment()
    platform = env.new_uid()[:12]
    async with embedded_server(env, cells=("dfw",)) as embedded:
        runner = Runner(embedded, engine, platform)
        await runner.start()
        try:
            yield ConformanceCell(
                embedded.client("cell/dfw"),
                "container",
                runner.restart,
                image=host.BUSYBOX_IMAGE,
                timeout_seconds=60,
                settle_seconds=2,
                logs=runner.lines,
            )
        finally:
            await runner.stop()
            await host.end_containers(env, engine, platform, remove=True)


@pytest.mark.parametrize("check", conformance.CHECKS, ids=conformance.title)
async def test_the_container_provider_passes_the_kit(check: Check, engine: str) -> None:
    async with container_cell(engine) as cell:
        await check(cell)


async def test_an_instance_too_large_for_the_machine_waits_for_capacity(engine: str) -> None:
    async with container_cell(engine) as cell:
        body = conformance.build_instance(cell, "large-0")
        [container] = body["spec"]["runtime"]["sandbox"]["containers"]
        container["resources"] = {"limits": {"cpu": "4096"}}
        await cell.client.create(compute.INSTANCES, body, cell.namespace)

        async def refused() -> bool:
            found = (await conformance.read(cell, "large-0")).view(compute.Instance)
            available = conditions.find(found.status.conditions, compute.CONDITION_AVAILABLE)
            return (
                available is not None
                and available.reason == compute.REASON_INSUFFICIENT_CAPACITY
                and "asks for 4096 CPUs" in available.message
            )

        await conformance.wait(cell, refused, "InsufficientCapacity is not reported")
