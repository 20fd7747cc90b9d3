"""One connection on virtual time: streams that are read slowly, or not to their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from datum_compute.client import errors
from datum_compute.client.http.connection import MAX_BUFFERED, HttpConnection
from tests.support.client.fake_socket import FakeSocket

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LARGE = b"x" * (MAX_BUFFERED + 1)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def open_stream() -> tuple[HttpConnection, FakeSocket, AsyncIterator[bytes]]:
    connection = HttpConnection("fake")
    socket = FakeSocket(connection)
    exchange = asyncio.ensure_future(connection.exchange("GET", b"request", stream=True))
    await asyncio.sleep(0)
    connection.data_received(HEAD)
    stream = (await exchange).stream
    assert stream is not None
    return connection, socket, stream


async def test_a_slow_reader_pauses_the_socket_until_it_reads() -> None:
    connection, socket, stream = await open_stream()
    connection.data_received(chunk(LARGE))
    assert socket.is_paused

    assert await anext(stream) == LARGE

    assert not socket.is_paused


async def test_chunks_received_before_a_disconnection_are_still_read() -> None:
    connection, socket, stream = await open_stream()
    connection.data_received(chunk(LARGE))
    connection.data_received(chunk(b"more"))
    socket.abort()
    await asyncio.sleep(0)

    assert await anext(stream) == LARGE + b"more"
    with pytest.raises(errors.Disconnected, match="fake: the connection closed before"):
        await anext(stream)


async def test_an_aborted_body_without_a_length_is_a_disconnection() -> None:
    connection = HttpConnection("fake")
    FakeSocket(connection)
    exchange = asyncio.ensure_future(connection.exchange("GET", b"request", stream=True))
    await asyncio.sleep(0)
    connection.data_received(b"HTTP/1.1 200 OK\r\n\r\npart")
    stream = (await exchange).stream
    assert stream is not None
    assert await anext(stream) == b"part"

    connection.abort("closed here")

    with pytest.raises(errors.Disconnected, match="closed here"):
        await anext(stream)
