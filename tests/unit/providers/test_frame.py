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
from datum_compute.providers.errors import NotReady
from datum_compute.providers.frame import (
    FIRST_REPORT_SECONDS,
    REPORTED_SECONDS,
    provider_controller,
)
from datum_compute.providers.protocol import (
    AVAILABLE,
    PROGRAMMED,
    InstanceReport,
    InstanceTarget,
    Provider,
)
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


class WaitingProvider(SlowProvider):
    """Waits for an engine, from the start or after it has reported once."""

    def __init__(self, delay: float, *, first: InstanceReport | None = None) -> None:
        super().__init__(0.0)
        self._delay = delay
        self._reports = {f"app-{number}": first for number in range(2) if first is not None}

    async def ensure(self, target: InstanceTarget) -> InstanceReport:
        if report := self._reports.pop(target.instance.metadata.name, None):
            return report
        raise NotReady("the engine does not answer", delay=self._delay)


@asynccontextmanager
async def ready_provider(provider: Provider) -> AsyncIterator[tuple[ApiClient, float]]:
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
        manager.add(provider_controller(cell, provider, env, first_reports=True))
        start = asyncio.get_running_loop().time()
        task = asyncio.create_task(manager.run())
        await manager.wait_ready()
        try:
            yield client, asyncio.get_running_loop().time() - start
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_provider_is_ready_when_it_has_reported_every_instance() -> None:
    async with ready_provider(SlowProvider(2.0)) as (client, _):
        found = [await client.get(INSTANCES, f"app-{number}", "default") for number in range(2)]

        reported = {condition(each, compute.CONDITION_PROGRAMMED)[0] for each in found}
        assert reported == {conditions.TRUE}


async def test_a_provider_that_cannot_report_is_ready_after_a_while() -> None:
    async with ready_provider(SlowProvider(1000.0)) as (_, seconds):
        assert FIRST_REPORT_SECONDS <= seconds < FIRST_REPORT_SECONDS + 2


async def messages_of(provider: Provider) -> set[str]:
    """Of the condition Available of both Instances, some time after the start."""
    async with ready_provider(provider) as (client, _):
        await asyncio.sleep(10.0)
        found = [await client.get(INSTANCES, f"app-{number}", "default") for number in range(2)]
        stored = [
            conditions.find(each.view(compute.Instance).status.conditions, "Available")
            for each in found
        ]
        return {each.message if each is not None else "" for each in stored}


async def test_a_long_wait_before_the_first_start_is_reported() -> None:
    waiting = WaitingProvider(REPORTED_SECONDS)

    assert await messages_of(waiting) == {"the engine does not answer"}


async def test_a_short_wait_before_the_first_start_is_not_reported() -> None:
    waiting = WaitingProvider(REPORTED_SECONDS / 2)

    assert await messages_of(waiting) == {"Waiting for controller"}, "the default"


async def test_a_wait_changes_no_report_of_an_instance_that_was_started() -> None:
    started = InstanceReport(PROGRAMMED, AVAILABLE, requeue_after=1.0)

    assert await messages_of(WaitingProvider(5.0, first=started)) == {AVAILABLE.message}
