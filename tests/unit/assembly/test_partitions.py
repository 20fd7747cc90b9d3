"""A cell that is cut off from the centre, at the transport of each of its clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from datum_compute.assembly.local.partitions import Partitions
from datum_compute.client import errors
from datum_compute.client.transport import HttpRequest, HttpResponse
from datum_compute.runtime.tasks import TaskGroup

READ = HttpRequest("GET", "/clusters/hub/api")


class Server:
    def __init__(self) -> None:
        self.closed = 0
        self.messages: asyncio.Queue[bytes] = asyncio.Queue()

    async def send(self, request: HttpRequest, *, timeout: float | None = None) -> HttpResponse:
        return HttpResponse(200, stream=self._stream())

    async def close(self) -> None: ...

    async def _stream(self) -> AsyncIterator[bytes]:
        try:
            while True:
                yield await self.messages.get()
        finally:
            self.closed += 1


async def test_a_disconnected_cell_is_refused_and_another_is_not() -> None:
    cuts = Partitions()
    cuts.disconnect("dfw")

    with pytest.raises(errors.ConnectFailed, match="cell dfw is disconnected"):
        await cuts.transport(Server(), "dfw").send(READ)
    await cuts.transport(Server(), "lhr").send(READ)
    cuts.connect("dfw")
    await cuts.transport(Server(), "dfw").send(READ)


async def test_a_watch_that_waits_is_broken_off_and_closed() -> None:
    cuts, server = Partitions(), Server()
    response = await cuts.transport(server, "dfw").send(READ)
    stream = response.stream
    assert stream is not None
    server.messages.put_nowait(b"1")
    assert await anext(stream) == b"1"

    async with TaskGroup("watch") as tasks:
        reading = tasks.start(_read(stream), name="reading")
        await asyncio.sleep(1)
        cuts.disconnect("dfw")
        await asyncio.wait([reading])

    assert reading.result() == "broken"
    assert server.closed == 1


async def _read(stream: AsyncIterator[bytes]) -> str:
    try:
        await anext(stream)
    except errors.Disconnected:
        pass
    await asyncio.sleep(1)  # the cancellation was ours: the reader may go on with other things
    with pytest.raises(errors.Disconnected):
        await anext(stream)
    return "broken"


async def test_a_foreign_cancellation_is_not_taken_for_a_partition() -> None:
    cuts, server = Partitions(), Server()
    stream = (await cuts.transport(server, "dfw").send(READ)).stream
    assert stream is not None
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5):
            await anext(stream)


async def test_what_was_cut_is_told_before_it_takes_effect() -> None:
    told: list[list[str]] = []
    cuts = Partitions(["lhr"], on_change=told.append)
    cuts.disconnect("dfw")
    cuts.connect("lhr")
    cuts.connect("lhr")

    assert told == [["dfw", "lhr"], ["dfw"], ["dfw"]]
    assert cuts.cells == ["dfw"]


async def test_a_partition_that_cannot_be_stored_is_not_made() -> None:
    def full(_: list[str]) -> None:
        raise OSError("no space left on device")

    cuts = Partitions(on_change=full)
    with pytest.raises(OSError, match="no space"):
        cuts.disconnect("dfw")

    assert cuts.cells == []
