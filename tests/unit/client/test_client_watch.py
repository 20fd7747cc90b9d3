"""A stream of chunks becomes a sequence of events, and how it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from datum_compute.client import client as client_module
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import EventType, WatchEvent
from datum_compute.client.transport import HttpRequest, HttpResponse, ServerGone
from tests.support.client.scripted_server import (
    REALMS,
    ScriptedServer,
    ScriptedStream,
    answer,
    encode,
    refusal,
)


def line(kind: str, name: str = "", revision: str = "1") -> bytes:
    body = {"kind": "Realm", "metadata": {"name": name, "resourceVersion": revision}}
    return encode({"type": kind, "object": body}) + b"\n"


def streaming(stream: ScriptedStream) -> ApiClient:
    return ScriptedServer(HttpResponse(200, {}, stream=stream)).client()


async def collect(client: ApiClient, **options: Any) -> list[WatchEvent]:
    async with client.watch(REALMS, **options) as events:
        return [event async for event in events]


async def names(stream: ScriptedStream) -> list[str]:
    return [event.object.name for event in await collect(streaming(stream))]


async def test_a_watch_sends_its_options() -> None:
    toy = ScriptedServer(HttpResponse(200, {}, stream=ScriptedStream([])))

    await collect(
        toy.client(),
        resource_version="5",
        label_selector="a=b",
        field_selector="metadata.name=x",
        timeout_seconds=9,
    )

    assert toy.only.path == "/apis/toys.example.com/v1/realms"
    assert dict(toy.only.query) == {
        "watch": "true",
        "resourceVersion": "5",
        "labelSelector": "a=b",
        "fieldSelector": "metadata.name=x",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "9",
    }


async def test_events_come_in_order_with_their_types() -> None:
    stream = ScriptedStream([line("ADDED", "a"), line("MODIFIED", "a"), line("DELETED", "a")])

    found = await collect(streaming(stream))

    assert [event.type for event in found] == [
        EventType.ADDED,
        EventType.MODIFIED,
        EventType.DELETED,
    ]
    assert stream.closed


async def test_lines_may_be_split_anywhere() -> None:
    whole = line("ADDED", "a") + line("ADDED", "b") + line("ADDED", "c")

    for size in range(1, len(whole) + 1):
        chunks = [whole[start : start + size] for start in range(0, len(whole), size)]
        assert await names(ScriptedStream(chunks)) == ["a", "b", "c"]


async def test_empty_lines_of_a_watch_are_ignored() -> None:
    assert await names(ScriptedStream([b"\n\n", line("ADDED", "a"), b"", b"\n"])) == ["a"]


async def test_a_bookmark_carries_a_revision() -> None:
    (event,) = await collect(streaming(ScriptedStream([line("BOOKMARK", revision="77")])))

    assert event.type == EventType.BOOKMARK
    assert event.object.metadata.resource_version == "77"


async def test_an_error_event_is_raised_after_earlier_events() -> None:
    error = encode({"type": "ERROR", "object": refusal(410, "Expired")}) + b"\n"
    seen = []

    with pytest.raises(
        errors.Expired, match=r"watch realms\.toys\.example\.com on toy: Expired from"
    ):
        async with streaming(ScriptedStream([line("ADDED", "a") + error])).watch(REALMS) as events:
            async for event in events:
                seen.append(event.object.name)

    assert seen == ["a"]


async def test_an_end_within_an_event_is_a_disconnection() -> None:
    with pytest.raises(errors.Disconnected, match="within an event"):
        await names(ScriptedStream([line("ADDED", "a"), line("ADDED", "b")[:-5]]))


async def test_a_broken_watch_is_a_disconnection() -> None:
    with pytest.raises(errors.Disconnected, match="on toy: gone"):
        await names(ScriptedStream([line("ADDED", "a")], ServerGone("gone")))


@pytest.mark.parametrize("bad", [b"nonsense\n", b'{"type":"DANCED","object":{}}\n', b"[]\n"])
async def test_a_line_that_is_no_event_is_malformed(bad: bytes) -> None:
    with pytest.raises(errors.Malformed):
        await names(ScriptedStream([bad]))


async def test_an_endless_line_is_malformed() -> None:
    piece = b"x" * (client_module.MAX_EVENT_BYTES // 4)

    with pytest.raises(errors.Malformed):
        await names(ScriptedStream([piece] * 5))


async def test_a_refused_watch_raises_on_entering() -> None:
    toy = ScriptedServer(answer(refusal(403, "Forbidden"), 403))

    with pytest.raises(errors.Forbidden):
        async with toy.client().watch(REALMS):
            raise AssertionError("the watch opened")


async def test_a_streamed_refusal_of_a_watch_raises() -> None:
    stream = ScriptedStream(
        [encode(refusal(403, "Forbidden"))[:20], encode(refusal(403, "Forbidden"))[20:]]
    )
    toy = ScriptedServer(HttpResponse(403, {}, stream=stream))

    with pytest.raises(errors.Forbidden):
        async with toy.client().watch(REALMS):
            raise AssertionError("the watch opened")

    assert stream.closed


async def test_a_watch_reads_a_response_without_a_stream() -> None:
    toy = ScriptedServer(HttpResponse(200, {}, line("ADDED", "a") + line("ADDED", "b")))

    assert [event.object.name for event in await collect(toy.client())] == ["a", "b"]


@pytest.mark.parametrize("reads", [0, 1])
async def test_leaving_a_watch_closes_the_stream(reads: int) -> None:
    stream = ScriptedStream([line("ADDED", "a"), line("ADDED", "b")])

    async with streaming(stream).watch(REALMS) as events:
        for _ in range(reads):
            await anext(events)
        assert not stream.closed

    assert stream.closed


async def test_leaving_a_watch_by_an_error_closes_the_stream() -> None:
    stream = ScriptedStream([line("ADDED", "a")])

    with pytest.raises(KeyError):
        async with streaming(stream).watch(REALMS):
            raise KeyError

    assert stream.closed


async def test_a_watch_that_its_server_does_not_end_times_out() -> None:
    async def silent(request: HttpRequest) -> HttpResponse:
        async def chunks() -> Any:
            yield line("ADDED", "a")
            await asyncio.Event().wait()

        return HttpResponse(200, {}, stream=chunks())

    started = asyncio.get_running_loop().time()
    seen = []
    with pytest.raises(errors.TimedOut):
        async with ScriptedServer(silent).client().watch(REALMS, timeout_seconds=60) as events:
            async for event in events:
                seen.append(event.object.name)

    assert seen == ["a"]
    assert asyncio.get_running_loop().time() - started == 60 + client_module.WATCH_GRACE


async def test_a_watch_that_becomes_overdue_does_not_interrupt_work_on_an_event() -> None:
    async def silent(request: HttpRequest) -> HttpResponse:
        async def chunks() -> Any:
            yield line("ADDED", "a")
            yield line("ADDED", "b")

        return HttpResponse(200, {}, stream=chunks())

    done = []
    with pytest.raises(errors.TimedOut):
        async with ScriptedServer(silent).client().watch(REALMS, timeout_seconds=60) as events:
            async for event in events:
                await asyncio.sleep(1000)
                done.append(event.object.name)

    assert done == ["a"]


async def test_a_watch_that_is_cancelled_while_it_waits_is_no_timeout() -> None:
    async def silent(request: HttpRequest) -> HttpResponse:
        async def chunks() -> Any:
            await asyncio.Event().wait()
            yield b""

        return HttpResponse(200, {}, stream=chunks())

    watching = asyncio.create_task(collect(ScriptedServer(silent).client(), timeout_seconds=60))
    await asyncio.sleep(1)
    watching.cancel()

    with pytest.raises(asyncio.CancelledError):
        await watching
