"""A server restarts under its clients: a watch gets afterwards what it missed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from datum_compute.apiserver.http.listener import serve
from datum_compute.apiserver.request import access
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.http.transport import HttpTransport
from datum_compute.client.in_process import InProcessTransport
from datum_compute.client.protocol import WatchEvent
from datum_compute.client.transport import Handler, HttpRequest, HttpResponse, ServerGone, Transport
from datum_compute.testing.server import ADMIN, embedded_server
from tests.support.client_conformance.fixture import (
    EVENT_TIMEOUT,
    WIDGETS,
    ConformanceFixture,
    ConformanceTarget,
    next_event,
    next_events,
    open_fixture,
)

TOKEN = "the-same-before-and-after"


class Machine:
    """One server after the other on the same store."""

    def __init__(self, directory: Path, *, over_https: bool) -> None:
        self._directory = directory
        self._over_https = over_https
        self._running: AsyncExitStack | None = None
        self._handler: Handler | None = None
        self._port = 0

    async def start(self) -> None:
        self._running = stack = AsyncExitStack()
        embedded = await stack.enter_async_context(
            embedded_server(
                path=self._directory / "store", crds_for=lambda _: [], cells=(), projects=()
            )
        )
        embedded.server.add_user(ADMIN, (access.MASTERS,), TOKEN)
        if self._over_https:
            self._port = await stack.enter_async_context(
                serve(embedded.server, embedded.env, directory=self._directory, ports=[self._port])
            )
        else:
            stack.callback(embedded.server.end_watches)
        self._handler = embedded.server.handle

    async def stop(self) -> None:
        self._handler = None
        if self._running is not None:
            await self._running.aclose()
            self._running = None

    async def handle(self, request: HttpRequest) -> HttpResponse:
        if self._handler is None:
            raise ServerGone
        return await self._handler(request)

    def transport(self) -> Transport:
        if not self._over_https:
            return InProcessTransport(self.handle)
        ca_pem = (self._directory / "ca.crt").read_bytes()
        return HttpTransport(f"https://127.0.0.1:{self._port}", ca_pem=ca_pem)


@asynccontextmanager
async def machine_with_world(
    directory: Path, *, over_https: bool
) -> AsyncIterator[tuple[Machine, ConformanceFixture]]:
    async def nothing() -> None: ...

    machine = Machine(directory, over_https=over_https)
    await machine.start()
    transport = machine.transport()
    client = ApiClient(transport, cluster="hub", prefix="/clusters/hub", token=TOKEN)
    try:
        yield machine, await open_fixture(ConformanceTarget(client, lambda: client, "", nothing), 1)
    finally:
        await transport.close()
        await machine.stop()


async def to_its_end(events: AsyncIterator[WatchEvent]) -> list[str]:
    """The events until the server is down, whether the watch ends cleanly or breaks."""
    found = []
    try:
        async with asyncio.timeout(EVENT_TIMEOUT):
            async for event in events:
                found.append(event.object.name)
    except errors.TransportFailure:
        pass
    return found


async def what_a_restart_must_keep(machine: Machine, world: ConformanceFixture) -> None:
    since = await world.revision()
    async with world.client.watch(WIDGETS, world.namespace, resource_version=since) as events:
        await world.create("one")
        seen = await next_event(events)
        await machine.stop()
        assert await to_its_end(events) == []
    with pytest.raises(errors.ConnectFailed):
        await world.create("lost")
    since = seen.object.metadata.resource_version

    await machine.start()
    await world.create("two")
    async with world.client.watch(WIDGETS, world.namespace, resource_version=since) as events:
        await world.create("three")

        assert await next_events(events, 2) == [("ADDED", "two"), ("ADDED", "three")]
    assert await world.names() == ["one", "three", "two"]


async def what_was_missed_before_a_restart(machine: Machine, world: ConformanceFixture) -> None:
    """Changes that were not read when the server stopped come after it, or the watch is
    ``Expired`` and a list has them."""
    since = await world.revision()
    await world.create("one")
    await world.delete("one")
    await world.create("two")

    await machine.stop()
    await machine.start()

    try:
        async with world.client.watch(WIDGETS, world.namespace, resource_version=since) as events:
            assert await next_events(events, 3) == [
                ("ADDED", "one"),
                ("DELETED", "one"),
                ("ADDED", "two"),
            ]
    except errors.Expired:
        assert await world.names() == ["two"]


async def pages_over_a_restart(machine: Machine, world: ConformanceFixture) -> None:
    await world.create_many("a", "b", "c")
    first = await world.client.list(WIDGETS, world.namespace, limit=2)

    await machine.stop()
    await machine.start()
    await world.delete("c")

    try:
        rest = await world.client.list(
            WIDGETS, world.namespace, limit=2, continue_token=first.continue_token
        )
        assert [item.name for item in rest.items] == ["c"]
    except errors.Expired:
        assert await world.names() == ["a", "b"]


SCENES: list[Callable[[Machine, ConformanceFixture], object]] = [
    what_a_restart_must_keep,
    what_was_missed_before_a_restart,
    pages_over_a_restart,
]
every_scene = pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)


@every_scene
async def test_in_process(scene: Callable[..., object], tmp_path: Path) -> None:
    async with machine_with_world(tmp_path, over_https=False) as given:
        await scene(*given)  # type: ignore[misc]


@pytest.mark.realtime
@every_scene
async def test_over_https(scene: Callable[..., object], tmp_path: Path) -> None:
    async with machine_with_world(tmp_path, over_https=True) as given:
        await scene(*given)  # type: ignore[misc]
