"""Clients that misbehave on the wire: the server frees what they held and serves the others.

Each test ends with a request of another client, which is served.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from datum_compute.apiserver.http.connection import MAX_HEAD
from datum_compute.apiserver.http.listener import serve
from datum_compute.apiserver.http.open_connections import connection_limit
from datum_compute.apiserver.verbs import watch
from datum_compute.env import SystemEnvironment
from datum_compute.testing.server import ServerAddress
from tests.support.apiserver.widgets import WIDGETS_PATH, Caller, widget, widget_server

pytestmark = pytest.mark.realtime

PREFIX = "/clusters/dfw"
SHORT = 0.2
"""The client timeout of tests that wait for it."""


class Front:
    """A served API server, and ways to reach it that no correct client uses."""

    def __init__(self, caller: Caller, address: ServerAddress) -> None:
        self.caller = caller
        self.address = address
        self.context = ssl.create_default_context(cadata=address.ca_pem.decode())
        url = urlsplit(address.base_url)
        self.host, self.port = str(url.hostname), int(url.port or 0)

    @property
    def watches(self) -> int:
        table = self.caller.embedded.store.planes["cell/dfw"].table("widgets.example.com")
        return len(table.sinks)

    def head(self, method: str, path: str, *headers: str) -> bytes:
        token = f"Authorization: Bearer {self.address.token}"
        lines = [f"{method} {PREFIX}{path} HTTP/1.1", "Host: localhost", token, *headers]
        return "\r\n".join(lines).encode() + b"\r\n\r\n"

    @asynccontextmanager
    async def wire(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection(self.host, self.port, ssl=self.context)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def exchange(self, request: bytes) -> tuple[int, bytes]:
        """Send these bytes on a new connection; the code and body of the response."""
        async with self.wire() as (reader, writer):
            writer.write(request)
            return await response(reader)

    async def assert_serves(self) -> None:
        async with asyncio.timeout(10):
            code, body = await self.exchange(self.head("GET", WIDGETS_PATH))
        assert code == 200
        assert json.loads(body)["kind"] == "WidgetList"


async def response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    async with asyncio.timeout(10):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].split("\r\n")[0])
        return int(head.split(" ", 2)[1]), await reader.readexactly(length)


async def ended(reader: asyncio.StreamReader) -> bool:
    """Whether the server closes the connection, after whatever it still sends."""
    try:
        async with asyncio.timeout(10):
            await reader.read()
    except TimeoutError:
        return False
    except ConnectionError:
        pass  # reset
    return True


@asynccontextmanager
async def front(
    directory: Path, client_timeout: float = 60.0, max_connections: int | None = None
) -> AsyncIterator[Front]:
    env = SystemEnvironment()
    async with (
        widget_server(env) as caller,
        serve(
            caller.embedded.server,
            env,
            directory=directory,
            client_timeout=client_timeout,
            max_connections=max_connections,
        ) as port,
    ):
        ca_pem = (directory / "ca.crt").read_bytes()
        address = ServerAddress(f"https://127.0.0.1:{port}", ca_pem, caller.embedded.token())
        yield Front(caller, address)


async def until_no_watch(server: Front) -> None:
    async with asyncio.timeout(10):
        while server.watches:  # noqa: ASYNC110 - the server notices with the socket
            await asyncio.sleep(0.01)


SILENCES = {
    "nothing": b"",
    "half a line": b"GET /ver",
    "half a head": b"GET /version HTTP/1.1\r\nHost: x\r\n",
    "half a body": b"POST /api HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
    "half a chunk": b"POST /api HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
}


@pytest.mark.parametrize("sent", SILENCES.values(), ids=SILENCES)
async def test_a_client_that_falls_silent_loses_its_connection(tmp_path: Path, sent: bytes) -> None:
    async with front(tmp_path, SHORT) as server, server.wire() as (reader, writer):
        writer.write(sent)

        assert await ended(reader)
        await server.assert_serves()


async def test_a_second_request_has_the_same_time_limit_as_the_first(tmp_path: Path) -> None:
    async with front(tmp_path, SHORT) as server, server.wire() as (reader, writer):
        writer.write(server.head("GET", WIDGETS_PATH))
        code, _ = await response(reader)
        writer.write(b"GET ")

        assert code == 200
        assert await ended(reader)


async def test_a_silent_watch_outlives_the_idle_timeout(tmp_path: Path) -> None:
    async with front(tmp_path, SHORT) as server, server.wire() as (reader, writer):
        writer.write(server.head("GET", f"{WIDGETS_PATH}?watch=true"))
        await reader.readuntil(b"\r\n\r\n")
        async with server.wire() as (silent, _):
            assert await ended(silent)  # so the timeout has passed

        await server.caller.create("one")

        async with asyncio.timeout(10):
            assert b'"ADDED"' in await reader.readuntil(b"}\n")


async def test_an_incomplete_request_is_not_handled(tmp_path: Path) -> None:
    async with front(tmp_path) as server:
        await server.caller.create("one")
        options = b'{"dryRun":["All"]}'
        head = server.head("DELETE", f"{WIDGETS_PATH}/one", f"Content-Length: {len(options)}")

        for cut in (b"", options[:5]):
            async with server.wire() as (_, writer):
                writer.write(head + cut)
                await writer.drain()
                await server.assert_serves()  # the first half has been read by now

        await server.assert_serves()
        assert await server.caller.exists("one")


async def test_an_incomplete_yaml_document_is_not_stored(tmp_path: Path) -> None:
    async with front(tmp_path) as server:
        body = b"metadata:\n  name: one\n"
        headers = ("Content-Type: application/yaml", f"Content-Length: {len(body) + 50}")
        path = "/api/v1/namespaces/default/configmaps"
        async with server.wire() as (_, writer):
            writer.write(server.head("POST", path, *headers) + body)
            await writer.drain()
            await server.assert_serves()

        await server.assert_serves()
        code, _ = await server.exchange(server.head("GET", f"{path}/one"))
        assert code == 404


async def test_an_endless_request_head_is_refused(tmp_path: Path) -> None:
    async with front(tmp_path) as server, server.wire() as (reader, writer):
        start = b"GET /version HTTP/1.1\r\nHost: x\r\n"
        fillers = (b"X-Filler: " + b"x" * 1000 + b"\r\n") * (MAX_HEAD // 1000)
        # No more than the server reads: what it leaves unread would break off its answer.
        writer.write((start + fillers)[: MAX_HEAD + 1])

        async with asyncio.timeout(10):
            assert await reader.readline() == b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
        assert await ended(reader)
        await server.assert_serves()


async def test_an_endless_header_is_refused(tmp_path: Path) -> None:
    async with front(tmp_path) as server, server.wire() as (reader, writer):
        writer.write(b"GET /version HTTP/1.1\r\nX-Filler: " + b"x" * 2 * MAX_HEAD)

        assert await ended(reader)
        await server.assert_serves()


async def test_a_head_just_within_the_limit_is_read(tmp_path: Path) -> None:
    async with front(tmp_path) as server:
        fillers = [f"X-Filler-{number}: {'x' * 1000}" for number in range(500)]

        code, _ = await server.exchange(server.head("GET", WIDGETS_PATH, *fillers))

        assert code == 200


NOT_HTTP = {
    "text": b"hello, is this thing on\r\n\r\n",
    "bytes": bytes(range(256)) * 4,
    "preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "unknown version": b"GET /version HTTP/9.9\r\n\r\n",
    "line break in the path": b"GET /ver\nsion HTTP/1.1\r\n\r\n",
    "letters beyond ASCII": b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    "two lengths": b"POST /api HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    "negative length": b"POST /api HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n{}",
    "length and chunks": (
        b"POST /api HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    "chunk of no size": b"POST /api HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "space before the colon": b"GET /version HTTP/1.1\r\nHost : x\r\n\r\n",
    "only an authority": b"CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("sent", NOT_HTTP.values(), ids=NOT_HTTP)
async def test_bytes_that_are_not_http_are_refused(tmp_path: Path, sent: bytes) -> None:
    async with front(tmp_path) as server, server.wire() as (reader, writer):
        writer.write(sent)

        async with asyncio.timeout(10):
            first = await reader.readline()
        assert first.startswith(b"HTTP/1.1 400 ")
        assert await ended(reader)
        await server.assert_serves()


ODD_TARGETS = {
    "NUL": "/%00",
    "invalid UTF-8": "/%ff%fe",
    "half an escape": "/%",
    "escaped slash": "/api%2Fv1",
    "double slash": "//api//v1",
    "dots": "/../../etc/passwd",
    "escaped dots": "/%2e%2e/%2e%2e/etc/passwd",
    "long": "/" + "x" * 30_000,
}


@pytest.mark.parametrize("target", ODD_TARGETS.values(), ids=ODD_TARGETS)
async def test_an_unusual_target_gets_a_response(tmp_path: Path, target: str) -> None:
    async with front(tmp_path) as server:
        code, body = await server.exchange(server.head("GET", f"{WIDGETS_PATH}{target}"))

        assert code == 404
        assert b"Traceback" not in body
        await server.assert_serves()


async def test_the_body_of_a_get_is_ignored(tmp_path: Path) -> None:
    async with front(tmp_path) as server, server.wire() as (reader, writer):
        for size in (10, 100_000):
            head = server.head("GET", WIDGETS_PATH, f"Content-Length: {size}")
            writer.write(head + b"x" * size)
            assert (await response(reader))[0] == 200


async def test_a_response_to_head_has_no_body(tmp_path: Path) -> None:
    async with front(tmp_path) as server, server.wire() as (reader, writer):
        writer.write(server.head("HEAD", WIDGETS_PATH))
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(server.head("GET", WIDGETS_PATH))

        assert head.startswith(b"HTTP/1.1 405 ")
        assert (await response(reader))[0] == 200


async def test_pipelined_requests_are_served_in_order(tmp_path: Path) -> None:
    async with front(tmp_path) as server, server.wire() as (reader, writer):
        bodies = [json.dumps(widget(f"w{number}")).encode() for number in range(50)]
        for body in bodies:
            head = server.head("POST", WIDGETS_PATH, f"Content-Length: {len(body)}")
            writer.write(head + body)

        made = [json.loads((await response(reader))[1])["metadata"]["name"] for _ in bodies]

        assert made == [f"w{number}" for number in range(50)]


async def test_an_endless_body_is_refused_before_its_end(tmp_path: Path) -> None:
    async with front(tmp_path, SHORT) as server, server.wire() as (reader, writer):
        writer.write(server.head("POST", WIDGETS_PATH, "Transfer-Encoding: chunked"))
        for _ in range(49):
            writer.write(b"10000\r\n" + b" " * 65536 + b"\r\n")

        code, _ = await response(reader)

        assert code == 413
        assert await ended(reader)
        await server.assert_serves()


NOT_TLS = {
    "HTTP": b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n",
    "bytes": bytes(range(256)) * 16,
    "half a greeting": b"\x16\x03\x01\x02\x00\x01\x00\x01",
    "nothing": b"",
}


@pytest.mark.parametrize("sent", NOT_TLS.values(), ids=NOT_TLS)
async def test_a_connection_without_tls_does_not_affect_others(tmp_path: Path, sent: bytes) -> None:
    async with front(tmp_path) as server:
        writers = []
        for _ in range(20):
            _, writer = await asyncio.open_connection(server.host, server.port)
            writer.write(sent)
            writers.append(writer)

        await server.assert_serves()

        for writer in writers:
            writer.transport.abort()
        await server.assert_serves()


async def test_a_broken_tls_record_ends_only_its_own_connection(tmp_path: Path) -> None:
    async with front(tmp_path) as server, server.wire() as (reader, writer):
        writer.write(server.head("GET", WIDGETS_PATH))
        await response(reader)
        raw = writer.get_extra_info("socket")
        descriptor = socket.socket(fileno=raw.fileno())
        try:
            descriptor.send(b"\x17\x03\x03\x00\x05wrong")
        finally:
            descriptor.detach()

        assert await ended(reader)
        await server.assert_serves()


async def test_a_client_that_stops_reading_a_watch_is_disconnected(tmp_path: Path) -> None:
    async with front(tmp_path, SHORT) as server:
        # A small window, so that little has to be sent before it is full.
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect((server.host, server.port))
        raw.setblocking(False)
        stopped, writer = await asyncio.open_connection(
            sock=raw, ssl=server.context, server_hostname="127.0.0.1", limit=1024
        )
        writer.write(server.head("GET", f"{WIDGETS_PATH}?watch=true"))
        await stopped.readuntil(b"\r\n\r\n")
        transport = writer.transport
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        assert server.watches == 1

        big = {"note": "x" * 200_000}
        for number in range(2 * watch.BUFFER_BYTES // 200_000):
            await server.caller.create(f"w{number}", annotations=big)

        await until_no_watch(server)
        async with asyncio.timeout(10):
            code, _ = await server.exchange(server.head("GET", f"{WIDGETS_PATH}/w0"))
        assert code == 200
        transport.abort()


async def test_many_reset_watches_leave_nothing_behind(tmp_path: Path) -> None:
    async with front(tmp_path) as server:
        async with AsyncExitStack() as stack:
            for _ in range(200):
                reader, writer = await stack.enter_async_context(server.wire())
                writer.write(server.head("GET", f"{WIDGETS_PATH}?watch=true"))
                await reader.readuntil(b"\r\n\r\n")
                raw = writer.get_extra_info("socket")
                # Closed abruptly: the server gets a reset.
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            opened = server.watches
            await server.caller.create("one")
            await server.assert_serves()

        await until_no_watch(server)
        assert opened == 200
        await server.caller.create("two")
        await server.assert_serves()


async def test_silent_connections_do_not_lock_other_clients_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with front(tmp_path, max_connections=40) as server, AsyncExitStack() as stack:
        silent = []
        for number in range(60):
            tls = server.context if number % 2 else None
            _, writer = await asyncio.open_connection(server.host, server.port, ssl=tls)
            stack.callback(writer.transport.abort)
            silent.append(writer)
            if number % 20 == 0:
                await server.assert_serves()

        await server.assert_serves()
        lines = [each for each in caplog.records if "too many connections" in each.message]
        assert len(lines) == 1


async def test_a_connection_in_use_is_kept_when_silent_ones_are_closed(tmp_path: Path) -> None:
    async with front(tmp_path, max_connections=8) as server, AsyncExitStack() as stack:
        watcher, writer = await stack.enter_async_context(server.wire())
        writer.write(server.head("GET", f"{WIDGETS_PATH}?watch=true"))
        await watcher.readuntil(b"\r\n\r\n")
        idle, asking = await stack.enter_async_context(server.wire())
        asking.write(server.head("GET", WIDGETS_PATH))
        await response(idle)
        first, _ = await stack.enter_async_context(server.wire())
        for _ in range(20):
            await stack.enter_async_context(server.wire())

        asking.write(server.head("GET", WIDGETS_PATH))
        await server.caller.create("one")

        assert await ended(first)
        assert (await response(idle))[0] == 200
        async with asyncio.timeout(10):
            assert b'"ADDED"' in await watcher.readuntil(b"}\n")


async def test_where_every_connection_is_in_use_a_new_one_is_closed(tmp_path: Path) -> None:
    async with front(tmp_path, max_connections=4) as server, AsyncExitStack() as stack:
        for _ in range(3):
            reader, writer = await stack.enter_async_context(server.wire())
            writer.write(server.head("GET", f"{WIDGETS_PATH}?watch=true"))
            await reader.readuntil(b"\r\n\r\n")
        assert server.watches == 3

        with pytest.raises(OSError):
            await asyncio.wait_for(server.exchange(server.head("GET", WIDGETS_PATH)), 10)

        await stack.aclose()
        await until_no_watch(server)
        await server.assert_serves()


@pytest.mark.parametrize(
    ("files", "connections"), [(20, 1), (256, 128), (1024, 768), (10**6, 10_000)]
)
def test_fewer_connections_are_open_than_the_process_may_have_files(
    files: int, connections: int
) -> None:
    assert connection_limit(files) == connections


async def test_a_token_in_a_trailer_does_not_count(tmp_path: Path) -> None:
    async with front(tmp_path) as server:
        body = json.dumps(widget("one")).encode()
        code, _ = await server.exchange(
            f"POST {PREFIX}{WIDGETS_PATH} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
            + b"%x\r\n%b\r\n0\r\nAuthorization: Bearer %b\r\n\r\n"
            % (len(body), body, server.address.token.encode())
        )

        assert code == 403
        assert not await server.caller.exists("one")


async def test_a_repeated_token_is_refused(tmp_path: Path) -> None:
    async with front(tmp_path) as server:
        head = server.head("GET", WIDGETS_PATH, "Authorization: Bearer other")

        code, body = await server.exchange(head)

        assert (code, json.loads(body)["message"]) == (
            400,
            "the header authorization is given twice",
        )
