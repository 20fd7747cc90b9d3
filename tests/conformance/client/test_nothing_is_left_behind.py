"""A call cancelled at any moment leaves neither a watch at the server nor a socket."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.http.transport import HttpTransport
from datum_compute.testing.server import EmbeddedServer, embedded_server
from tests.support.client_conformance.fixture import (
    EVENT_TIMEOUT,
    WIDGETS,
    ConformanceFixture,
    ConformanceTarget,
    next_event,
    open_fixture,
)


@dataclass(frozen=True)
class Scene:
    embedded: EmbeddedServer
    world: ConformanceFixture
    slack: int
    """Turns of the loop that a call takes, roughly."""

    def open_watches(self) -> int:
        tables = self.embedded.store.planes["hub"].tables
        return sum(len(table.sinks) for table in tables.values())

    async def settle(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(EVENT_TIMEOUT):
            while not done():  # noqa: ASYNC110 - the server signals nothing
                await asyncio.sleep(0.01)

    async def give_up(self, start: Callable[[], Awaitable[object]], turns: int) -> None:
        task = asyncio.ensure_future(start())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])


async def nothing() -> None: ...


@asynccontextmanager
async def in_process() -> AsyncIterator[Scene]:
    async with embedded_server(crds_for=lambda _: [], cells=(), projects=()) as embedded:
        client = embedded.client("hub")
        world = await open_fixture(ConformanceTarget(client, lambda: client, "", nothing), 1)
        yield Scene(embedded, world, slack=12)


@asynccontextmanager
async def over_https() -> AsyncIterator[tuple[Scene, HttpTransport]]:
    async with (
        embedded_server(crds_for=lambda _: [], cells=(), projects=()) as embedded,
        embedded.serve_https() as address,
    ):
        transport = HttpTransport(address.base_url, ca_pem=address.ca_pem)
        client = ApiClient(transport, cluster="hub", prefix="/clusters/hub", token=address.token)
        try:
            world = await open_fixture(ConformanceTarget(client, lambda: client, "", nothing), 1)
            yield Scene(embedded, world, slack=60), transport
        finally:
            await transport.close()


def open_sockets() -> int:
    gc.collect()
    links = []
    for number in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            pass  # the directory's own
    return sum(link.startswith("socket:") for link in links)


async def read_for_ever(world: ConformanceFixture, since: str) -> None:
    async with world.client.watch(WIDGETS, world.namespace, resource_version=since) as events:
        async for _ in events:
            pass


async def cancelled_watches(scene: Scene) -> None:
    world = scene.world
    since = await world.revision()
    for turns in range(scene.slack):
        await scene.give_up(lambda: read_for_ever(world, since), turns)
        # With a write in flight the server responds a little later.
        write = asyncio.ensure_future(world.create(f"w{turns}"))
        await scene.give_up(lambda: read_for_ever(world, since), turns)
        await write
    for _ in range(5):  # and long after they were opened
        task = asyncio.ensure_future(read_for_ever(world, since))
        await scene.settle(lambda: scene.open_watches() > 0)
        task.cancel()
        await asyncio.wait([task])

    await scene.settle(lambda: scene.open_watches() == 0)


async def watches_left_in_every_way(scene: Scene) -> None:
    world = scene.world
    since = await world.revision()
    async with world.client.watch(WIDGETS, world.namespace, resource_version=since):
        pass
    with pytest.raises(KeyError):
        async with world.client.watch(WIDGETS, world.namespace) as events:
            raise KeyError
    async with world.client.watch(WIDGETS, world.namespace, resource_version=since) as events:
        await world.create("seen")
        await next_event(events)
    with pytest.raises(TimeoutError):
        async with (
            asyncio.timeout(0.1),
            world.client.watch(WIDGETS, world.namespace, resource_version=since) as events,
        ):
            async for _ in events:
                pass

    await scene.settle(lambda: scene.open_watches() == 0)


async def deadlines_that_pass_while_opening(scene: Scene) -> None:
    hurried = ApiClient(
        scene.world.client._transport,
        cluster="hub",
        prefix="/clusters/hub",
        token=scene.embedded.token(),
        request_timeout=0.0,
    )
    for number in range(10):
        write = asyncio.ensure_future(scene.world.create(f"w{number}"))
        await asyncio.sleep(0)
        try:
            async with hurried.watch(WIDGETS, scene.world.namespace):
                pass
        except errors.TimedOut:
            pass
        await write

    await scene.settle(lambda: scene.open_watches() == 0)


WAYS = [cancelled_watches, watches_left_in_every_way, deadlines_that_pass_while_opening]
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


@every_way
async def test_no_watch_is_left_open_in_process(way: Callable[[Scene], Awaitable[None]]) -> None:
    async with in_process() as scene:
        await way(scene)


@pytest.mark.realtime
@every_way
async def test_no_watch_is_left_open_over_https(way: Callable[[Scene], Awaitable[None]]) -> None:
    async with over_https() as (scene, _):
        await way(scene)


@pytest.mark.realtime
async def test_cancelled_calls_leave_no_socket_behind() -> None:
    async with over_https() as (scene, transport):
        world = scene.world
        since = await world.revision()
        before = open_sockets()
        for turns in range(40):
            await scene.give_up(lambda: world.names(), turns)
            await scene.give_up(lambda: read_for_ever(world, since), turns)

        # One idle connection at each end may stay for the next call; the rest goes.
        await scene.settle(lambda: open_sockets() <= before + 2)
        await transport.close()
        await scene.settle(lambda: open_sockets() < before)
