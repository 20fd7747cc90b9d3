"""The headers and forms that every response over HTTP has."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator

import pytest

from datum_compute.apiserver.http.manners import MIN_COMPRESSED, PoliteHandler
from datum_compute.client.transport import HttpRequest, HttpResponse
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.apiserver.widgets import WIDGETS_PATH, Caller, widget_server


async def polite(caller: Caller, path: str, query: str = "", **headers: str) -> HttpResponse:
    handler = PoliteHandler(caller.embedded.server.handle, caller.embedded.env)
    sent = {"authorization": f"Bearer {caller.embedded.token()}", **headers}
    pairs = tuple(tuple(each.split("=", 1)) for each in query.split("&") if each)
    request = HttpRequest("GET", f"/clusters/dfw{path}", pairs, sent)  # type: ignore[arg-type]
    response = await handler(request)
    body = response.body
    if response.stream is not None:
        body = b"".join([chunk async for chunk in response.stream])
    lines = [line.split(": ", 1) for line in response.lines.decode().splitlines()]
    return HttpResponse(response.status, {**response.headers, **dict(lines)}, body)


async def test_a_response_has_a_date_and_an_id() -> None:
    async with widget_server() as caller:
        response = await polite(caller, WIDGETS_PATH)
        given = await polite(caller, WIDGETS_PATH, **{"audit-id": "mine"})

        assert response.headers["date"] == "Thu, 01 Jan 2026 00:00:00 GMT"
        assert len(response.headers["audit-id"]) == 36
        assert given.headers["audit-id"] == "mine"


async def test_a_long_list_is_compressed_for_those_who_accept_it() -> None:
    async with widget_server() as caller:
        for index in range(60):
            await caller.create(f"w{index}", {"color": f"{index}" * 2500})
        path = WIDGETS_PATH

        plain = await polite(caller, path)
        packed = await polite(caller, path, **{"accept-encoding": "deflate, gzip"})

        assert len(plain.body) > MIN_COMPRESSED
        assert "content-encoding" not in plain.headers
        assert packed.headers["content-encoding"] == "gzip"
        assert len(packed.body) < len(plain.body) / 10
        assert gzip.decompress(packed.body) == plain.body
        short = await polite(caller, f"{path}/w1", **{"accept-encoding": "gzip"})
        assert "content-encoding" not in short.headers


async def test_a_large_body_is_compressed_too() -> None:
    content = b"x" * MIN_COMPRESSED

    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, {"content-type": "text/plain"}, content)

    request = HttpRequest("GET", "/", headers={"accept-encoding": "gzip"})
    response = await PoliteHandler(handler, SimulatedEnvironment())(request)

    assert gzip.decompress(response.body) == content


async def test_a_watch_is_not_compressed() -> None:
    async def events() -> AsyncIterator[bytes]:
        yield b"{}\n"

    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, {"content-type": "application/json"}, stream=events())

    request = HttpRequest("GET", "/", headers={"accept-encoding": "gzip"})
    response = await PoliteHandler(handler, SimulatedEnvironment())(request)

    assert "content-encoding" not in response.headers


@pytest.mark.parametrize(("query", "lines"), [("pretty=true", 10), ("pretty", 10), ("pretty=0", 1)])
async def test_a_pretty_response_has_lines(query: str, lines: int) -> None:
    async with widget_server() as caller:
        await caller.create("one")

        query = query if "=" in query else f"{query}="
        response = await polite(caller, f"{WIDGETS_PATH}/one", query)

        assert len(response.body.splitlines()) >= lines
        assert (len(response.body.splitlines()) == 1) == (lines == 1)
        assert json.loads(response.body)["metadata"]["name"] == "one"


async def test_a_large_response_is_not_indented() -> None:
    async with widget_server() as caller:
        await caller.create("one", {"tags": ["x"] * 50_000})

        response = await polite(caller, f"{WIDGETS_PATH}/one", "pretty=true")

        assert len(response.body.splitlines()) == 1
