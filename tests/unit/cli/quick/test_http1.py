"""One connection for GET requests: what it sends, accepts and refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datum_compute.cli.quick import http1
from datum_compute.cli.quick.http1 import BlockingConnection
from datum_compute.client.http.faults import MAX_HEAD, MalformedResponse
from datum_compute.client.http.tls import client_context
from tests.support.client.socket_server import Script, ServedConnection, self_signed, serve_script

T = TypeVar("T")
Answer = tuple[int, dict[str, str], bytes]

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def answering(*answers: bytes, connections: list[ServedConnection] | None = None) -> Script:
    """Sends the responses in turn, on any connection, and then disconnects."""
    left = list(answers)

    async def script(connection: ServedConnection) -> None:
        if connections is not None:
            connections.append(connection)
        while left and await connection.request():
            await connection.send(left.pop(0))

    return script


async def talk(script: Script, call: Callable[[BlockingConnection], T], **options: Any) -> T:
    def run(port: int) -> T:
        connection = BlockingConnection("127.0.0.1", port, **{"timeout": 5.0, **options})
        try:
            connection.connect()
            return call(connection)
        finally:
            connection.close()

    async with serve_script(script) as port:
        return await asyncio.to_thread(run, port)


def get(connection: BlockingConnection) -> Answer:
    return connection.get("/x", {"Host": "h"})


async def answer_to(sent: bytes) -> Answer:
    return await talk(answering(sent), get)


@pytest.mark.realtime
async def test_a_request_is_sent_as_given() -> None:
    heads = []

    async def script(connection: ServedConnection) -> None:
        heads.append(await connection.request())
        await connection.answer(b"hello", "200 OK", "X-One: a", "x-one: b")

    code, headers, body = await talk(
        script, lambda c: c.get("/a?b=c", {"Host": "h:1", "Accept": "text/plain"})
    )

    assert (code, body) == (200, b"hello")
    assert headers == {"content-length": "5", "x-one": "a, b"}
    assert heads[0] is not None
    assert (heads[0].method, heads[0].target) == ("GET", "/a?b=c")
    assert heads[0].headers == {"host": "h:1", "accept": "text/plain"}


@pytest.mark.realtime
@pytest.mark.parametrize(
    ("sent", "body"),
    [
        (OK + b"Content-Length: 0\r\n\r\n", b""),
        (OK + b"Content-Length: 3, 3\r\n\r\nabc", b"abc"),
        (OK + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", b"abc"),
        (OK + b"\r\nuntil the end", b"until the end"),
        (b"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\na", b"a"),
        (CHUNKED + b"3\r\nabc\r\n0\r\n\r\n", b"abc"),
        (CHUNKED + b"3;x=y\r\nabc\r\nA \r\n0123456789\r\n000\r\nX: y\r\n\r\n", b"abc0123456789"),
        (OK + b"Transfer-Encoding: Chunked\r\nContent-Length: 9\r\n\r\n1\r\na\r\n0\r\n\r\n", b"a"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\na", b"a"),
        (b"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\na", b"a"),
    ],
)
async def test_a_body_ends_where_its_framing_ends_it(sent: bytes, body: bytes) -> None:
    assert (await answer_to(sent))[::2] == (200, body)


@pytest.mark.realtime
@pytest.mark.parametrize("code", [204, 304, 101])
async def test_some_answers_have_no_body(code: int) -> None:
    found = await answer_to(b"HTTP/1.1 %d No\r\nContent-Length: 7\r\n\r\n" % code)

    assert found[::2] == (code, b"")


@pytest.mark.realtime
@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 99 Low\r\n\r\n",
        b"HTTP/1.1 099 Low\r\n\r\n",
        b"HTTP/1.1 2000 High\r\n\r\n",
        b"HTTP/1.1 +20 Odd\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        OK + b"no colon\r\n\r\n",
        OK + b": no name\r\n\r\n",
        OK + b"Name : spaced\r\n\r\n",
        OK + b"Folded: a\r\n b\r\n\r\n",
        OK + b"Value: a\nb\r\n\r\n",
        OK + b"Value: a\0b\r\n\r\n",
        OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: +1\r\n\r\na",
        OK + b"Content-Length: 1_0\r\n\r\n0123456789",
        OK + b"Content-Length: \r\n\r\n",
        OK + b"Content-Length: \xb2\r\n\r\nab",
        OK + b"Content-Length: 9\r\n\r\nshort",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        CHUNKED + b"\r\nabc\r\n0\r\n\r\n",
        CHUNKED + b"0x1\r\na\r\n0\r\n\r\n",
        CHUNKED + b"-1\r\na\r\n0\r\n\r\n",
        CHUNKED + b"1_0\r\na\r\n0\r\n\r\n",
        CHUNKED + b"1\r\nab\r\n0\r\n\r\n",
        CHUNKED + b"1\r\na--0\r\n\r\n",
        CHUNKED + b"1\r\na\r\n",
        CHUNKED + b"1\r\na\r\n0\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * http1.MAX_INTERIM + OK + b"\r\n",
    ],
)
async def test_a_response_that_is_not_http_is_refused_and_closes_the_connection(
    sent: bytes,
) -> None:
    def refused(connection: BlockingConnection) -> bool:
        with pytest.raises(MalformedResponse):
            get(connection)
        return connection.is_open

    assert await talk(answering(sent), refused) is False


@pytest.mark.realtime
@pytest.mark.parametrize(
    "flood",
    [
        OK + b"X: " + b"x" * MAX_HEAD,
        OK + b"X: y\r\n" * MAX_HEAD,
        CHUNKED + b"1;" + b"x" * (http1.MAX_CHUNK_LINE + 2),
        CHUNKED + b"0\r\n" + b"X: y\r\n" * MAX_HEAD,
        CHUNKED + b"%x\r\n" % (http1.MAX_BODY + 1),
        OK + b"Content-Length: %d\r\n\r\n" % (http1.MAX_BODY + 1),
    ],
    ids=["header", "headers", "chunk line", "trailers", "chunk", "length"],
)
async def test_an_endless_response_is_abandoned_at_a_limit(flood: bytes) -> None:
    """The server stays connected: only a limit ends it, not a hangup."""

    async def script(connection: ServedConnection) -> None:
        await connection.request()
        await connection.send(flood)
        await connection.client_left()

    with pytest.raises(MalformedResponse, match=r"within \d+ bytes|longer than"):
        await talk(script, get)


@pytest.mark.realtime
@pytest.mark.parametrize(
    "sent",
    [
        OK + b"\r\n" + b"x" * 11,
        OK + b"Content-Length: 11\r\n\r\n" + b"x" * 11,
        CHUNKED + b"6\r\nxxxxxx\r\n5\r\nxxxxx\r\n0\r\n\r\n",
    ],
)
async def test_the_limit_holds_for_every_kind_of_body(sent: bytes) -> None:
    with pytest.raises(MalformedResponse, match="longer than 10 bytes"):
        await talk(answering(sent), get, max_body=10)
    assert len((await talk(answering(sent), get, max_body=11))[2]) == 11


@pytest.mark.realtime
async def test_one_connection_serves_several_requests() -> None:
    connections: list[ServedConnection] = []
    sent = [OK + b"Content-Length: 1\r\n\r\n%d" % n for n in (1, 2)]
    script = answering(CHUNKED + b"1\r\n0\r\n0\r\n\r\n", *sent, connections=connections)

    bodies = await talk(script, lambda c: [get(c)[2] for _ in range(3)])

    assert bodies == [b"0", b"1", b"2"]
    assert len(connections) == 1


@pytest.mark.realtime
@pytest.mark.parametrize(
    ("sent", "stays"),
    [
        (OK + b"Content-Length: 0\r\n\r\n", True),
        (OK + b"Content-Length: 0\r\nConnection: Close\r\n\r\n", False),
        (OK + b"Content-Length: 0\r\nConnection: x, close\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", True),
        (OK + b"Content-Length: 1\r\n\r\nab", False),
        (OK + b"\r\n", False),
        (OK + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", False),
        (b"HTTP/1.1 101 Switch\r\n\r\n", False),
    ],
)
async def test_a_connection_is_reused_only_when_its_framing_allows_it(
    sent: bytes, stays: bool
) -> None:
    def asked(connection: BlockingConnection) -> bool:
        get(connection)
        return connection.is_open

    assert await talk(answering(sent), asked) is stays


@pytest.mark.realtime
async def test_a_silent_server_times_out_and_the_connection_is_closed() -> None:
    async def script(connection: ServedConnection) -> None:
        await connection.request()
        await connection.client_left()

    def waited(connection: BlockingConnection) -> bool:
        with pytest.raises(TimeoutError):
            get(connection)
        return connection.is_open

    assert await talk(script, waited, timeout=0.05) is False


@pytest.mark.realtime
@pytest.mark.parametrize(
    ("target", "headers"),
    [
        ("/a b", {}),
        ("/a\r\nX: y", {}),
        ("/", {"Host": "h\r\nX: y"}),
        ("/", {"Host": "h\n"}),
        ("/", {"X\r\nY": "z"}),
        ("/", {"Authorization": "Bearer \N{GREEK SMALL LETTER ALPHA}"}),
    ],
)
async def test_line_breaks_cannot_be_injected_into_a_request(
    target: str, headers: dict[str, str]
) -> None:
    ended = asyncio.Event()
    received = []

    async def script(connection: ServedConnection) -> None:
        received.append(await connection.reader.read())
        ended.set()

    def send(port: int) -> None:
        connection = BlockingConnection("127.0.0.1", port, timeout=5.0)
        connection.connect()
        with pytest.raises(ValueError, match=r"characters|codec"):
            connection.get(target, headers)

    async with serve_script(script) as port:
        await asyncio.to_thread(send, port)
        await ended.wait()

    assert received == [b""]


@pytest.mark.realtime
async def test_through_a_proxy_tls_goes_to_the_server_itself() -> None:
    identity = self_signed("api.example.com")
    heads = []
    seen = []

    async def server(connection: ServedConnection) -> None:
        seen.append(await connection.request())
        await connection.answer(b"from beyond")

    async with serve_script(server, identity.server_context()) as server_port:

        async def proxy(connection: ServedConnection) -> None:
            heads.append(await connection.request())
            await connection.send(b"HTTP/1.1 200 Connected\r\n\r\n")
            reader, writer = await asyncio.open_connection("127.0.0.1", server_port)
            try:
                await asyncio.gather(
                    _pump(connection.reader, writer), _pump(reader, connection.writer)
                )
            finally:
                writer.transport.abort()

        found = await talk(
            proxy,
            get,
            tls=client_context(identity.certificate_pem),
            server_hostname="api.example.com",
            beyond="api.example.com:443",
            proxy_headers={"Proxy-Authorization": "Basic x"},
        )

    assert found[::2] == (200, b"from beyond")
    (asked,), (got,) = heads, seen
    assert asked is not None
    assert got is not None
    assert (asked.method, asked.target) == ("CONNECT", "api.example.com:443")
    assert asked.headers == {"host": "api.example.com:443", "proxy-authorization": "Basic x"}
    assert "proxy-authorization" not in got.headers


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(4096):
        writer.write(data)
        await writer.drain()


@pytest.mark.realtime
@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 407 Who?\r\n\r\n",
        b"HTTP/1.1 302 There\r\nLocation: /\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nmore",
        b"nonsense\r\n\r\n",
        b"",
    ],
)
async def test_a_proxy_that_refuses_connect_is_an_error(answer: bytes) -> None:
    with pytest.raises(MalformedResponse):
        await talk(answering(answer), get, beyond="api.example.com:443")


def test_an_invalid_host_name_is_a_network_error() -> None:
    for host in ("a" * 64 + "\N{LATIN SMALL LETTER E WITH ACUTE}.example", "\N{SNOWMAN}" * 70):
        with pytest.raises(OSError, match="not a valid host name"):
            BlockingConnection(host, 1, timeout=1.0).connect()


@st.composite
def framed(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A body, and an answer that carries it in one of the ways there are."""
    parts = draw(st.lists(st.binary(min_size=1, max_size=40), max_size=4))
    body = b"".join(parts)
    if draw(st.booleans()):
        return body, OK + b"Content-Length: %d\r\n\r\n" % len(body) + body
    chunks = b"".join(b"%X\r\n%b\r\n" % (len(part), part) for part in parts)
    return body, CHUNKED + chunks + b"0\r\n\r\n"


@settings(max_examples=40, deadline=None)
@given(framed(), st.integers(1, 7))
def test_a_response_may_arrive_in_pieces_of_any_size(given: tuple[bytes, bytes], step: int) -> None:
    body, sent = given
    source = _Drip(sent, step)
    connection = BlockingConnection("", 0, timeout=1.0)
    connection._socket = source  # type: ignore[assignment]

    assert get(connection)[::2] == (200, body)
    assert connection.is_open


class _Drip:
    """A socket that gives a few bytes at a time."""

    def __init__(self, data: bytes, step: int) -> None:
        self._data = data
        self._step = step

    def sendall(self, data: bytes) -> None: ...

    def recv(self, size: int) -> bytes:
        taken, self._data = self._data[: self._step], self._data[self._step :]
        return taken

    def close(self) -> None: ...
