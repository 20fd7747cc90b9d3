"""The pool on virtual time: which connections are used again, and which are closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from datum_compute.client import errors
from datum_compute.client.http.connection import HttpConnection
from datum_compute.client.http.pool import IDLE_SECONDS, ConnectionPool
from tests.support.client.fake_socket import FakeSocket

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class FakeServer:
    def __init__(self) -> None:
        self.sockets: list[FakeSocket] = []
        self.delay = 0.0
        self.on_connect: Callable[[FakeSocket], None] = lambda _: None

    async def connect(self) -> HttpConnection:
        await asyncio.sleep(self.delay)
        connection = HttpConnection("fake")
        socket = FakeSocket(connection)
        self.sockets.append(socket)
        self.on_connect(socket)
        return connection

    def pool(self, max_idle: int = 10) -> ConnectionPool:
        return ConnectionPool(self.connect, server="fake", max_idle=max_idle)

    def open_sockets(self) -> int:
        return sum(not socket.is_closing() for socket in self.sockets)


async def use(connection: HttpConnection, response: bytes = OK) -> None:
    exchange = asyncio.ensure_future(connection.exchange("GET", b"request", stream=False))
    await asyncio.sleep(0)
    connection.data_received(response)
    assert (await exchange).body == b"ok"


async def test_the_connection_used_last_is_used_again() -> None:
    server = FakeServer()
    pool = server.pool()
    first, second = await pool.acquire(), await pool.acquire()
    pool.release(first)
    pool.release(second)

    assert await pool.acquire() is second
    assert await pool.acquire() is first


async def test_idle_connections_are_closed_after_a_while() -> None:
    server = FakeServer()
    pool = server.pool()
    first, second = await pool.acquire(), await pool.acquire()
    pool.release(first)
    await asyncio.sleep(IDLE_SECONDS / 2)
    pool.release(second)
    await asyncio.sleep(IDLE_SECONDS / 2 + 0.1)
    assert server.open_sockets() == 1

    await asyncio.sleep(IDLE_SECONDS / 2)

    assert server.open_sockets() == 0
    assert (await pool.acquire()) not in (first, second)


async def test_idle_connections_are_closed_at_the_time_their_timer_is_set_to() -> None:
    server = FakeServer()
    pool = server.pool()
    await asyncio.sleep(0.01)  # with which the sum of both times is rounded
    pool.release(await pool.acquire())
    await asyncio.sleep(IDLE_SECONDS + 0.01)

    assert server.open_sockets() == 0


async def test_an_idle_connection_closed_by_the_server_is_not_used() -> None:
    server = FakeServer()
    pool = server.pool()
    pool.release(await pool.acquire())
    server.sockets[0].abort()

    await use(await pool.acquire())

    assert [socket.written for socket in server.sockets] == [[], [b"request"]]


async def test_an_idle_connection_on_which_bytes_arrive_is_not_used() -> None:
    server = FakeServer()
    pool = server.pool()
    connection = await pool.acquire()
    pool.release(connection)
    connection.data_received(OK)

    assert await pool.acquire() is not connection


@pytest.mark.parametrize(
    "response", [OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), OK + OK]
)
async def test_a_connection_whose_response_ended_it_is_not_used(response: bytes) -> None:
    server = FakeServer()
    pool = server.pool()
    connection = await pool.acquire()
    await use(connection, response)
    pool.release(connection)

    assert server.open_sockets() == 0
    assert await pool.acquire() is not connection


async def test_after_reconnect_no_older_connection_is_used() -> None:
    server = FakeServer()
    pool = server.pool()
    idle, busy = await pool.acquire(), await pool.acquire()
    pool.release(idle)
    server.delay = 1.0
    opening = asyncio.ensure_future(pool.acquire())
    await asyncio.sleep(0.5)
    pool.reconnect()

    await use(busy)  # what is in flight ends well
    pool.release(busy)
    pool.release(await opening)

    assert server.open_sockets() == 0


async def test_no_more_connections_are_kept_than_allowed() -> None:
    server = FakeServer()
    pool = server.pool(max_idle=2)
    for connection in [await pool.acquire() for _ in range(4)]:
        pool.release(connection)

    assert server.open_sockets() == 2


async def test_a_cancelled_caller_leaves_no_connection() -> None:
    server = FakeServer()
    server.delay = 1.0
    pool = server.pool()
    for turns in range(8):
        opening = asyncio.ensure_future(pool.acquire())
        await asyncio.sleep(0 if turns < 4 else 1.0)
        for _ in range(turns % 4):
            await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait([opening])
        if not opening.cancelled():
            opening.result().abort()

    assert server.open_sockets() == 0


async def test_a_server_that_closes_at_once_is_a_failed_connect() -> None:
    server = FakeServer()
    server.on_connect = FakeSocket.abort

    with pytest.raises(errors.ConnectFailed, match="fake: closed by the server"):
        await server.pool().acquire()


async def test_closing_the_pool_ends_open_connections_and_pending_connects() -> None:
    server = FakeServer()
    pool = server.pool()
    idle, busy = await pool.acquire(), await pool.acquire()
    reading = asyncio.ensure_future(busy.exchange("GET", b"request", stream=False))
    server.delay = 1.0
    opening = asyncio.ensure_future(pool.acquire())
    await asyncio.sleep(0.5)
    pool.release(idle)

    await pool.close()

    assert server.open_sockets() == 0
    assert busy.closed.done()
    with pytest.raises(errors.Disconnected, match="the transport is closed"):
        await reading
    for attempt in (opening, asyncio.ensure_future(pool.acquire())):
        with pytest.raises(errors.ConnectFailed, match="the transport is closed"):
            await attempt
