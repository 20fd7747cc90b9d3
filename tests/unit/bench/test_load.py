"""The load generator counts only the expected responses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from bench.load import Connection, UnexpectedAnswer

REQUEST = b"GET /thing HTTP/1.1\r\nHost: here\r\n\r\n"


@contextlib.asynccontextmanager
async def connection_to(*answers: bytes) -> AsyncIterator[Connection]:
    """A connection to a server that gives these answers in turn."""
    remaining = iter(answers)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for text in remaining:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(text)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        connection = Connection(*await asyncio.open_connection(host, port))
        yield connection
        await connection.close()


@pytest.mark.realtime
async def test_answers_are_split_by_length_or_by_chunks() -> None:
    async with connection_to(
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nseco\r\n2\r\nnd\r\n0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 201 Created\r\ncontent-length: 5\r\nserver: x\r\n\r\nthird",
    ) as connection:
        assert await connection.ask(REQUEST, b"200") == b"first"
        assert await connection.ask(REQUEST, b"200") == b"second"
        assert await connection.ask(REQUEST, b"204") == b""
        assert await connection.ask(REQUEST, b"201") == b"third"


@pytest.mark.realtime
async def test_an_unexpected_status_ends_the_measurement_with_its_body() -> None:
    async with connection_to(
        b"HTTP/1.1 422 Unprocessable\r\ncontent-length: 10\r\n\r\nspec.image"
    ) as connection:
        with pytest.raises(UnexpectedAnswer, match=r"GET /thing .* 422 .*: spec\.image"):
            await connection.ask(REQUEST, b"201")
