"""A disconnected cell, at the transport of each of its clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from datum_compute.assembly.local.partitions import Partitions
from datum_compute.client import errors
from datum_compute.client.transport import HttpRequest
from datum_compute.runtime.tasks import TaskGroup
from tests.support.client.recording_server import RecordingServer

WATCH = HttpRequest("GET", "/clusters/hub/api/v1/namespaces", (("watch", "true"),))


async def test_a_disconnected_cell_is_refused_and_another_is_not() -> None:
    partitions = Partitions()
    partitions.disconnect("dfw")

    with pytest.raises(errors.ConnectFailed, match="cell dfw is disconnected"):
        await partitions.transport(RecordingServer(), "dfw").send(WATCH)
    await partitions.transport(RecordingServer(), "lhr").send(WATCH)
    partitions.connect("dfw")
    await partitions.transport(RecordingServer(), "dfw").send(WATCH)


async def test_a_waiting_watch_is_interrupted_and_closed_by_a_partition() -> None:
    partitions, server = Partitions(), RecordingServer()
    response = await partitions.transport(server, "dfw").send(WATCH)
    stream = response.stream
    assert stream is not None
    server.push(b"1")
    assert await anext(stream) == b"1"

    async with TaskGroup("watch") as tasks:
        reading = tasks.start(_read(stream), name="reading")
        await asyncio.sleep(1)
        partitions.disconnect("dfw")
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
    partitions, server = Partitions(), RecordingServer()
    stream = (await partitions.transport(server, "dfw").send(WATCH)).stream
    assert stream is not None
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5):
            await anext(stream)


async def test_a_change_is_stored_before_it_takes_effect() -> None:
    stored: list[list[str]] = []
    partitions = Partitions(["lhr"], on_change=stored.append)
    partitions.disconnect("dfw")
    partitions.connect("lhr")
    partitions.connect("lhr")

    assert stored == [["dfw", "lhr"], ["dfw"], ["dfw"]]
    assert partitions.cells == ["dfw"]


async def test_a_partition_that_cannot_be_stored_has_no_effect() -> None:
    def full(_: list[str]) -> None:
        raise OSError("no space left on device")

    partitions = Partitions(on_change=full)
    with pytest.raises(OSError, match="no space"):
        partitions.disconnect("dfw")

    assert partitions.cells == []
