"""Streams of the HTTP transport, from their head to their end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from datum_compute.client import errors
from tests.support.client.http_transport import (
    GET,
    LONG,
    WATCH,
    transport_to,
)
from tests.support.client.socket_server import (
    ServedConnection,
)

pytestmark = pytest.mark.realtime


async def test_a_stream_yields_chunks_as_they_arrive_and_ends() -> None:
    go_on = asyncio.Event()

    async def script(connection: ServedConnection) -> None:
        await connection.request()
        await connection.begin_stream()
        await connection.chunk(b"one\n")
        await go_on.wait()
        await connection.chunk(b"two\n")
        await connection.chunk(b"")
        await connection.client_left()

    async with transport_to(script) as transport:
        response = await transport.send(WATCH, timeout=LONG)
        assert response.stream is not None
        assert await anext(response.stream) == b"one\n"
        go_on.set()
        assert [chunk async for chunk in response.stream] == [b"two\n"]


async def test_the_head_of_a_stream_is_returned_before_its_first_chunk() -> None:
    async def script(connection: ServedConnection) -> None:
        await connection.request()
        await connection.begin_stream()
        await connection.client_left()

    async with transport_to(script) as transport:
        response = await transport.send(WATCH, timeout=LONG)

        assert response.status == 200
        assert response.stream is not None


async def test_a_stream_may_outlast_the_deadline_of_its_head() -> None:
    async def script(connection: ServedConnection) -> None:
        await connection.request()
        await connection.begin_stream()
        await asyncio.sleep(0.2)
        await connection.chunk(b"late\n")
        await connection.client_left()

    async with transport_to(script) as transport:
        response = await transport.send(WATCH, timeout=0.1)
        assert response.stream is not None
        assert await anext(response.stream) == b"late\n"


async def test_an_incomplete_stream_is_a_disconnection() -> None:
    async def script(connection: ServedConnection) -> None:
        await connection.request()
        await connection.begin_stream()
        await connection.chunk(b"one\n")

    async with transport_to(script) as transport:
        response = await transport.send(WATCH, timeout=LONG)
        assert response.stream is not None
        with pytest.raises(errors.Disconnected):
            async for _ in response.stream:
                pass


async def test_a_stream_that_is_not_read_applies_backpressure() -> None:
    chunk = b"x" * 2**16
    sent = 0
    total = 500  # far more than the buffers of both sides

    async def script(connection: ServedConnection) -> None:
        nonlocal sent
        await connection.request()
        await connection.begin_stream()
        for _ in range(total):
            await connection.chunk(chunk)
            sent += 1
        await connection.chunk(b"")
        await connection.client_left()

    async with transport_to(script) as transport:
        response = await transport.send(WATCH, timeout=LONG)
        assert response.stream is not None
        await asyncio.sleep(0.2)
        assert sent < total

        received = [part async for part in response.stream]

    assert sum(map(len, received)) == total * len(chunk)


@pytest.mark.parametrize("reads", [0, 1])
async def test_closing_a_stream_early_disconnects_from_the_server(reads: int) -> None:
    left = asyncio.Event()

    async def script(connection: ServedConnection) -> None:
        await connection.request()
        await connection.begin_stream()
        await connection.chunk(b"one\n")
        await connection.client_left()
        left.set()

    async with transport_to(script) as transport:
        response = await transport.send(WATCH, timeout=LONG)
        stream: Any = response.stream
        for _ in range(reads):
            await anext(stream)
        await stream.aclose()

        async with asyncio.timeout(LONG):
            await left.wait()


async def test_open_streams_do_not_delay_requests() -> None:
    async def script(connection: ServedConnection) -> None:
        while head := await connection.request():
            if "watch" in head.target:
                await connection.begin_stream()
                await connection.client_left()
                return
            await connection.answer(b"ok")

    async with transport_to(script, max_connections=1) as transport:
        for _ in range(3):
            await transport.send(WATCH, timeout=LONG)

        assert (await transport.send(GET, timeout=LONG)).body == b"ok"


async def test_closing_ends_open_streams_and_refuses_later_requests() -> None:
    async def script(connection: ServedConnection) -> None:
        await connection.request()
        await connection.begin_stream()
        await connection.client_left()

    async with transport_to(script) as transport:
        response = await transport.send(WATCH, timeout=LONG)
        assert response.stream is not None
        waiting = asyncio.ensure_future(anext(response.stream))
        await asyncio.sleep(0)
        await transport.close()

        with pytest.raises(errors.TransportFailure):
            await waiting
        with pytest.raises(errors.ConnectFailed):
            await transport.send(GET, timeout=LONG)
