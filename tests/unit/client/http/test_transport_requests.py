"""Requests of the HTTP transport, to servers that behave and servers that do not."""

from __future__ import annotations

import asyncio
import gzip
import socket

import pytest

from datum_compute.client import errors
from datum_compute.client.http.transport import HttpTransport
from datum_compute.client.transport import HttpRequest, HttpResponse
from tests.support.client.http_transport import (
    GET,
    LONG,
    WATCH,
    Recorder,
    transport_to,
)
from tests.support.client.socket_server import (
    ServedConnection,
    self_signed,
    serve_script,
)

pytestmark = pytest.mark.realtime


async def test_a_request_arrives_as_given() -> None:
    recorder = Recorder()
    request = HttpRequest(
        "PATCH",
        "/a/b c/ü?#%",
        (("q", "x y&z"), ("q", "=é"), ("empty", "")),
        {"content-type": "application/json", "x-toy": "1"},
        b"[1]",
    )

    async with transport_to(recorder) as transport:
        response = await transport.send(request, timeout=LONG)

    assert response == HttpResponse(200, {"content-length": "2"}, b"ok")
    (head,) = recorder.heads
    assert head.method == "PATCH"
    assert head.target == "/a/b%20c/%C3%BC%3F%23%25?q=x+y%26z&q=%3D%C3%A9&empty="
    assert head.body == b"[1]"
    assert (head.headers["content-type"], head.headers["x-toy"]) == ("application/json", "1")


async def test_an_empty_body_has_no_content_type() -> None:
    recorder = Recorder()

    async with transport_to(recorder) as transport:
        await transport.send(GET, timeout=LONG)

    assert "content-type" not in recorder.heads[0].headers


@pytest.mark.parametrize("path", ["//elsewhere.example.com/x", "/../x", "/a/../../b", "/a//b"])
async def test_a_path_is_sent_unchanged_to_the_same_host(path: str) -> None:
    recorder = Recorder()

    async with transport_to(recorder) as transport:
        await transport.send(HttpRequest("GET", path), timeout=LONG)

    assert recorder.heads[0].target == path
    assert recorder.heads[0].headers["host"].startswith("127.0.0.1")


async def test_a_large_body_arrives_whole() -> None:
    recorder = Recorder()
    body = b"x" * (3 * 2**20)

    async with transport_to(recorder) as transport:
        await transport.send(HttpRequest("POST", "/x", body=body), timeout=LONG)

    assert recorder.heads[0].body == body


async def test_repeated_headers_are_joined() -> None:
    recorder = Recorder(b"ok", "200 OK", 'Warning: 299 - "a"', 'Warning: 299 - "b"', "X-Up: 1")

    async with transport_to(recorder) as transport:
        response = await transport.send(GET, timeout=LONG)

    assert response.headers["warning"] == '299 - "a", 299 - "b"'
    assert response.headers["x-up"] == "1"


async def test_a_compressed_response_is_decoded() -> None:
    body = b"x" * 10_000
    recorder = Recorder(gzip.compress(body), "200 OK", "Content-Encoding: gzip")

    async with transport_to(recorder) as transport:
        assert (await transport.send(GET, timeout=LONG)).body == body

    assert "gzip" in recorder.heads[0].headers["accept-encoding"]


async def test_informational_responses_are_skipped() -> None:
    async def script(connection: ServedConnection) -> None:
        while await connection.request():
            await connection.send(b"HTTP/1.1 103 Early Hints\r\nLink: </y>\r\n\r\n")
            await connection.answer(b"ok")

    async with transport_to(script) as transport:
        for _ in range(2):
            assert (await transport.send(GET, timeout=LONG)).body == b"ok"


async def test_closing_during_a_connect_is_a_failed_connect() -> None:
    async def silent(connection: ServedConnection) -> None:
        await connection.client_left()

    async with serve_script(silent) as port:  # it never shakes hands
        pem = self_signed("127.0.0.1").certificate_pem
        transport = HttpTransport(f"https://127.0.0.1:{port}", ca_pem=pem)
        sending = asyncio.create_task(transport.send(GET, timeout=LONG))
        await asyncio.sleep(0.05)
        await transport.close()
        with pytest.raises(errors.ConnectFailed):
            await sending


async def test_closing_while_requests_wait_for_a_connection_is_a_failed_connect() -> None:
    async def script(connection: ServedConnection) -> None:
        await connection.request()
        await connection.client_left()

    async with transport_to(script, max_connections=1) as transport:
        first, second = (asyncio.create_task(transport.send(GET, timeout=LONG)) for _ in "ab")
        await asyncio.sleep(0.05)
        await transport.close()
        with pytest.raises(errors.TransportFailure):
            await first
        with pytest.raises(errors.ConnectFailed):
            await second


@pytest.mark.parametrize("status", ["301 Moved", "307 Temporary", "404 Not Found", "500 Oh"])
async def test_every_status_code_is_a_response(status: str) -> None:
    recorder = Recorder(b"body", status, "Location: /elsewhere")

    async with transport_to(recorder) as transport:
        response = await transport.send(WATCH, timeout=LONG)

    assert response.status == int(status[:3])
    assert response.body == b"body"
    assert len(recorder.heads) == 1


