"""The rules of one connection, on virtual time and without sockets."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from typing import Any

import pytest

from datum_compute.apiserver.http.connection import (
    KEEP_ALIVE_SECONDS,
    MAX_HEAD,
    MAX_HEADERS,
    HttpServerConnection,
)
from datum_compute.client.transport import Handler, HttpRequest, HttpResponse


class Wire(asyncio.Transport):
    """What was put on it, and how it ended."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.ended = ""
        self.is_reading_paused = False

    def write(self, data: Any) -> None:
        self.sent.append(bytes(data))

    def is_closing(self) -> bool:
        return bool(self.ended)

    def close(self) -> None:
        self.ended = self.ended or "closed"

    def abort(self) -> None:
        self.ended = self.ended or "aborted"

    def pause_reading(self) -> None:
        self.is_reading_paused = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high

    def resume_reading(self) -> None:
        self.is_reading_paused = False


GET = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n"
TIMEOUT = 60.0


def connect(handler: Handler) -> tuple[Wire, HttpServerConnection]:
    wire = Wire()
    connection = HttpServerConnection(handler, TIMEOUT)
    connection.connection_made(wire)
    return wire, connection


async def _hello(request: HttpRequest) -> HttpResponse:
    return HttpResponse(200, {"content-type": "text/plain"}, b"hello")


async def test_a_whole_response_is_one_write_in_the_turn_in_which_it_is_built() -> None:
    wire, connection = connect(_hello)
    connection.data_received(GET)
    await asyncio.sleep(0)
    sent = list(wire.sent)
    await asyncio.sleep(0)
    connection.connection_lost(None)

    assert len(sent) == 1  # head and body together
    assert sent[0].endswith(b"\r\n\r\nhello")
    assert wire.sent == sent


async def test_a_code_without_a_name_is_sent() -> None:
    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(499, {}, b"")

    wire, connection = connect(handler)
    connection.data_received(GET)
    await asyncio.sleep(0)
    connection.connection_lost(None)

    assert wire.sent[0].startswith(b"HTTP/1.1 499 \r\n")


async def test_a_trailer_is_not_added_to_the_headers() -> None:
    seen: list[HttpRequest] = []

    async def handler(request: HttpRequest) -> HttpResponse:
        seen.append(request)
        return await _hello(request)

    _, connection = connect(handler)
    connection.data_received(
        b"POST /?a=%20b&c HTTP/1.1\r\nTransfer-Encoding: chunked\r\nX-Head: \xe9\r\n\r\n"
        b"2\r\nhi\r\n0\r\nAuthorization: Bearer late\r\n\r\n"
    )
    await asyncio.sleep(0)
    connection.connection_lost(None)

    assert [request.headers for request in seen] == [
        {"transfer-encoding": "chunked", "x-head": "\xe9"}
    ]
    assert seen[0].query == (("a", " b"), ("c", ""))
    assert seen[0].body == b"hi"


async def test_a_trailer_is_not_added_to_the_headers_of_the_next_request() -> None:
    seen: list[HttpRequest] = []

    async def handler(request: HttpRequest) -> HttpResponse:
        seen.append(request)
        return await _hello(request)

    _, connection = connect(handler)
    connection.data_received(
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\nAuthorization: Bearer late\r\n\r\n" + GET
    )
    await asyncio.sleep(1)
    connection.connection_lost(None)

    assert [request.headers for request in seen] == [
        {"transfer-encoding": "chunked"},
        {"host": "here"},
    ]


@pytest.mark.parametrize("name", ["Authorization", "content-type"])
async def test_a_header_that_may_be_given_once_is_refused_when_it_is_repeated(name: str) -> None:
    seen: list[HttpRequest] = []

    async def handler(request: HttpRequest) -> HttpResponse:
        seen.append(request)
        return await _hello(request)

    wire, connection = connect(handler)
    head = f"POST / HTTP/1.1\r\n{name}: a\r\n{name.upper()}: b\r\ncontent-length: 2\r\n\r\n"
    connection.data_received(head.encode() + b"{}" + GET)
    await asyncio.sleep(1)
    connection.connection_lost(None)

    assert wire.sent[0].startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert f"the header {name.lower()} is given twice".encode() in wire.sent[0]
    assert [request.method for request in seen] == ["GET"]  # only the next one


async def test_a_request_with_very_many_headers_is_refused() -> None:
    wire, connection = connect(_hello)
    headers = b"".join(b"a%d: b\r\n" % number for number in range(MAX_HEADERS + 1))
    connection.data_received(b"GET / HTTP/1.1\r\n" + headers + b"\r\n")
    await asyncio.sleep(1)
    connection.connection_lost(None)

    assert wire.sent[0].startswith(b"HTTP/1.1 400 ")
    assert wire.ended == "closed"


