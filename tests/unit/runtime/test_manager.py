"""A manager starts in order, lists what it waits for, and stops without aborting work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from datum_compute.fleets.static import StaticFleet
from datum_compute.runtime import health
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.health import HealthCheck
from datum_compute.runtime.leadership import Leadership, LeaseName
from datum_compute.runtime.log_context import ContextFilter
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.request import Request
from datum_compute.runtime.tasks import stop_tasks
from datum_compute.runtime.watches.mapping import itself
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.server import embedded_server
from tests.support.runtime.blocks import running
from tests.support.runtime.fake_plane import WIDGETS, FakePlane


class Slow:
    """A reconcile that takes a while, and notes what it began and ended."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.begun: list[str] = []
        self.ended: list[str] = []

    async def __call__(self, request: Request) -> None:
        self.begun.append(request.name)
        await asyncio.sleep(self.seconds)
        self.ended.append(request.name)


def managed(slow: Slow, plane: FakePlane, leadership: Leadership | None = None) -> Manager:
    env = SimulatedEnvironment()
    fleet = StaticFleet("fleet", {"one": plane}, env)
    manager = Manager("test", env, leadership=leadership)
    watch = Watch(fleet, WIDGETS, itself)
    manager.add(Controller("slow", fleet, slow, watches=[watch], workers=2))
    return manager


async def test_draining_lets_reconciles_end_and_takes_no_new_keys() -> None:
    plane, slow = FakePlane(), Slow(3.0)
    for name in "abc":
        plane.put(name)
    manager = managed(slow, plane)
    async with running(manager):
        await asyncio.sleep(1.0)
        drained = await manager.drain(8.0)
        plane.put("d")
        await asyncio.sleep(10.0)

    assert drained
    assert slow.begun == slow.ended == ["a", "b"]


async def test_draining_ends_at_its_timeout() -> None:
    plane, slow = FakePlane(), Slow(1000.0)
    plane.put("a")
    manager = managed(slow, plane)
    async with running(manager):
        await asyncio.sleep(1.0)
        before = asyncio.get_running_loop().time()

        assert not await manager.drain(8.0)
        assert asyncio.get_running_loop().time() - before == pytest.approx(8.0)

    assert slow.ended == []


@asynccontextmanager
async def replica_beside_a_leader(
    slow: Slow, plane: FakePlane
) -> AsyncIterator[tuple[Manager, asyncio.Task[None]]]:
    """A running manager that does not lead, and the task that does."""
    async with embedded_server() as embedded:
        lease, env = LeaseName("default", "lease"), SimulatedEnvironment()
        client = embedded.client("cell/dfw")
        leader = Leadership(client, lease, "leader", env)
        leading = asyncio.create_task(leader.run())
        await leader.wait_elected()
        replica = managed(slow, plane, Leadership(client, lease, "replica", env))
        try:
            async with running(replica):
                yield replica, leading
        finally:
            await stop_tasks([leading])


async def test_a_replica_follows_nothing_until_it_is_elected() -> None:
    plane, slow = FakePlane(), Slow(0.0)
    plane.put("a")
    async with replica_beside_a_leader(slow, plane) as (replica, leading):
        await replica.wait_ready()
        await asyncio.sleep(60.0)
        plane.put("b")
        await asyncio.sleep(1.0)
        before = (plane.open_watches, replica.missing(), list(slow.begun))
        await stop_tasks([leading])
        await asyncio.sleep(10.0)

        assert before == (0, [], [])
        assert sorted(slow.ended) == ["a", "b"]
        assert plane.open_watches == 1


async def test_a_replica_that_could_not_lead_is_not_ready() -> None:
    plane = FakePlane()
    plane.unserved.add("widgets")
    async with replica_beside_a_leader(Slow(0.0), plane) as (replica, _):
        await asyncio.sleep(60.0)
        assert "NotServed" in "".join(replica.missing())
        plane.unserved.clear()
        await replica.wait_ready()
        assert replica.missing() == []


async def test_a_failed_check_lists_what_is_missing() -> None:
    plane, slow = FakePlane(), Slow(0.0)
    plane.unserved.add("widgets")
    manager = managed(slow, plane)
    checks = [HealthCheck("ping", lambda: ()), HealthCheck("caches", manager.missing)]
    async with running(manager):
        await asyncio.sleep(1.0)
        waiting = health.report("readyz", checks, verbose=False)
        plane.unserved.clear()
        await manager.wait_ready()
        ready = health.report("readyz", checks, verbose=False)
        verbose = health.report("readyz", checks, verbose=True)

    assert not waiting.healthy
    assert waiting.text.startswith("[+]ping ok\n[-]caches failed: one widgets.example.com: NotSer")
    assert waiting.text.endswith("readyz check failed\n")
    assert (ready.healthy, ready.text) == (True, "ok")
    assert verbose.text == "[+]ping ok\n[+]caches ok\nreadyz check passed\n"


async def test_a_long_list_of_missing_items_is_shortened() -> None:
    found = health.report("readyz", [HealthCheck("many", lambda: ["x"] * 50)], verbose=False)

    assert found.text.count("x") == 20
    assert "and 30 more" in found.text


async def test_a_log_line_inside_a_reconcile_carries_its_request() -> None:
    records: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    logger = logging.getLogger("deep")
    handler = Keep()
    handler.addFilter(ContextFilter())
    logger.addHandler(handler)
    plane = FakePlane()
    for name in "ab":
        plane.put(name)

    async def reconcile(request: Request) -> None:
        await asyncio.sleep(0.1)
        fields = {"reason": "because", "name": "child"}
        logger.warning("something happened", extra={"fields": fields})

    env = SimulatedEnvironment()
    fleet = StaticFleet("fleet", {"one": plane}, env)
    manager = Manager("test", env)
    manager.add(Controller("deep", fleet, reconcile, watches=[Watch(fleet, WIDGETS, itself)]))
    try:
        async with running(manager):
            await asyncio.sleep(1.0)
            logger.warning("outside")
    finally:
        logger.removeHandler(handler)

    found = [record.__dict__.get("fields") for record in records]
    assert found == [
        {
            "controller": "deep",
            "cluster": "one",
            "namespace": "default",
            "name": name,
            "reconcile_id": f"deep-{number}",
            "reason": "because",
            "object_name": "child",
        }
        for number, name in ((1, "a"), (2, "b"))
    ] + [None]