async def test_connections_are_used_again() -> None:
    opened = 0

    async def script(connection: ServedConnection) -> None:
        nonlocal opened
        opened += 1
        await Recorder()(connection)

    async with transport_to(script) as transport:
        for _ in range(5):
            await transport.send(GET, timeout=LONG)

    assert opened == 1


async def test_a_write_over_a_connection_that_was_closed_while_idle_uses_another() -> None:
    seen: list[str] = []
    closed = asyncio.Event()

    async def script(connection: ServedConnection) -> None:
        head = await connection.request()
        assert head is not None
        seen.append(head.method)
        await connection.answer(b"ok")
        closed.set()

    async with transport_to(script) as transport:
        await transport.send(GET, timeout=LONG)
        await closed.wait()
        await asyncio.sleep(0.05)  # until the closing has arrived
        await transport.send(HttpRequest("POST", "/x"), timeout=LONG)

    assert seen == ["GET", "POST"]


async def test_after_reconnect_a_connection_is_made_for_the_next_request() -> None:
    opened = 0

    async def script(connection: ServedConnection) -> None:
        nonlocal opened
        opened += 1
        await Recorder()(connection)

    async with transport_to(script) as transport:
        for _ in range(3):
            await transport.send(GET, timeout=LONG)
            transport.reconnect()

    assert opened == 3


async def test_a_refused_connection_is_a_failed_connect() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))  # bound but not listening
        port = listener.getsockname()[1]
        transport = HttpTransport(f"http://127.0.0.1:{port}")
        refused = f"http://127.0.0.1:{port}: Connection refused"
        with pytest.raises(errors.ConnectFailed, match=refused):
            await transport.send(GET, timeout=LONG)
        await transport.close()


async def test_an_unknown_host_is_a_failed_connect() -> None:
    transport = HttpTransport("http://unknown.invalid:1")

    with pytest.raises(errors.ConnectFailed):
        await transport.send(GET, timeout=LONG)

    await transport.close()


async def test_a_silent_server_ends_the_call_at_its_deadline() -> None:
    async def script(connection: ServedConnection) -> None:
        await connection.request()
        await connection.client_left()

    async with transport_to(script) as transport:
        with pytest.raises(errors.TimedOut, match=r"no answer within 0.05 s"):
            await transport.send(GET, timeout=0.05)


async def test_a_server_silent_within_a_body_ends_the_call_at_its_deadline() -> None:
    async def script(connection: ServedConnection) -> None:
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        await connection.client_left()

    async with transport_to(script) as transport:
        with pytest.raises(errors.TimedOut):
            await transport.send(GET, timeout=0.05)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nha",
        b"this is not HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
    ],
    ids=["nothing", "half a head", "half a body", "half a chunk", "not HTTP", "bad header"],
)
async def test_an_incomplete_or_malformed_response_is_a_disconnection(sent: bytes) -> None:
    async def script(connection: ServedConnection) -> None:
        await connection.request()
        if sent:
            await connection.send(sent)

    async with transport_to(script) as transport:
        with pytest.raises(errors.Disconnected):
            await transport.send(GET, timeout=LONG)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST", "PATCH"])
async def test_no_request_is_sent_twice(method: str) -> None:
    """Not even over a connection that had been kept open and breaks at its second use."""
    seen: list[str] = []

    async def script(connection: ServedConnection) -> None:
        while head := await connection.request():
            seen.append(head.method)
            if len(seen) == 2:
                return
            await connection.answer(b"ok")

    async with transport_to(script) as transport:
        await transport.send(HttpRequest("OPTIONS", "/x"), timeout=LONG)
        with pytest.raises(errors.Disconnected):
            await transport.send(HttpRequest(method, "/x"), timeout=LONG)

    assert seen == ["OPTIONS", method]


async def test_plain_requests_share_a_bounded_number_of_connections() -> None:
    busy = most = 0

    async def script(connection: ServedConnection) -> None:
        nonlocal busy, most
        while await connection.request():
            busy += 1
            most = max(most, busy)
            await asyncio.sleep(0.01)
            busy -= 1
            await connection.answer(b"ok")

    async with transport_to(script, max_connections=2) as transport:
        await asyncio.gather(*(transport.send(GET, timeout=LONG) for _ in range(8)))

    assert most == 2


async def test_a_cancelled_request_leaves_the_transport_usable() -> None:
    async def script(connection: ServedConnection) -> None:
        while head := await connection.request():
            if head.target == "/slow":
                await connection.client_left()
                return
            await connection.answer(b"ok")

    async with transport_to(script, max_connections=1) as transport:
        for turns in range(0, 30, 3):
            task = asyncio.create_task(transport.send(HttpRequest("GET", "/slow"), timeout=LONG))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])

        assert (await transport.send(GET, timeout=LONG)).body == b"ok"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com",
        "example.com",
        "https://",
        "https://example.com/path",
        "https://example.com?x=1",
        "https://user:password@example.com",
    ],
)
async def test_a_base_url_must_be_an_origin(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL|origin"):
        HttpTransport(url)
