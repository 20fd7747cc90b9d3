"""The synchronous reader: what it imports, sends and makes of answers."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.cli.quick import reader
from datum_compute.cli.quick.reader import Reader
from datum_compute.client import errors
from datum_compute.client.http.tls import client_context
from tests.support.client.scripted_server import WIDGET, WIDGETS, ScriptedHttp, ask, encode, refusal
from tests.support.client.socket_server import (
    RequestHead,
    ServedConnection,
    self_signed,
    serve_script,
)

COLLECTION = "/apis/toys.example.com/v1/namespaces/default/widgets"
HEAVY = (
    *("asyncio", "httptools", "msgspec", "yaml", "cryptography", "rich"),
    *("dataclasses", "email", "http", "inspect", "ipaddress", "logging", "pathlib", "random"),
    *("ssl", "subprocess", "tempfile", "urllib"),
)
"""Others, and parts of the standard library that take longer to load than a read to make."""


def test_the_reader_imports_little_of_the_standard_library_and_nothing_else() -> None:
    program = "import sys; import datum_compute.cli.quick.reader; print(*sys.modules)"

    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    ).stdout.split()

    assert "datum_compute.cli.quick.reader" in loaded
    assert [name for name in HEAVY if name in loaded] == []


@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_paths_and_queries_are_escaped_as_the_standard_library_does(text: str) -> None:
    safe = "/:@!$&'()*+,;=~"

    assert reader._quoted(text, reader._IN_PATHS) == quote(text, safe=safe)
    assert reader._encoded({"a": text, "b": ""}) == urlencode({"a": text} if text else {})


@pytest.mark.realtime
@pytest.mark.parametrize("token", ["a\nb", "a\r\nX: y", "\N{GREEK SMALL LETTER ALPHA}", "a\0"])
async def test_a_token_that_cannot_be_sent_is_never_sent(token: str) -> None:
    toy = ScriptedHttp(lambda head: (WIDGET,))

    with pytest.raises(
        errors.CredentialFailed, match=r"get widgets.*default/one on toy: the token"
    ):
        await ask(toy, lambda reader: reader.get(WIDGETS, "one", "default"), token=token)

    assert toy.heads == []


@pytest.mark.realtime
@pytest.mark.parametrize(
    ("server", "beyond"),
    [("https://[::1]:7443", "[::1]:7443"), ("https://api.example.com", "api.example.com:443")],
)
async def test_a_proxy_gets_the_server_with_its_port(server: str, beyond: str) -> None:
    heads: list[RequestHead | None] = []

    async def proxy(connection: ServedConnection) -> None:
        heads.append(await connection.request())
        await connection.answer(b"no", "407 Proxy Authentication Required")

    def get(port: int) -> None:
        made = Reader(server, cluster="toy", proxy=f"http://user:p%40ss@127.0.0.1:{port}")
        made.get(WIDGETS, "one", "default")

    async with serve_script(proxy) as port:
        with pytest.raises(errors.ConnectFailed, match="HTTP 407") as failure:
            await asyncio.to_thread(get, port)

    (head,) = heads
    assert head is not None
    assert (head.method, head.target, head.headers["host"]) == ("CONNECT", beyond, beyond)
    assert head.headers["proxy-authorization"] == "Basic dXNlcjpwQHNz"
    assert "p@ss" not in str(failure.value)


@pytest.mark.realtime
async def test_a_get_names_the_object_and_the_caller() -> None:
    toy = ScriptedHttp(lambda head: (WIDGET,))

    widget = await ask(
        toy, lambda reader: reader.get(WIDGETS, "one", "default"), prefix="/clusters/hub"
    )

    assert widget == WIDGET
    (head,) = toy.heads
    assert (head.method, head.target) == ("GET", f"/clusters/hub{COLLECTION}/one")
    assert head.headers["authorization"] == "Bearer secret"
    assert head.headers["accept"] == "application/json"
    assert head.headers["user-agent"].startswith("datum-compute/")


def paged(head: RequestHead) -> tuple[Any, ...]:
    """Five widgets, as many at a time as asked."""
    query = parse_qs(urlsplit(head.target).query)
    start = int(query.get("continue", ["0"])[0])
    end = start + int(query.get("limit", ["5"])[0])
    metadata = {"continue": str(end)} if end < 5 else {}
    items = [{"metadata": {"name": f"w{n}"}} for n in range(start, min(end, 5))]
    return ({"kind": "WidgetList", "apiVersion": "v1", "metadata": metadata, "items": items},)


@pytest.mark.realtime
async def test_a_list_fetches_all_pages_over_one_connection() -> None:
    connections = 0
    toy = ScriptedHttp(paged)

    async def counted(connection: ServedConnection) -> None:
        nonlocal connections
        connections += 1
        await toy(connection)

    items = await ask(
        counted,
        lambda reader: reader.list(WIDGETS, "default", label_selector="a in (b,c)"),
        page_size=2,
    )

    assert [item["metadata"]["name"] for item in items] == ["w0", "w1", "w2", "w3", "w4"]
    assert {(item["kind"], item["apiVersion"]) for item in items} == {("Widget", "v1")}
    assert [head.target for head in toy.heads] == [
        f"{COLLECTION}?labelSelector=a+in+%28b%2Cc%29&limit=2",
        f"{COLLECTION}?labelSelector=a+in+%28b%2Cc%29&limit=2&continue=2",
        f"{COLLECTION}?labelSelector=a+in+%28b%2Cc%29&limit=2&continue=4",
    ]
    assert connections == 1


@pytest.mark.realtime
async def test_a_list_whose_snapshot_is_dropped_begins_again_without_pages() -> None:
    def dropping(head: RequestHead) -> tuple[Any, ...]:
        if "continue" in head.target:
            return refusal(410, "Expired"), "410 Gone"
        return paged(head)

    items = await ask(
        ScriptedHttp(dropping), lambda reader: reader.list(WIDGETS, "default"), page_size=2
    )

    assert [item["metadata"]["name"] for item in items] == ["w0", "w1", "w2", "w3", "w4"]


@pytest.mark.realtime
async def test_a_raw_path_keeps_its_query() -> None:
    toy = ScriptedHttp(lambda head: (b"text",))

    assert await ask(toy, lambda reader: reader.raw("/logs/x?tailLines=5&a=b%20c")) == b"text"

    assert toy.heads[0].target == "/logs/x?tailLines=5&a=b%20c"


@pytest.mark.realtime
@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        ("404 Not Found", refusal(404, "NotFound", name="one"), errors.NotFound),
        ("404 Not Found", b"404 page not found", errors.NotServed),
        ("401 Unauthorized", refusal(401, "Unauthorized"), errors.Unauthorized),
        ("403 Forbidden", refusal(403, "Forbidden"), errors.Forbidden),
        ("410 Gone", refusal(410, "Expired"), errors.Expired),
        ("500 Oh", b"oh", errors.ServerError),
        ("503 Down", b"down", errors.Unavailable),
        ("302 Found", b"", errors.Malformed),
        ("200 OK", b"<html>", errors.Malformed),
        ("200 OK", b"[1]", errors.Malformed),
    ],
)
async def test_the_errors_are_those_of_the_client(
    status: str, body: Any, expected: type[Exception]
) -> None:
    toy = ScriptedHttp(lambda head: (body, status))

    with pytest.raises(expected, match=r"get widgets\.toys\.example\.com default/one on toy"):
        await ask(toy, lambda reader: reader.get(WIDGETS, "one", "default"))


@pytest.mark.realtime
async def test_a_refusal_carries_its_retry_after() -> None:
    toy = ScriptedHttp(lambda head: (refusal(429, "TooManyRequests"), "429 Slow", "Retry-After: 4"))

    with pytest.raises(errors.Throttled) as caught:
        await ask(toy, lambda reader: reader.get(WIDGETS, "one", "default"))

    assert caught.value.retry_after == 4


@pytest.mark.realtime
@pytest.mark.parametrize(
    "sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", b"not HTTP\r\n\r\n"]
)
async def test_an_incomplete_or_malformed_reader_response_is_a_disconnection(sent: bytes) -> None:
    async def script(connection: ServedConnection) -> None:
        await connection.request()
        if sent:
            await connection.send(sent)

    with pytest.raises(errors.Disconnected):
        await ask(script, lambda reader: reader.get(WIDGETS, "one", "default"))


@pytest.mark.realtime
async def test_an_unreadable_object_does_not_hide_others() -> None:
    skipped: list[str] = []
    items = [
        {"metadata": {"name": "a", "labels": 5, "finalizers": ["x"]}},
        5,
        {"metadata": None},
        {"metadata": {"name": 7}},
        {"metadata": {"name": "b"}},
    ]
    toy = ScriptedHttp(lambda head: ({"kind": "WidgetList", "apiVersion": "v1", "items": items},))

    found = await ask(
        toy, lambda reader: reader.list(WIDGETS, "default"), on_unreadable=skipped.append
    )

    assert [item["metadata"] for item in found] == [
        {"name": "a", "finalizers": ["x"]},
        {"name": "b"},
    ]
    assert len(skipped) == 3
    assert "list widgets.toys.example.com in namespace default on toy: skipped" in skipped[0]


@pytest.mark.realtime
@pytest.mark.parametrize(
    "body", [{}, {"items": []}, {"kind": "WidgetList"}, {"kind": "Status", "items": []}]
)
async def test_a_body_that_is_no_list_is_malformed_and_not_an_empty_list(body: Any) -> None:
    with pytest.raises(errors.Malformed):
        await ask(
            ScriptedHttp(lambda head: (body,)), lambda reader: reader.list(WIDGETS, "default")
        )
    with pytest.raises(errors.Malformed):
        await ask(
            ScriptedHttp(lambda head: (body,)),
            lambda reader: reader.get(WIDGETS, "a", "default"),
        )


@pytest.mark.realtime
async def test_a_silent_server_ends_the_call_at_its_deadline() -> None:
    async def script(connection: ServedConnection) -> None:
        await connection.request()
        await connection.client_left()

    with pytest.raises(errors.TimedOut, match=r"no answer within 0.05 s"):
        await ask(script, lambda reader: reader.get(WIDGETS, "one", "default"), timeout=0.05)


@pytest.mark.realtime
async def test_the_reader_reconnects_after_a_failure() -> None:
    broken = True

    async def script(connection: ServedConnection) -> None:
        nonlocal broken
        await connection.request()
        if not broken:
            await connection.answer(encode(WIDGET))
        broken = False

    def twice(reader: Reader) -> dict[str, Any]:
        with pytest.raises(errors.Disconnected):
            reader.get(WIDGETS, "one", "default")
        return reader.get(WIDGETS, "one", "default")

    assert await ask(script, twice) == WIDGET


def test_a_refused_connection_is_a_failed_connect() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        reader = Reader(f"http://127.0.0.1:{listener.getsockname()[1]}", cluster="toy")
        with pytest.raises(errors.ConnectFailed, match=r"Connection refused$") as refused:
            reader.get(WIDGETS, "one", "default")
    assert "on toy: http://127.0.0.1" in str(refused.value)
    assert "Errno" not in str(refused.value)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a%2fb"])
def test_a_name_that_would_change_the_path_is_never_sent(name: str) -> None:
    reader = Reader("http://nobody.invalid", cluster="toy")

    with pytest.raises(errors.Invalid):
        reader.get(WIDGETS, name, "default")
    with pytest.raises(errors.Invalid):
        reader.get(WIDGETS, "one", name)


@pytest.mark.realtime
async def test_tls_is_checked() -> None:
    identity = self_signed("api.example.com")
    toy = ScriptedHttp(lambda head: (WIDGET,))

    def get(port: int, **options: Any) -> dict[str, Any]:
        reader = Reader(f"https://127.0.0.1:{port}", cluster="toy", **options)
        try:
            return reader.get(WIDGETS, "one", "default")
        finally:
            reader.close()

    async with serve_script(toy, identity.server_context()) as port:
        trusting = client_context(identity.certificate_pem)
        expected = await asyncio.to_thread(
            lambda: get(port, tls=trusting, server_hostname="api.example.com")
        )
        assert expected == WIDGET
        for options in ({}, {"tls": trusting}, {"server_hostname": "api.example.com"}):
            with pytest.raises(errors.ConnectFailed):
                await asyncio.to_thread(get, port, **options)


@pytest.mark.realtime
async def test_the_reader_connects_through_a_proxy() -> None:
    asked: list[str] = []

    async def proxy(connection: ServedConnection) -> None:
        head = await connection.request()
        assert head is not None
        asked.append(f"{head.method} {head.target}")
        await connection.answer(b"no", "403 Forbidden")

    def get(port: int) -> None:
        reader = Reader("https://api.example.com", cluster="toy", proxy=f"http://127.0.0.1:{port}")
        reader.get(WIDGETS, "one", "default")

    async with serve_script(proxy) as port:
        with pytest.raises(errors.ConnectFailed):
            await asyncio.to_thread(get, port)

    assert asked == ["CONNECT api.example.com:443"]


@pytest.mark.realtime
async def test_after_a_401_the_reader_fetches_the_credential_again() -> None:
    tokens = iter(["old", "new"])

    def answers(head: RequestHead) -> tuple[Any, ...]:
        if head.headers["authorization"] == "Bearer new":
            return (WIDGET,)
        return refusal(401, "Unauthorized"), "401 Unauthorized"

    toy = ScriptedHttp(answers)
    found = await ask(
        toy, lambda reader: reader.get(WIDGETS, "one", "default"), token=lambda: next(tokens)
    )

    assert found == WIDGET
    assert len(toy.heads) == 2


@pytest.mark.realtime
async def test_parts_are_there_before_the_response_ends_and_others_can_be_read_meanwhile() -> None:
    goes_on = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def script(connection: ServedConnection) -> None:
        while head := await connection.request():
            if "/slow" not in head.target:
                await connection.answer(b"quick")
                continue
            await connection.begin_stream()
            await connection.chunk(b"first")
            await goes_on.wait()
            await connection.chunk(b"last")
            await connection.chunk(b"")

    def read(server: str) -> list[bytes]:
        here = Reader(server, cluster="toys")
        try:
            slow = here.stream("/slow")
            found = [next(slow), *here.stream("/quick")]
            loop.call_soon_threadsafe(goes_on.set)
            return [*found, *slow, here.raw("/quick")]
        finally:
            here.close()

    async with serve_script(script) as port:
        found = await asyncio.to_thread(read, f"http://127.0.0.1:{port}")

    assert found == [b"first", b"quick", b"last", b"quick"]
