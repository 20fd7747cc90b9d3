"""Watches, line by line."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from random import Random
from typing import Any

import apsw
import msgspec
import pytest

from datum_compute.apiserver.storage.protocol import HISTORY_SECONDS
from datum_compute.apiserver.verbs.watch import BUFFER_BYTES
from datum_compute.client.transport import close_stream
from tests.support.apiserver.widgets import WIDGET_CRD, WIDGETS_PATH, Caller, widget_server

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


class Lines:
    """The events of an open watch."""

    def __init__(self, stream: AsyncIterator[bytes]) -> None:
        self._stream = stream
        self._pending: list[dict[str, Any]] = []

    async def next(self) -> dict[str, Any] | None:
        """The next event, or None at the end."""
        while not self._pending:
            try:
                chunk = await anext(self._stream)
            except StopAsyncIteration:
                return None
            self._pending = [msgspec.json.decode(line) for line in chunk.splitlines()]
        return self._pending.pop(0)

    async def take(self, count: int) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for _ in range(count):
            event = await self.next()
            assert event is not None, found
            found.append((event["type"], event["object"]["metadata"].get("name", "")))
        return found

    async def rest(self) -> list[dict[str, Any]]:
        """All that comes before nothing comes for a while."""
        found: list[dict[str, Any]] = []
        try:
            while True:
                async with asyncio.timeout(5):
                    event = await self.next()
                assert event is not None, found
                found.append(event)
        except TimeoutError:
            return found

    async def is_silent(self) -> bool:
        """Whether nothing comes for a while."""
        try:
            async with asyncio.timeout(5):
                await self.next()
        except TimeoutError:
            return True
        return False


@asynccontextmanager
async def watching(
    caller: Caller, accept: str = "application/json", **query: str
) -> AsyncIterator[Lines]:
    response = await caller.send(
        "GET", WIDGETS_PATH, query={"watch": "true", **query}, headers={"accept": accept}
    )
    assert response.status == 200, response.body
    assert response.stream is not None
    try:
        yield Lines(response.stream)
    finally:
        await close_stream(response.stream)


def revision(obj: Mapping[str, Any]) -> str:
    found: str = obj["metadata"]["resourceVersion"]
    return found


@pytest.mark.parametrize("since", ["", "0"])
async def test_without_a_revision_the_current_state_comes_first(since: str) -> None:
    async with widget_server() as caller:
        await caller.create("b")
        await caller.create("a")

        async with watching(caller, resourceVersion=since) as lines:
            await caller.create("c")

            assert await lines.take(3) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


async def test_a_revision_replays_everything_after_it_in_order() -> None:
    async with widget_server() as caller:
        first = await caller.create("a", {"size": 1})
        await caller.patch("a", {"spec": {"size": 2}})
        await caller.patch("a", {"spec": {"size": 3}})
        await caller.delete("a")

        async with watching(caller, resourceVersion=revision(first)) as lines:
            events = [await lines.next() for _ in range(3)]

            received = [(e["type"], e["object"]["spec"]["size"]) for e in events if e]
            assert received == [("MODIFIED", 2), ("MODIFIED", 3), ("DELETED", 3)]
            revisions = [int(revision(e["object"])) for e in events if e]
            assert revisions == sorted(set(revisions))
            assert await lines.is_silent()


async def test_each_event_is_sent_once_whether_the_watch_opens_before_or_within_a_batch() -> None:
    async with widget_server() as caller:
        await caller.create("a")
        creating = asyncio.gather(*(caller.create(f"n{n}") for n in range(5)))

        async with watching(caller) as lines:
            await creating
            await caller.create("z")
            received = await lines.take(7)

            assert sorted(name for _, name in received) == ["a", "n0", "n1", "n2", "n3", "n4", "z"]
            assert await lines.is_silent()


async def test_a_watch_from_a_future_revision_is_silent_until_that_revision() -> None:
    async with widget_server() as caller:
        made = await caller.create("a")
        ahead = str(int(revision(made)) + 2)

        async with watching(caller, resourceVersion=ahead) as lines:
            await caller.create("b")
            await caller.create("c")
            await caller.create("d")

            assert await lines.take(1) == [("ADDED", "d")]


async def test_a_compacted_revision_is_reported_on_the_stream() -> None:
    async with widget_server() as caller:
        old = await caller.create("a")
        await caller.patch("a", {"spec": {"size": 2}})
        await asyncio.sleep(HISTORY_SECONDS + 30)

        async with watching(caller, resourceVersion=revision(old)) as lines:
            event = await lines.next()

            assert event is not None
            assert (event["type"], event["object"]["reason"]) == ("ERROR", "Expired")
            assert event["object"]["code"] == 410
            assert await lines.next() is None


async def test_a_damaged_version_is_answered_as_expired_and_never_served(tmp_path: Path) -> None:
    async with widget_server(path=tmp_path / "state.db") as caller:
        old = await caller.create("a")
        await caller.patch("a", {"spec": {"size": 2}})
        await caller.patch("a", {"spec": {"size": 3}})
        with closing(apsw.Connection(str(tmp_path / "state.db"))) as db:
            db.execute("UPDATE log SET value = replace(value, 'Widget', 'Gadget')")

        query = {"watch": "true", "resourceVersion": revision(old)}
        answer = await caller.send("GET", WIDGETS_PATH, query=query)
        assert answer.stream is not None
        event = msgspec.json.decode(await anext(answer.stream))
        await close_stream(answer.stream)
        _, listed = await caller.call("GET", WIDGETS_PATH)

        assert (event["type"], event["object"]["reason"]) == ("ERROR", "Expired")
        assert [each["kind"] for each in listed["items"]] == ["Widget"]


async def test_history_is_kept_for_five_minutes() -> None:
    async with widget_server() as caller:
        old = await caller.create("a")
        await caller.patch("a", {"spec": {"size": 2}})
        await asyncio.sleep(HISTORY_SECONDS - 5)

        async with watching(caller, resourceVersion=revision(old)) as lines:
            assert await lines.take(1) == [("MODIFIED", "a")]


async def test_entering_and_leaving_a_field_selector() -> None:
    async with (
        widget_server() as caller,
        watching(caller, fieldSelector="metadata.name=b") as lines,
    ):
        await caller.create("a")
        await caller.create("b")
        await caller.delete("b")

        assert await lines.take(2) == [("ADDED", "b"), ("DELETED", "b")]


async def test_leaving_and_entering_a_label_selector_in_a_replay() -> None:
    async with widget_server() as caller:
        start = await caller.create("zero")
        await caller.create("a", labels={"on": "no"})
        await caller.patch("a", {"metadata": {"labels": {"on": "yes"}}})
        _, left = await caller.patch("a", {"metadata": {"labels": {"on": "no"}}})

        async with watching(
            caller, resourceVersion=revision(start), labelSelector="on=yes"
        ) as lines:
            came, gone = await lines.next(), await lines.next()

            assert came is not None
            assert gone is not None
            assert (came["type"], gone["type"]) == ("ADDED", "DELETED")
            assert gone["object"]["metadata"]["labels"] == {"on": "yes"}
            assert revision(gone["object"]) == revision(left)


SELECTORS = (
    "on=yes",
    "on in (yes)",
    "on=",
    "on in (yes,maybe)",
    "on!=yes",
    "on",
    "!on",
    "of=web,on=yes",
    "on=yes,of=web",
    "on!=no,of=web",
)


@pytest.mark.parametrize("selector", SELECTORS)
async def test_an_open_watch_and_a_replay_select_the_same_events(selector: str) -> None:
    chance = Random(selector)
    async with widget_server() as caller:
        start = revision(await caller.create("zero"))
        async with watching(caller, resourceVersion=start, labelSelector=selector) as lines:
            for _ in range(120):
                name = chance.choice("abc")
                values = {
                    "on": chance.choice(("yes", "no", "maybe", "", None)),
                    "of": chance.choice(("web", "api", None)),
                }
                if not await caller.exists(name):
                    labels = {key: value for key, value in values.items() if value is not None}
                    await caller.create(name, labels=labels)
                elif chance.random() < 0.2:
                    await caller.delete(name)
                else:
                    await caller.patch(name, {"metadata": {"labels": values}})
            async with watching(caller, resourceVersion=start, labelSelector=selector) as replay:
                replayed = await replay.rest()
            received = await lines.rest()

    assert received == replayed
    assert len(received) > 5


async def test_an_update_without_effect_sends_no_event() -> None:
    async with widget_server() as caller:
        await caller.create("a", {"size": 1})

        async with watching(caller) as lines:
            await lines.take(1)
            await caller.patch("a", {"spec": {"size": 1}})

            assert await lines.is_silent()


async def test_bookmarks_are_sent_each_minute_and_at_the_end_when_allowed() -> None:
    async with widget_server() as caller:
        made = await caller.create("a")
        options = {"resourceVersion": revision(made), "timeoutSeconds": "90"}

        async with (
            watching(caller, allowWatchBookmarks="true", **options) as lines,
            watching(caller, **options) as plain,
        ):
            started = asyncio.get_running_loop().time()
            first, second = await lines.next(), await lines.next()

            assert first is not None
            assert second is not None
            assert [first["type"], second["type"]] == ["BOOKMARK", "BOOKMARK"]
            assert set(first["object"]) == {"kind", "apiVersion", "metadata"}
            assert revision(first["object"]) == revision(made)
            assert await lines.next() is None
            assert asyncio.get_running_loop().time() - started == pytest.approx(90)
            assert await plain.next() is None


async def test_a_watch_without_a_limit_ends_after_half_an_hour_or_more() -> None:
    async with widget_server() as caller, watching(caller) as lines:
        started = asyncio.get_running_loop().time()

        assert await lines.next() is None
        assert 1800 <= asyncio.get_running_loop().time() - started <= 3600


async def test_a_streamed_list_ends_its_first_part_with_a_marked_bookmark() -> None:
    async with widget_server() as caller:
        made = await caller.create("a")
        options = {"sendInitialEvents": "true", "allowWatchBookmarks": "true"}

        async with watching(caller, resourceVersionMatch="NotOlderThan", **options) as lines:
            assert await lines.take(1) == [("ADDED", "a")]
            mark = await lines.next()

            assert mark is not None
            annotations = mark["object"]["metadata"]["annotations"]
            assert annotations["k8s.io/initial-events-end"] == "true"
            blueprint = annotations["kubernetes.io/initial-events-list-blueprint"]
            assert json.loads(base64.b64decode(blueprint)) == {
                "kind": "WidgetList",
                "apiVersion": "example.com/v1",
                "metadata": {},
                "items": [],
            }
            assert revision(mark["object"]) == revision(made)

        refused = await caller.send("GET", WIDGETS_PATH, query={"watch": "true", **options})
        assert refused.status == 422


async def test_a_slow_client_gets_410_and_must_list_again() -> None:
    async with widget_server() as caller, watching(caller) as lines:
        large = "x" * 2**20
        for number in range(BUFFER_BYTES // 2**20 + 1):
            await caller.create(f"n{number}", {"color": large})

        event = await lines.next()

        assert event is not None
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        assert await lines.next() is None


async def test_a_closed_watch_is_freed() -> None:
    async with widget_server() as caller:
        table = caller.embedded.store.planes["cell/dfw"].table("widgets.example.com")
        async with watching(caller):
            opened = len(table.sinks)

        assert (opened, len(table.sinks)) == (1, 0)


async def test_a_table_watch_sends_its_columns_once() -> None:
    async with widget_server() as caller:
        await caller.create("a", {"size": 1})

        async with watching(caller, TABLE) as lines:
            await caller.patch("a", {"spec": {"size": 2}})
            first, second = await lines.next(), await lines.next()

            assert first is not None
            assert second is not None
            assert len(first["object"]["columnDefinitions"]) == 2
            assert second["object"]["columnDefinitions"] is None
            assert [row["cells"] for row in second["object"]["rows"]] == [["a", 2]]


async def test_watches_end_with_the_kind_they_watch() -> None:
    async with widget_server() as caller, watching(caller) as lines:
        name = WIDGET_CRD["metadata"]["name"]
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
        await caller.call("DELETE", path)

        assert await lines.next() is None


async def test_a_single_object_path_ignores_watch() -> None:
    async with widget_server() as caller:
        made = await caller.create("a")

        _, found = await caller.call("GET", f"{WIDGETS_PATH}/a", query={"watch": "true"})

        assert found == made
