"""The log of a simulated Instance: what was simulated, when, why, and that nothing runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client.protocol import merge
from datum_compute.providers.simulated import SimulatedProvider
from datum_compute.providers.simulated.behaviour import (
    CRASH_AFTER_SECONDS,
    FAIL,
    SLEEP_AFTER_SECONDS,
    START_SECONDS,
)
from datum_compute.providers.simulated.logs import KEPT, RESTARTED, STOPPED, InstanceLogs
from datum_compute.testing.environment import START, SimulatedEnvironment
from tests.support.objects import until_gone
from tests.support.providers.simulated import NS, available, cell, start
from tests.support.standins.platform import StandinPlatform, running, settle

STARTED = "simulated: started registry.example/app:1 (no container runs)"


@asynccontextmanager
async def running_provider(found: StandinPlatform) -> AsyncIterator[SimulatedProvider]:
    provider = SimulatedProvider(found.own_fleet("dfw"), found.env, networking_enabled=True)
    async with running(found.env, provider.controllers()):
        yield provider


async def read_lines(provider: SimulatedProvider, obj: Object, **wanted: Any) -> list[str]:
    return [line.text async for line in provider.lines(obj.metadata.uid, **wanted)]


async def lines_within(annotations: Mapping[str, str], seconds: float) -> list[tuple[float, str]]:
    """The lines of an Instance within this many seconds, each with its whole second."""
    async with cell() as found, running_provider(found) as provider:
        obj = await start(found, 0, annotations)
        begun = found.env.now()
        await asyncio.sleep(seconds)
        lines = [line async for line in provider.lines(obj.metadata.uid)]
        return [(round((line.at - begun).total_seconds()), line.text) for line in lines]


async def test_a_start_is_one_line_however_often_it_is_reconciled() -> None:
    async with cell() as found, running_provider(found) as provider:
        obj = await start(found, 0)
        await available(found, 0)
        for number in range(5):
            body = merge({"metadata": {"labels": {"look": str(number)}}})
            await found.cells["dfw"].patch(compute.INSTANCES, "app-0", body, NS)
            await settle()

        assert await read_lines(provider, obj) == [STARTED]


async def test_slow_starts_sleep_and_crashes_are_logged_when_they_happen() -> None:
    lines = await lines_within(
        {START_SECONDS: "5", SLEEP_AFTER_SECONDS: "20", CRASH_AFTER_SECONDS: "60"}, 300
    )

    assert lines == [
        (0, "simulated: starting registry.example/app:1"),
        (5, STARTED),
        (25, "simulated: Asleep: Instance sleeps until it is called"),
        (
            65,
            "simulated: failed: InstanceCrashing: the simulated process ended,"
            f" as {CRASH_AFTER_SECONDS} asks",
        ),
    ]


async def test_a_failed_instance_logs_why() -> None:
    assert await lines_within({FAIL: compute.REASON_IMAGE_UNAVAILABLE}, 60) == [
        (0, f"simulated: failed: ImageUnavailable: the simulated Instance fails, as {FAIL} asks")
    ]


async def test_after_a_restart_the_log_notes_that_earlier_lines_are_lost() -> None:
    async with cell() as found:
        async with running_provider(found):
            obj = await start(found, 0, {CRASH_AFTER_SECONDS: "60"})
            await available(found, 0)
        async with running_provider(found) as provider:
            await settle()
            at_first = await read_lines(provider, obj)
            await asyncio.sleep(120)

            assert at_first == [RESTARTED]
            assert [text.split(":")[2:3] for text in (await read_lines(provider, obj))[1:]] == [
                [" InstanceCrashing"]
            ]


async def test_lines_are_deleted_with_their_instance_and_followers_get_the_last_ones() -> None:
    async with cell() as found, running_provider(found) as provider:
        obj = await start(found, 0)
        await available(found, 0)
        following = asyncio.create_task(read_lines(provider, obj, tail=0, follow=True))
        await settle()
        await found.cells["dfw"].delete(compute.INSTANCES, "app-0", NS)
        await until_gone(found.cells["dfw"], compute.INSTANCES, "app-0", NS)

        assert await following == [STOPPED]
        assert await read_lines(provider, obj) == []


async def texts(logs: InstanceLogs, **wanted: Any) -> list[str]:
    asked = {"tail": None, "since": None, "follow": False} | wanted
    return [line.text async for line in logs.lines("one", **asked)]


def add_line(logs: InstanceLogs, number: int) -> None:
    logs.record_refusal("one", "Reason", str(number))


async def test_only_the_last_lines_are_kept() -> None:
    logs = InstanceLogs(SimulatedEnvironment())
    for number in range(KEPT + 50):
        add_line(logs, number)

    kept = await texts(logs)

    assert len(kept) == KEPT
    assert kept[0].endswith(": 50")
    assert kept[-1].endswith(f": {KEPT + 49}")


async def test_a_slow_follower_misses_only_dropped_lines() -> None:
    logs = InstanceLogs(SimulatedEnvironment())
    add_line(logs, 0)
    lines = logs.lines("one", tail=None, since=None, follow=True)
    found = [(await anext(lines)).text]
    for number in range(1, KEPT + 11):
        add_line(logs, number)
    logs.record_removal("one")
    found += [line.text async for line in lines]

    assert found[0].endswith(": 0")
    assert found[1].endswith(": 12")  # the end is a line too
    assert found[-2].endswith(f": {KEPT + 10}")
    assert found[-1] == STOPPED
    assert len(found) == KEPT + 1


async def test_since_and_tail_are_combined() -> None:
    logs = InstanceLogs(SimulatedEnvironment())
    for number in range(6):
        add_line(logs, number)
        await asyncio.sleep(10)

    since = START + timedelta(seconds=20)

    assert [text[-1] for text in await texts(logs, since=since)] == ["2", "3", "4", "5"]
    assert [text[-1] for text in await texts(logs, since=since, tail=2)] == ["4", "5"]
    assert [text[-1] for text in await texts(logs, since=since, tail=9)] == ["2", "3", "4", "5"]
    assert await texts(logs, tail=0) == []


async def test_waiting_for_an_instance_that_never_appears_leaves_nothing() -> None:
    logs = InstanceLogs(SimulatedEnvironment())
    waiting = asyncio.create_task(texts(logs, follow=True))
    await asyncio.sleep(1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert logs.uids == []
