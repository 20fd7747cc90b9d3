"""The controller that every provider runs in, on its start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import ConditionState
from datum_compute.client.client import ApiClient
from datum_compute.fleets.single import SingleFleet
from datum_compute.providers.frame import FIRST_REPORT_SECONDS, provider_controller
from datum_compute.providers.protocol import PROGRAMMED, InstanceReport, InstanceTarget
from datum_compute.runtime.manager import Manager
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.server import embedded_server
from tests.support.objects import condition
from tests.support.standins.platform import build, instance_spec

INSTANCES = compute.INSTANCES


class SlowProvider:
    """Takes its time to find out that nothing runs."""

    name = "slow"

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def ensure(self, target: InstanceTarget) -> InstanceReport:
        await asyncio.sleep(self._seconds)
        found = ConditionState(conditions.UNKNOWN, compute.REASON_PROVISIONING, "it starts")
        return InstanceReport(PROGRAMMED, found)

    async def suspend(self, target: InstanceTarget) -> None: ...

    async def remove(self, target: InstanceTarget) -> None: ...


@asynccontextmanager
async def ready_provider(seconds: float) -> AsyncIterator[tuple[ApiClient, float]]:
    """A cell with two Instances at the moment its provider says it is ready, and how long that
    took."""
    env = SimulatedEnvironment()
    async with embedded_server(env, cells=("dfw",)) as embedded:
        client = embedded.client("cell/dfw")
        for number in range(2):
            spec = {**instance_spec(), "controller": {"templateHash": "h", "schedulingGates": []}}
            body = build(INSTANCES, f"app-{number}", "default", spec=spec)
            await client.create(INSTANCES, body, "default")
        cell = SingleFleet("cell", "single", embedded.client("cell/dfw", "provider-dfw"), env)
        manager = Manager("provider", env)
        manager.add(provider_controller(cell, SlowProvider(seconds), env, first_reports=True))
        start = asyncio.get_running_loop().time()
        task = asyncio.create_task(manager.run())
        await manager.wait_ready()
        try:
            yield client, asyncio.get_running_loop().time() - start
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_provider_is_ready_when_it_has_reported_every_instance() -> None:
    async with ready_provider(2.0) as (client, _):
        found = [await client.get(INSTANCES, f"app-{number}", "default") for number in range(2)]

        reported = {condition(each, compute.CONDITION_PROGRAMMED)[0] for each in found}
        assert reported == {conditions.TRUE}


async def test_a_provider_that_cannot_report_is_ready_after_a_while() -> None:
    async with ready_provider(1000.0) as (_, seconds):
        assert FIRST_REPORT_SECONDS <= seconds < FIRST_REPORT_SECONDS + 2
