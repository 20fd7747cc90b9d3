"""The simulated provider passes the kit with and without networking; faulty ones fail it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.fleets.single import SingleFleet
from datum_compute.providers import conformance
from datum_compute.providers.conformance import Check, ConformanceCell, ConformanceFailure
from datum_compute.providers.frame import provider_controller
from datum_compute.providers.protocol import (
    AVAILABLE,
    PROGRAMMED,
    InstanceReport,
    InstanceTarget,
    LogLine,
    LogSource,
    Provider,
)
from datum_compute.providers.simulated import SimulatedProvider
from datum_compute.providers.simulated.behaviour import FAIL
from datum_compute.runtime.controller import Controller
from datum_compute.runtime.manager import Manager
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.server import EmbeddedServer, embedded_server


class Runner:
    """One provider on one cell, which can be restarted."""

    def __init__(self, embedded: EmbeddedServer, env: SimulatedEnvironment) -> None:
        self._embedded = embedded
        self._env = env
        self._task: asyncio.Task[None] | None = None

    def controllers(self, cell: SingleFleet) -> list[Controller]:
        self.provider = SimulatedProvider(cell, self._env, networking_enabled=True)
        return self.provider.controllers()

    def lines(self) -> LogSource:
        return self.provider

    async def start(self) -> None:
        client = self._embedded.client("cell/dfw", "provider-dfw")
        cell = SingleFleet("cell", "single", client, self._env)
        manager = Manager("provider", self._env)
        manager.add(*self.controllers(cell))
        self._task = asyncio.create_task(manager.run())
        await manager.wait_ready()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def restart(self) -> None:
        await self.stop()
        await self.start()


class NoNetworking(Runner):
    def controllers(self, cell: SingleFleet) -> list[Controller]:
        self.provider = SimulatedProvider(cell, self._env, networking_enabled=False)
        return self.provider.controllers()


class Careless:
    """Reports every Instance as available, also one that failed."""

    name = "simulated"

    async def ensure(self, target: InstanceTarget) -> InstanceReport:
        return InstanceReport(PROGRAMMED, AVAILABLE)

    async def remove(self, target: InstanceTarget) -> None:
        return None


class Endless:
    """Never ends the lines of a deleted Instance."""

    async def lines(
        self,
        uid: str,
        *,
        tail: int | None = None,
        since: datetime | None = None,
        follow: bool = False,
    ) -> AsyncIterator[LogLine]:
        yield LogLine(datetime(2026, 1, 1, tzinfo=UTC), "hello")
        if follow:
            await asyncio.Event().wait()


class EndlessRunner(Runner):
    def lines(self) -> LogSource:
        return Endless()


class CarelessRunner(Runner):
    def controllers(self, cell: SingleFleet) -> list[Controller]:
        return [provider_controller(cell, Careless(), self._env)]


@asynccontextmanager
async def conformance_cell(runner_type: type[Runner] = Runner) -> AsyncIterator[ConformanceCell]:
    env = SimulatedEnvironment()
    async with embedded_server(env, cells=("dfw",)) as embedded:
        runner = runner_type(embedded, env)
        await runner.start()
        try:
            yield ConformanceCell(
                embedded.client("cell/dfw"),
                "simulated",
                runner.restart,
                failure_annotations={
                    reason: {FAIL: reason} for reason in compute.PROVIDER_FAILURES
                },
                logs=runner.lines,
            )
        finally:
            await runner.stop()


@pytest.mark.parametrize("check", conformance.CHECKS, ids=conformance.title)
async def test_the_simulated_provider_passes_the_kit(check: Check) -> None:
    async with conformance_cell() as cell:
        await check(cell)


@pytest.mark.parametrize("check", conformance.CHECKS, ids=conformance.title)
async def test_the_simulated_provider_passes_the_kit_without_networking(check: Check) -> None:
    async with conformance_cell(NoNetworking) as cell:
        await check(cell)


async def test_the_kit_fails_a_provider_that_hides_failures() -> None:
    async with conformance_cell(CarelessRunner) as cell:
        with pytest.raises(ConformanceFailure, match="does not report"):
            await conformance.a_failure_is_reported_with_a_declared_reason(cell)


async def test_the_kit_fails_logs_that_do_not_end_or_ignore_tail() -> None:
    async with conformance_cell(EndlessRunner) as cell:
        with pytest.raises(ConformanceFailure, match="do not end"):
            await conformance.followed_logs_end_with_the_instance(cell)
        with pytest.raises(ConformanceFailure, match="tail"):
            await conformance.instance_logs_can_be_read(cell)


async def test_the_kit_fails_a_provider_that_does_nothing() -> None:
    env = SimulatedEnvironment()
    async with embedded_server(env, cells=("dfw",)) as embedded:
        idle = Runner(embedded, env)
        cell = ConformanceCell(embedded.client("cell/dfw"), "simulated", idle.stop)
        with pytest.raises(ConformanceFailure, match="not Available"):
            await conformance.the_last_gate_starts_it(cell)


def test_the_simulated_provider_implements_the_protocol() -> None:
    env = SimulatedEnvironment()

    async def make() -> Provider:
        return SimulatedProvider(
            SingleFleet("cell", "single", None, env),  # type: ignore[arg-type]  # never asked
            env,
            networking_enabled=False,
        )

    assert asyncio.run(make()).name == "simulated"
    assert compute.provider_finalizer("simulated") == "simulated.compute.datumapis.com/finalizer"
