"""What the store promises: durable answers, one order, nothing lost over a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import apsw
import pytest

from datum_compute.apiserver.request import access
from datum_compute.apiserver.storage.store import HISTORY_SECONDS, PlaneStore, Store, StoreBroken
from datum_compute.apiserver.storage.table import StoredObject, StoreEvent, Table
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.loop import Unhandled, run


class Crash(BaseException):
    """A process that ends in the middle of something."""


class Recorder:
    """A watcher that keeps what it was offered, and whether that was on disk by then."""

    def __init__(self, plane: PlaneStore, table: Table) -> None:
        self.events: list[StoreEvent] = []
        self.early: list[StoreEvent] = []
        self.ended = False
        self._plane = plane
        table.sinks[id(self)] = self

    def offer(self, event: StoreEvent, shared: dict[Any, bytes]) -> None:
        self.events.append(event)
        if event.revision > self._plane.committed:
            self.early.append(event)

    def end(self) -> None:
        self.ended = True


def thing(name: str, *, size: int = 0, uid: str = "", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Thing",
        "metadata": {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}", **metadata},
        "size": size,
    }


def put(plane: PlaneStore, name: str, size: int = 0, **metadata: Any) -> StoredObject:
    table = plane.table("things")
    return plane.put(table, thing(name, size=size, **metadata), table.get("ns", name))


def remove(plane: PlaneStore, name: str) -> StoredObject:
    table = plane.table("things")
    before = table.get("ns", name)
    assert before is not None
    return plane.remove(table, thing(name), before)


def contents(plane: PlaneStore) -> dict[str, bytes]:
    return {row.name: row.raw for row in plane.table("things").in_order(None)}


async def test_a_write_is_in_memory_at_once_and_on_disk_when_durable(tmp_path: Path) -> None:
    env = SimulatedEnvironment()
    path = str(tmp_path / "a.db")
    store = Store(env, path)
    plane = store.open_plane("p", "root")

    put(plane, "one")
    seen_early = contents(plane)
    unwritten = Store(env, path).planes
    await store.wait_durable()

    assert list(seen_early) == ["one"]
    assert unwritten == {}
    assert contents(Store(env, path).planes["p"]) == contents(plane)
    store.close()


async def test_all_writes_of_one_tick_are_one_commit() -> None:
    env = SimulatedEnvironment()
    store = Store(env)
    plane = store.open_plane("p", "root")
    other = store.open_plane("q", "root")

    for number in range(10):
        put(plane, f"n{number}")
        put(other, f"n{number}")
    await store.wait_durable()

    assert env.fault_counts["store.before-commit"] == 1


async def test_versions_of_an_object_share_what_they_have_in_common() -> None:
    """The history holds every version of the last minutes; labels are most of one."""
    plane = Store(SimulatedEnvironment()).open_plane("p", "root")
    owner = {"uid": "u", "apiVersion": "v1", "kind": "Thing", "name": "owner"}

    def write(size: int, label: str) -> StoredObject:
        more = {"labels": {"of": label}, "ownerReferences": [dict(owner)], "finalizers": ["a/b"]}
        return put(plane, "one", size, **more)

    first, second, third = write(1, "web"), write(2, "web"), write(3, "api")

    assert second.labels is first.labels
    assert second.owners is third.owners is first.owners
    assert second.finalizers is third.finalizers is first.finalizers
    assert (first.labels, third.labels) == ({"of": "web"}, {"of": "api"})
    assert [each.revision - first.revision for each in (first, second, third)] == [0, 1, 2]


async def test_events_are_delivered_after_the_commit_in_revision_order() -> None:
    store = Store(SimulatedEnvironment())
    plane = store.open_plane("p", "root")
    watcher = Recorder(plane, plane.table("things"))

    put(plane, "one", 1)
    put(plane, "one", 2)
    put(plane, "two")
    remove(plane, "one")
    assert watcher.events == []
    await store.wait_durable()
    await asyncio.sleep(0)

    assert watcher.early == []
    revisions = [event.revision for event in watcher.events]
    assert revisions == list(range(revisions[0], revisions[0] + 4))
    assert [event.deleted for event in watcher.events] == [False, False, False, True]


@pytest.mark.parametrize("point", ["store.before-commit", "store.after-commit"])
def test_a_crash_at_the_commit_keeps_all_or_nothing_and_acknowledges_nothing(
    tmp_path: Path, point: str
) -> None:
    env = SimulatedEnvironment()
    path = str(tmp_path / "a.db")
    answered = []

    async def life() -> None:
        store = Store(env, path)
        plane = store.open_plane("p", "root")
        put(plane, "kept")
        await store.wait_durable()
        env.on_fault(point, _crash)
        put(plane, "one")
        put(plane, "two")
        try:
            await store.wait_durable()
            answered.append("one")
        except StoreBroken:
            pass
        finally:
            store.close()

    with pytest.raises(Unhandled) as caught:
        run(life())
    assert isinstance(caught.value.__cause__, Crash)

    found = list(contents(Store(SimulatedEnvironment(), path).planes["p"]))
    expected = ["kept"] if point == "store.before-commit" else ["kept", "one", "two"]
    assert found == expected
    assert answered == []


def _crash() -> None:
    raise Crash


def test_after_a_failed_commit_nothing_is_accepted() -> None:
    env = SimulatedEnvironment()

    async def life() -> None:
        store = Store(env)
        plane = store.open_plane("p", "root")
        await store.wait_durable()
        watcher = Recorder(plane, plane.table("things"))
        env.on_fault("store.before-commit", _crash)
        put(plane, "one")
        with pytest.raises(StoreBroken):
            await store.wait_durable()
        with pytest.raises(StoreBroken):
            put(plane, "two")
        with pytest.raises(StoreBroken):
            await store.wait_durable()
        assert watcher.ended
        assert watcher.events == []

    with pytest.raises(Unhandled) as caught:
        run(life())
    assert isinstance(caught.value.__cause__, Crash)


async def test_a_waiter_that_is_cancelled_does_not_cost_the_others() -> None:
    store = Store(SimulatedEnvironment())
    plane = store.open_plane("p", "root")
    put(plane, "one")
    waiting = [asyncio.ensure_future(store.wait_durable()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[1].cancel()

    results = await asyncio.gather(*waiting, return_exceptions=True)

    assert [type(result) for result in results] in (
        [type(None), asyncio.CancelledError, type(None)],
        [type(None), type(None), type(None)],
    )
    assert list(contents(plane)) == ["one"]


async def test_a_reopened_store_has_the_same_objects_history_and_indexes(tmp_path: Path) -> None:
    env = SimulatedEnvironment()
    path = str(tmp_path / "a.db")
    store = Store(env, path)
    plane = store.open_plane("p", "root")
    owner = [{"uid": "uid-one", "apiVersion": "v1", "kind": "Thing", "name": "one"}]
    first = put(plane, "one", labels={"a": "b"})
    put(plane, "two", ownerReferences=owner, finalizers=["x"])
    put(plane, "one", 2, labels={"a": "c"})
    put(plane, "gone")
    remove(plane, "gone")
    await store.wait_durable()
    before = [_told(store, event) for event in plane.table("things").since(first.revision)]
    store.close()

    again = Store(env, path)
    reopened = again.planes["p"]

    assert contents(reopened) == contents(plane)
    assert reopened.revision == plane.revision
    assert reopened.uids == plane.uids
    assert reopened.dependents == plane.dependents
    after = [_told(again, event) for event in reopened.table("things").since(first.revision)]
    assert after == before


def _told(store: Store, event: StoreEvent) -> tuple[Any, ...]:
    before = event.before and (event.before.labels, store.value(event.before))
    return event.revision, event.deleted, before, event.after.labels, store.value(event.after)


async def test_compaction_forgets_the_old_and_keeps_the_living(tmp_path: Path) -> None:
    env = SimulatedEnvironment()
    path = str(tmp_path / "a.db")
    store = Store(env, path)
    plane = store.open_plane("p", "root")
    for number in range(1000):
        put(plane, f"n{number % 10}", number)
        await store.wait_durable()
    put(plane, "gone")
    remove(plane, "gone")
    await store.wait_durable()
    await asyncio.sleep(HISTORY_SECONDS + 1)
    steps = 0
    while store.compact_step():
        steps += 1

    assert steps > 1, "in small steps"
    assert plane.compacted == plane.revision
    assert len(plane.table("things").history) == 0
    held = contents(plane)
    assert len(held) == 10
    again = Store(env, path)
    assert contents(again.planes["p"]) == held
    assert again.planes["p"].compacted == plane.compacted
    assert len(list(again._file.rows())) == 10
    store.close()


async def test_compaction_keeps_what_a_resumed_watch_may_ask_for(tmp_path: Path) -> None:
    env = SimulatedEnvironment()
    path = str(tmp_path / "a.db")
    store = Store(env, path)
    plane = store.open_plane("p", "root")
    put(plane, "one", 1, labels={"a": "old"})
    await store.wait_durable()
    await asyncio.sleep(HISTORY_SECONDS + 1)
    fresh = put(plane, "one", 2, labels={"a": "new"})
    await store.wait_durable()

    store.compact_step()

    assert plane.compacted == fresh.revision - 1
    for current in (store, Store(env, path)):
        event = current.planes["p"].table("things").since(plane.compacted)[0]
        assert event.before is not None
        assert event.before.labels == {"a": "old"}
        assert b'"size":1' in current.value(event.before)
    store.close()


async def test_the_past_can_be_shown_at_each_of_its_revisions() -> None:
    store = Store(SimulatedEnvironment())
    plane = store.open_plane("p", "root")
    table = plane.table("things")
    moments: dict[int, dict[str, bytes]] = {}
    for number in range(60):
        name = f"n{number % 7}"
        if number % 5 == 4 and table.get("ns", name):
            remove(plane, name)
        else:
            put(plane, name, number)
        if number % 3 == 0:
            await store.wait_durable()
        moments[plane.revision] = contents(plane)
    await store.wait_durable()

    for revision, expected in moments.items():
        shown = {row.name: store.value(row) for row in plane.snapshot(table, revision)}
        assert shown == expected


async def test_a_dropped_plane_leaves_nothing_but_its_revision(tmp_path: Path) -> None:
    env = SimulatedEnvironment()
    path = str(tmp_path / "a.db")
    store = Store(env, path)
    plane = store.open_plane("p", "project")
    put(plane, "one")
    await store.wait_durable()
    store.drop_plane("p")
    await store.wait_durable()
    while store.compact_step():
        pass
    again = Store(env, path)

    recreated = again.open_plane("p", "project")

    assert list(again._file.rows()) == []
    assert contents(recreated) == {}
    assert recreated.revision >= plane.revision
    assert put(recreated, "two").revision > plane.revision
    await again.wait_durable()
    store.close()


async def test_a_store_made_anew_starts_above_the_one_before() -> None:
    env = SimulatedEnvironment()
    plane = Store(env).open_plane("p", "root")
    for number in range(1000):
        put(plane, f"n{number}")
    await asyncio.sleep(1)

    later = Store(env).open_plane("p", "root")

    assert later.revision > plane.revision


async def test_superseded_content_leaves_memory_but_can_be_read() -> None:
    store = Store(SimulatedEnvironment())
    plane = store.open_plane("p", "root")
    old = put(plane, "one", 1)
    await store.wait_durable()
    put(plane, "one", 2)
    await store.wait_durable()

    assert old.raw == b""
    assert b'"size":1' in store.value(old)


async def test_a_file_of_a_later_program_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    connection = apsw.Connection(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()

    with pytest.raises(RuntimeError, match="layout 99"):
        Store(SimulatedEnvironment(), path)


def test_only_the_hash_of_a_token_is_kept(tmp_path: Path) -> None:
    env = SimulatedEnvironment()
    path = tmp_path / "a.db"
    store = Store(env, str(path))
    store.add_user("bob", ("developers",), access.token_hash("tell-nobody"))
    store.close()

    again = Store(env, str(path))

    assert again.users[access.token_hash("tell-nobody")].groups == ("developers",)
    again.close()
    assert b"tell-nobody" not in path.read_bytes()
