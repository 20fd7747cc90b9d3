"""How the client handles responses and missing ones."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from datum_compute.client import errors
from datum_compute.client.client import REQUEST_TIMEOUT
from datum_compute.client.in_process import InProcessTransport
from datum_compute.client.protocol import merge
from datum_compute.client.transport import HttpRequest, HttpResponse, ServerGone
from tests.support.client.scripted_server import (
    REALMS,
    WIDGET,
    ScriptedServer,
    ScriptedStream,
    answer,
    refusal,
)


async def never(request: HttpRequest) -> HttpResponse:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'{"metadata": 5}', b"\xff"])
async def test_a_body_that_is_no_object_is_malformed(body: bytes) -> None:
    client = ScriptedServer(HttpResponse(200, {}, body)).client()

    with pytest.raises(errors.Malformed, match=r"get realms\.toys\.example\.com one on toy"):
        await client.get(REALMS, "one")


async def test_a_body_that_is_no_list_is_malformed() -> None:
    client = ScriptedServer(HttpResponse(200, {}, b'{"items": 5}')).client()

    with pytest.raises(errors.Malformed):
        await client.list(REALMS)


@pytest.mark.parametrize("code", [301, 302, 307, 308])
async def test_a_redirect_is_never_followed(code: int) -> None:
    toy = ScriptedServer(HttpResponse(code, {"location": "https://elsewhere.example.com/"}))

    with pytest.raises(errors.Malformed, match=str(code)):
        await toy.client().get(REALMS, "one")

    assert len(toy.requests) == 1


async def test_a_refusal_carries_its_retry_after() -> None:
    toy = ScriptedServer(answer(refusal(429, "TooManyRequests"), 429, **{"retry-after": "4"}))

    with pytest.raises(errors.Throttled) as caught:
        await toy.client().get(REALMS, "one")

    assert caught.value.retry_after == 4
    assert len(toy.requests) == 1


async def test_another_uid_is_a_conflict_whatever_the_code() -> None:
    cause = {"field": "metadata.uid", "reason": "FieldValueInvalid", "message": "immutable"}
    toy = ScriptedServer(answer(refusal(422, "Invalid", causes=[cause]), 422))

    with pytest.raises(errors.Conflict):
        await toy.client().patch(REALMS, "one", merge({"metadata": {"uid": "other"}}))


async def test_a_silent_server_ends_the_call_at_its_deadline() -> None:
    loop = asyncio.get_running_loop()
    client = ScriptedServer(never).client()

    for call, seconds in (
        (client.get(REALMS, "one"), REQUEST_TIMEOUT),
        (client.delete(REALMS, "one"), REQUEST_TIMEOUT),
        (client.list(REALMS), 2 * REQUEST_TIMEOUT),
        (client.raw("/version"), 2 * REQUEST_TIMEOUT),
    ):
        started = loop.time()
        with pytest.raises(errors.TimedOut, match=f"on toy: no answer within {seconds:g} s"):
            await call
        assert loop.time() - started == seconds


async def test_a_watch_must_open_in_time() -> None:
    with pytest.raises(errors.TimedOut):
        async with ScriptedServer(never).client().watch(REALMS):
            raise AssertionError("the watch opened")


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (ServerGone(), errors.ConnectFailed),
        (ServerGone(accepted=True), errors.Disconnected),
    ],
)
async def test_a_stopped_server_is_a_failed_connect_or_a_disconnection(
    gone: ServerGone, expected: type[Exception]
) -> None:
    async def handle(request: HttpRequest) -> HttpResponse:
        raise gone

    with pytest.raises(expected, match=r"get realms\.toys\.example\.com one on toy"):
        await ScriptedServer(handle).client().get(REALMS, "one")


async def test_a_closed_client_refuses_requests() -> None:
    toy = ScriptedServer(answer(WIDGET))
    client = toy.client()
    await client.close()

    with pytest.raises(errors.ConnectFailed):
        await client.get(REALMS, "one")

    assert toy.requests == []


async def test_a_timeout_inside_the_handler_is_not_a_client_timeout() -> None:
    async def handle(request: HttpRequest) -> HttpResponse:
        raise TimeoutError("the handler's")

    with pytest.raises(TimeoutError, match="the handler's"):
        await ScriptedServer(handle).client().get(REALMS, "one")


async def test_nothing_but_bytes_crosses_in_process() -> None:
    kept: dict[str, Any] = {}
    body, headers = bytearray(b'{"kind":"Status"}'), {"x-toy": "1"}

    async def handle(request: HttpRequest) -> HttpResponse:
        kept["headers"] = request.headers
        return HttpResponse(200, headers, body)  # type: ignore[arg-type]  # on purpose

    sent = HttpRequest("GET", "/x", headers={"a": "b"}, body=b"1")
    response = await InProcessTransport(handle).send(sent)
    headers["x-toy"] = "2"
    body[:] = b"changed"

    assert kept["headers"] == sent.headers
    assert kept["headers"] is not sent.headers
    assert response.headers == {"x-toy": "1"}
    assert response.body == b'{"kind":"Status"}'
    assert type(response.body) is bytes


async def test_chunks_cross_as_bytes_and_closing_reaches_the_server() -> None:
    stream = ScriptedStream([bytearray(b"a"), memoryview(b"b")])  # type: ignore[list-item]  # on purpose

    async def handle(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, {}, stream=stream)

    watch = HttpRequest("GET", "/x", (("watch", "true"),))
    response = await InProcessTransport(handle).send(watch)
    assert response.stream is not None
    first = await anext(response.stream)
    await response.stream.aclose()  # type: ignore[attr-defined]  # the transport promises it

    assert type(first) is bytes
    assert stream.closed
