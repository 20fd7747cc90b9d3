"""Whatever a server sends, a caller gets a result or one of our errors, never a library's."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datum_compute.api.meta import Object, ObjectList
from datum_compute.cli.quick.reader import Reader
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.http.transport import HttpTransport
from datum_compute.client.transport import HttpResponse
from datum_compute.testing import loop
from tests.support.client.scripted_server import REALMS, ScriptedServer, ScriptedStream
from tests.support.client.socket_server import ServedConnection, serve_script

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
GZIPPED = OK + b"Content-Encoding: gzip\r\n"
PAGE = b"<html><body><h1>Please log in</h1></body></html>"
MALFORMED: dict[str, bytes] = {
    "nothing": b"",
    "no head": b"\r\n\r\n",
    "not HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "TLS": b"\x15\x03\x01\x00\x02\x02F",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "no such code": b"HTTP/1.1 9999 What\r\n\r\n",
    "non-numeric code": b"HTTP/1.1 two hundred\r\n\r\n",
    "a header without a colon": OK + b"nonsense\r\n\r\n",
    "a header far too long": OK + b"X: " + b"x" * 200_000 + b"\r\n\r\n",
    "too many headers": OK + b"".join(b"X-%d: y\r\n" % n for n in range(40_000)) + b"\r\n",
    "two lengths": OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "non-numeric length": OK + b"Content-Length: five\r\n\r\nhello",
    "a negative length": OK + b"Content-Length: -5\r\n\r\nhello",
    "incomplete body": OK + b"Content-Length: 500\r\n\r\n{",
    "end between chunks": CHUNKED + b"1\r\n{\r\n",
    "incomplete chunk": CHUNKED + b"ff\r\n{",
    "a chunk without a size": CHUNKED + b"zz\r\n{}\r\n0\r\n\r\n",
    "a chunk longer than its size": CHUNKED + b"1\r\n{}{}{}\r\n0\r\n\r\n",
    "not gzip": GZIPPED + b"Content-Length: 2\r\n\r\n{}",
    "incomplete gzip": GZIPPED + b"Content-Length: 12\r\n\r\n" + gzip.compress(b"{}" * 99)[:12],
    "an unknown encoding": OK + b"Content-Encoding: magic\r\nContent-Length: 2\r\n\r\n{}",
    "a web page": OK + b"Content-Length: %d\r\n\r\n%b" % (len(PAGE), PAGE),
    "bytes": OK + b"Content-Length: 4\r\n\r\n\xff\xfe\x00\x01",
    "half JSON": OK + b'Content-Length: 9\r\n\r\n{"kind":"',
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "switching protocols": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n",
    "a redirect": b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n",
    "a page of a proxy": b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: %d\r\n\r\n%b"
    % (len(PAGE), PAGE),
    "a firewall's page": b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n%b"
    % (len(PAGE), PAGE),
}
every_response = pytest.mark.parametrize("sent", MALFORMED.values(), ids=MALFORMED)


class FixedResponse:
    """Answers every request with the same bytes and closes the connection."""

    def __init__(self, sent: bytes) -> None:
        self.sent = sent

    async def __call__(self, connection: ServedConnection) -> None:
        if await connection.request():
            await connection.send(self.sent)


def client_of(port: int) -> ApiClient:
    return ApiClient(HttpTransport(f"http://127.0.0.1:{port}"), cluster="toy", request_timeout=5)


@every_response
@pytest.mark.realtime
async def test_malformed_responses_over_http_raise_only_client_errors(sent: bytes) -> None:
    async with serve_script(FixedResponse(sent)) as port:
        client = client_of(port)
        try:
            with pytest.raises(errors.ClientError, match="get realms"):
                await client.get(REALMS, "one")
            with pytest.raises(errors.ClientError, match="list realms"):
                await client.list(REALMS)
            with pytest.raises(errors.ClientError, match="update realms"):
                await client.update(REALMS, {"metadata": {"name": "one"}})
        finally:
            await client.close()


@every_response
@pytest.mark.realtime
async def test_malformed_watch_streams_raise_only_client_errors(sent: bytes) -> None:
    async with serve_script(FixedResponse(sent)) as port:
        client = client_of(port)
        try:
            async with client.watch(REALMS) as events:
                assert [event async for event in events] == []
        except errors.ClientError:
            pass
        finally:
            await client.close()


@every_response
@pytest.mark.realtime
async def test_malformed_responses_to_the_reader_raise_only_client_errors(sent: bytes) -> None:
    async with serve_script(FixedResponse(sent)) as port:
        reader = Reader(f"http://127.0.0.1:{port}", cluster="toy", timeout=5)
        for call in (lambda: reader.get(REALMS, "one"), lambda: reader.list(REALMS)):
            with pytest.raises(errors.ClientError, match="realms"):
                await asyncio.to_thread(call)
        reader.close()


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([b"", OK, CHUNKED, GZIPPED, OK + b"\r\n"]))
def test_arbitrary_bytes_raise_only_client_errors(tail: bytes, head: bytes) -> None:
    async def check() -> None:
        async with serve_script(FixedResponse(head + tail)) as port:
            client = client_of(port)
            reader = Reader(f"http://127.0.0.1:{port}", cluster="toy", timeout=5)
            try:
                with pytest.raises(errors.ClientError):
                    await client.get(REALMS, "one")
                with pytest.raises(errors.ClientError):
                    await asyncio.to_thread(reader.get, REALMS, "one")
            finally:
                reader.close()
                await client.close()

    asyncio.run(check())


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        "kind",
        "apiVersion",
        "metadata",
        "items",
        "spec",
        "status",
        "code",
        "reason",
        "type",
        "object",
    ]
)
LOOKALIKE = st.dictionaries(FIELDS, JSON | st.sampled_from(["Status", "RealmList", "ADDED"]))
METADATA = st.dictionaries(
    st.sampled_from(
        ["name", "namespace", "uid", "labels", "finalizers", "generation", "deletionTimestamp"]
    ),
    JSON,
)
CODES = st.sampled_from([200, 201, 400, 401, 403, 404, 409, 410, 422, 429, 500, 503])


@settings(max_examples=60, deadline=None)
@given(JSON | LOOKALIKE | LOOKALIKE.map(lambda x: {"kind": "Status", **x}), CODES)
def test_arbitrary_json_is_an_object_or_raises_a_client_error(body: Any, code: int) -> None:
    client = ScriptedServer(HttpResponse(code, {}, json.dumps(body).encode())).client(
        on_unreadable=lambda _: None
    )

    async def check() -> None:
        for call in (lambda: client.get(REALMS, "a"), lambda: client.list(REALMS)):
            try:
                assert isinstance(await call(), Object | ObjectList)
            except errors.ClientError:
                pass

    loop.run(check())


@settings(max_examples=60, deadline=None)
@given(st.lists(METADATA | JSON, max_size=4), st.lists(LOOKALIKE | JSON, max_size=3))
def test_arbitrary_items_and_events_raise_only_client_errors(
    items: list[Any], events: list[Any]
) -> None:
    listed = [{"metadata": item} for item in items]
    page = json.dumps({"kind": "RealmList", "items": listed}).encode()
    lines = [json.dumps(event).encode() + b"\n" for event in events]

    async def check() -> None:
        quiet = {"on_unreadable": lambda _: None}
        found = await ScriptedServer(HttpResponse(200, {}, page)).client(**quiet).list(REALMS)
        assert all(isinstance(item.name, str) and item.name for item in found.items)
        watching = ScriptedServer(HttpResponse(200, {}, stream=ScriptedStream(lines))).client(
            **quiet
        )
        try:
            async with watching.watch(REALMS) as stream:
                async for event in stream:
                    assert isinstance(event.object, Object)
        except errors.ClientError:
            pass

    loop.run(check())