async def test_endless_trailers_are_refused() -> None:
    wire, connection = connect(_hello)
    connection.data_received(
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Filler: "
    )
    for _ in range(MAX_HEAD // 2**16):
        connection.data_received(b"x" * 2**16)
    await asyncio.sleep(0)
    connection.connection_lost(None)

    assert wire.sent[0].startswith(b"HTTP/1.1 431 ")
    assert wire.ended == "closed"


async def test_expect_100_continue_is_answered() -> None:
    wire, connection = connect(_hello)
    head = b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    connection.data_received(head)
    before = list(wire.sent)
    connection.data_received(b"{}")
    await asyncio.sleep(0)
    connection.connection_lost(None)

    assert before == [b"HTTP/1.1 100 Continue\r\n\r\n"]
    assert wire.sent[1].startswith(b"HTTP/1.1 200 OK\r\n")


async def test_line_breaks_in_a_header_cannot_add_another() -> None:
    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, {"warning": '299 - "a\r\nset-cookie: b\u20ac"'}, b"")

    wire, connection = connect(handler)
    connection.data_received(GET)
    await asyncio.sleep(0)
    connection.connection_lost(None)

    assert b'warning: 299 - "a??set-cookie: b?"\r\n' in wire.sent[0]


@pytest.mark.parametrize("sent", [b"", b"GE", GET + b"GE"])
async def test_a_request_must_arrive_within_a_time_limit_of_its_first_byte(sent: bytes) -> None:
    wire, connection = connect(_hello)
    await asyncio.sleep(TIMEOUT - 10)
    connection.data_received(sent) if sent else None
    start = TIMEOUT if sent else 10

    await asyncio.sleep(start - 1)
    in_time = wire.ended
    await asyncio.sleep(2)

    assert in_time == ""
    assert wire.ended == ("aborted" if sent else "closed")
    connection.connection_lost(None)


async def test_an_idle_connection_is_closed_later_than_clients_would_close_it() -> None:
    wire, connection = connect(_hello)
    connection.data_received(GET)

    await asyncio.sleep(KEEP_ALIVE_SECONDS - 1)
    connection.data_received(GET)
    await asyncio.sleep(KEEP_ALIVE_SECONDS - 1)
    in_time = wire.ended
    await asyncio.sleep(2)

    assert (in_time, len(wire.sent), wire.ended) == ("", 2, "closed")
    connection.connection_lost(None)


async def test_a_slow_handler_has_no_deadline_and_delays_later_requests() -> None:
    seen: list[str] = []

    async def slow(request: HttpRequest) -> HttpResponse:
        seen.append(request.method)
        await asyncio.sleep(10 * TIMEOUT)
        return await _hello(request)

    wire, connection = connect(slow)
    connection.data_received(GET + GET + b"GE")
    await asyncio.sleep(9 * TIMEOUT)
    meanwhile = (list(seen), wire.is_reading_paused, wire.ended)
    await asyncio.sleep(12 * TIMEOUT)

    assert meanwhile == (["GET"], True, "")
    assert (len(wire.sent), wire.is_reading_paused) == (2, False)
    connection.connection_lost(None)


async def test_a_client_that_stops_reading_is_disconnected() -> None:
    wire, connection = connect(_hello)
    connection.pause_writing()
    connection.data_received(GET)
    await asyncio.sleep(TIMEOUT - 1)
    in_time = wire.ended
    await asyncio.sleep(2)

    assert (in_time, wire.sent, wire.ended) == ("", [], "aborted")
    connection.connection_lost(None)
    await asyncio.sleep(0)
    assert wire.sent == []


@pytest.mark.parametrize("how", ["lost", "aborted", "garbage"])
async def test_whatever_ends_a_connection_closes_its_stream(how: str) -> None:
    closed: list[bool] = []

    async def lines() -> AsyncIterator[bytes]:
        try:
            yield b"one\n"
            await asyncio.sleep(10_000)
        finally:
            closed.append(True)

    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, {}, stream=lines())

    wire, connection = connect(handler)
    connection.data_received(GET)
    await asyncio.sleep(1)
    if how == "garbage":
        connection.data_received(b"\0\0\r\n\r\n")
    elif how == "aborted":
        connection.abort()
    connection.connection_lost(None)
    await asyncio.sleep(1)

    assert wire.sent[1:] == [b"4\r\none\n\r\n"]
    assert closed == [True]


async def test_shutting_down_lets_a_response_finish_and_then_closes() -> None:
    async def slow(request: HttpRequest) -> HttpResponse:
        await asyncio.sleep(1)
        return await _hello(request)

    (idle, first), (busy, second) = connect(slow), connect(slow)
    second.data_received(GET)
    await asyncio.sleep(0)
    first.shut_down()
    second.shut_down()
    before = (idle.ended, busy.ended)
    await asyncio.sleep(2)

    assert before == ("closed", "")
    assert b"connection: close" in busy.sent[0]
    assert busy.ended == "closed"
    first.connection_lost(None)
    second.connection_lost(None)


async def test_a_lost_connection_is_freed_at_once() -> None:
    wire, connection = connect(_hello)
    connection.data_received(GET)
    await asyncio.sleep(1)
    connection.connection_lost(None)
    freed = weakref.ref(connection)

    gc.disable()
    try:
        del connection
        await asyncio.sleep(0)
        assert freed() is None
    finally:
        gc.enable()
    assert len(wire.sent) == 1
