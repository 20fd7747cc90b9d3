"""An unreadable object does not hide others, and does not count as absent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from datum_compute.api.meta import Object
from datum_compute.client import errors
from datum_compute.client.decoder import MAX_REPORTED, Decoder, UnreadableObject
from datum_compute.client.protocol import EventType, WatchEvent
from datum_compute.client.transport import HttpRequest, HttpResponse
from datum_compute.runtime.cache.cache import Cache, CacheState
from datum_compute.runtime.cache.reflector import Reflector
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.client.scripted_server import (
    REALMS,
    ScriptedServer,
    ScriptedStream,
    answer,
    encode,
)


def item(name: Any, spec: Any = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": "3", **metadata}, "spec": spec or {}}


def page(*items: Any, **metadata: Any) -> HttpResponse:
    return answer(
        {
            "kind": "RealmList",
            "apiVersion": REALMS.api_version,
            "metadata": {"resourceVersion": "9", **metadata},
            "items": list(items),
        }
    )


async def listed(*items: Any) -> tuple[list[Object], list[UnreadableObject]]:
    reports: list[UnreadableObject] = []
    client = ScriptedServer(page(*items)).client(on_unreadable=reports.append)
    return (await client.list(REALMS)).items, reports


async def watched(*events: Any) -> tuple[list[WatchEvent], list[UnreadableObject]]:
    reports: list[UnreadableObject] = []
    stream = ScriptedStream([encode(event) + b"\n" for event in events])
    client = ScriptedServer(HttpResponse(200, {}, stream=stream)).client(
        on_unreadable=reports.append
    )
    async with client.watch(REALMS) as found:
        return [event async for event in found], reports


async def test_a_spec_is_never_decoded() -> None:
    odd = {"spec": 5, "status": ["x"], "data": None}
    found, reports = await listed({**item("a"), **odd}, item("b", spec={"x": [1]}))

    assert [obj.name for obj in found] == ["a", "b"]
    assert bytes(found[0].spec) == b"5"
    assert reports == []


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"labels": {"good": "1", "bad": 2, "worse": None}}, {"labels": {"good": "1"}}),
        ({"labels": ["a"]}, {"labels": {}}),
        ({"annotations": {"a": {"b": "c"}, "d": "e"}}, {"annotations": {"d": "e"}}),
        ({"finalizers": ["a/b", 7]}, {"finalizers": ("a/b",)}),
        ({"finalizers": "a/b"}, {"finalizers": ()}),
        ({"ownerReferences": [{"uid": 7}, 5]}, {"owner_references": ()}),
        ({"generation": "three"}, {"generation": 0}),
        ({"creationTimestamp": "yesterday"}, {"creation_timestamp": None}),
    ],
)
async def test_unreadable_metadata_fields_are_left_out(
    metadata: dict[str, Any], expected: dict[str, Any]
) -> None:
    found, reports = await listed(item("a"), item("b", {"x": 1}, **metadata), item("c"))

    assert [obj.name for obj in found] == ["a", "b", "c"]
    assert {obj.kind for obj in found} == {"Realm"}
    assert {key: getattr(found[1].metadata, key) for key in expected} == expected
    assert found[1].metadata.resource_version == "3"
    assert bytes(found[1].spec) == b'{"x":1}'
    (report,) = reports
    assert (report.cluster, report.resource, report.key) == ("toy", "realms.toys.example.com", "b")
    assert report.problem.startswith(f"metadata.{next(iter(metadata))}: ")
    assert not report.skipped


async def test_a_deletion_mark_without_a_time_is_still_a_mark() -> None:
    found, reports = await listed(item("a", deletionTimestamp="soon"))

    assert found[0].metadata.deleting
    assert found[0].metadata.deletion_timestamp == datetime(1970, 1, 1, tzinfo=UTC)
    assert len(reports) == 1


async def test_null_means_absent() -> None:
    nulls = dict.fromkeys(("labels", "annotations", "finalizers", "ownerReferences", "uid"))

    found, reports = await listed(item("a", **nulls, generation=None))

    assert found[0].metadata.labels == {}
    assert reports == []


@pytest.mark.parametrize(
    "bad", [5, None, "x", {"metadata": 7}, {}, item(7), item("b", namespace=[]), item("b", uid=1)]
)
async def test_an_object_without_an_identity_is_skipped(bad: Any) -> None:
    found, reports = await listed(item("a"), bad, item("c"))

    assert [obj.name for obj in found] == ["a", "c"]
    assert [(report.key, report.skipped) for report in reports] == [("items[1]", True)]


async def test_a_page_with_an_unreadable_object_keeps_its_continue_token() -> None:
    bad = item("b", labels=5)
    toy = ScriptedServer(page(bad, **{"continue": "more", "remainingItemCount": 4}))

    found = await toy.client().list(REALMS, limit=1)

    assert (found.resource_version, found.continue_token, found.remaining) == ("9", "more", 4)


async def test_a_watch_continues_after_an_unreadable_object() -> None:
    events, reports = await watched(
        {"type": "ADDED", "object": item("a")},
        {"type": "MODIFIED", "object": item("a", labels={"x": 1})},
        {"type": "MODIFIED", "object": {"metadata": {"name": 5}}},
        {"type": "DELETED", "object": item("a", labels={"x": 1})},
    )

    assert [(event.type, event.object.name) for event in events] == [
        (EventType.ADDED, "a"),
        (EventType.MODIFIED, "a"),
        (EventType.DELETED, "a"),
    ]
    # The same fault of the same object is reported once.
    assert [(report.key, report.skipped) for report in reports] == [
        ("a", False),
        ("MODIFIED event", True),
    ]


async def test_a_cache_keeps_what_it_can_read() -> None:
    """The object with bad labels is there, and the watch after the list goes on."""
    changed = item("c", labels={"bad": 1, "new": "2"}, resourceVersion="11")
    events = [
        {"type": "MODIFIED", "object": changed},
        {"type": "MODIFIED", "object": {"metadata": 5}},
        {"type": "ADDED", "object": item("d")},
    ]
    lines = [encode(event) + b"\n" for event in events]

    async def answers(request: HttpRequest) -> HttpResponse:
        if ("watch", "true") in request.query:
            return HttpResponse(200, {}, stream=_endless(lines))
        return page(item("a"), item("b", labels={"bad": 1}), item(7), item("c"))

    client = ScriptedServer(answers).client(on_unreadable=lambda _: None)
    cache = Cache(REALMS)
    running = asyncio.ensure_future(Reflector(client, cache, SimulatedEnvironment()).run())
    await asyncio.sleep(1)

    assert [obj.name for obj in cache.list()] == ["a", "b", "c", "d"]
    assert cache.state is CacheState.CURRENT
    found = cache.get("c")
    assert found is not None
    assert found.metadata.labels == {"new": "2"}
    running.cancel()
    await asyncio.wait([running])


async def _endless(lines: list[bytes]) -> AsyncIterator[bytes]:
    for line in lines:
        yield line
    await asyncio.Event().wait()


async def test_a_single_object_is_read_like_one_of_a_list() -> None:
    bad = {"apiVersion": REALMS.api_version, "kind": "Realm", **item("a", labels={"x": 1})}

    found = await ScriptedServer(answer(bad)).client(on_unreadable=lambda _: None).get(REALMS, "a")

    assert (found.name, found.metadata.labels) == ("a", {})


async def test_unreadable_objects_are_logged_by_default(caplog: pytest.LogCaptureFixture) -> None:
    client = ScriptedServer(page(item("b", labels=5))).client()

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            await client.list(REALMS)

    (record,) = caplog.records
    assert record.message == "an object cannot be read in full"
    assert record.fields["key"] == "b"  # type: ignore[attr-defined]


def test_remembered_reports_are_bounded() -> None:
    reports: list[UnreadableObject] = []
    decoder = Decoder("toy", reports.append)

    for number in range(MAX_REPORTED * 3):
        decoder.report("realms", f"r{number}", "bad")

    assert len(reports) == MAX_REPORTED * 3
    assert len(decoder._reported) <= MAX_REPORTED


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"items": []}',
        b'{"kind": "RealmList"}',
        b'{"kind": "Status", "items": []}',
        b'{"kind": "RealmList", "items": 5}',
        b'{"kind": "RealmList", "items": [], "metadata": {"resourceVersion": 5}}',
        b'{"error": "log in first"}',
        b'{"kind": "RealmList", "items": [' + b"[" * 100_000 + b"]" * 100_000 + b"]}",
    ],
)
async def test_a_body_that_is_no_list_is_malformed_and_not_an_empty_list(body: bytes) -> None:
    with pytest.raises(errors.Malformed):
        await ScriptedServer(HttpResponse(200, {}, body)).client().list(REALMS)


@pytest.mark.parametrize("items", [b"[]", b"null"])
async def test_an_empty_list_is_valid(items: bytes) -> None:
    body = b'{"kind": "RealmList", "metadata": {"resourceVersion": "4"}, "items": ' + items + b"}"

    found = await ScriptedServer(HttpResponse(200, {}, body)).client().list(REALMS)

    assert (found.items, found.resource_version) == ([], "4")


@pytest.mark.parametrize("body", [b"{}", b'{"error": "log in first"}', b'{"metadata": {}}'])
async def test_a_body_that_is_no_object_is_malformed_and_not_an_empty_object(body: bytes) -> None:
    with pytest.raises(errors.Malformed):
        await ScriptedServer(HttpResponse(200, {}, body)).client().get(REALMS, "one")


async def test_nesting_too_deep_is_malformed() -> None:
    deep = b'{"kind": "Realm", "spec": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"

    with pytest.raises(errors.Malformed):
        await ScriptedServer(HttpResponse(200, {}, deep)).client().get(REALMS, "one")
    with pytest.raises(errors.Malformed):
        event = b'{"type": "ADDED", "object": ' + deep + b"}\n"
        async with ScriptedServer(HttpResponse(200, {}, event)).client().watch(REALMS) as events:
            await anext(events)
