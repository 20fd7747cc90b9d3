"""A write is visible at once, durable with its batch, and not acknowledged before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from datum_compute.apiserver.storage.protocol import (
    PlaneStore,
    Store,
    StoreBroken,
    StoreEvent,
    Table,
)
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.loop import Unhandled, run
from tests.support.apiserver.stores import (
    THINGS,
    Crash,
    OpenStore,
    Recorder,
    contents,
    crash,
    put,
    remove,
)


async def test_a_write_is_visible_at_once_and_on_disk_when_durable(
    open_store: OpenStore, path: str
) -> None:
    env = SimulatedEnvironment()
    store = open_store(env, path)
    plane = store.open_plane("p")

    put(plane, "one")
    visible = contents(plane)
    unwritten = dict(open_store(env, path).planes)
    await store.wait_durable()

    assert list(visible) == ["one"]
    assert unwritten == {}
    assert contents(open_store(env, path).planes["p"]) == contents(plane)
    store.close()


async def test_all_writes_of_one_tick_are_one_commit(open_store: OpenStore, path: str) -> None:
    env = SimulatedEnvironment()
    store = open_store(env, path)
    plane, other = store.open_plane("p"), store.open_plane("q")

    for number in range(10):
        put(plane, f"n{number}")
        put(other, f"n{number}")
    await store.wait_durable()

    assert env.fault_counts["store.before-commit"] == 1
    store.close()


async def test_sinks_get_events_after_the_commit_in_revision_order(
    open_store: OpenStore, path: str
) -> None:
    store = open_store(SimulatedEnvironment(), path)
    plane = store.open_plane("p")
    sink = Recorder(plane, plane.table(THINGS))

    put(plane, "one", 1)
    put(plane, "one", 2)
    put(plane, "two")
    remove(plane, "one")
    assert sink.events == []
    await store.wait_durable()
    await asyncio.sleep(0)

    assert sink.early == []
    revisions = [event.revision for event in sink.events]
    assert revisions == list(range(revisions[0], revisions[0] + 4))
    assert [event.deleted for event in sink.events] == [False, False, False, True]
    store.close()


async def test_a_removed_sink_gets_nothing_more(open_store: OpenStore, path: str) -> None:
    store = open_store(SimulatedEnvironment(), path)
    plane = store.open_plane("p")
    kept, removed = (Recorder(plane, plane.table(THINGS)) for _ in range(2))

    plane.table(THINGS).remove_sink(removed)
    plane.table(THINGS).remove_sink(removed)
    put(plane, "one")
    await store.wait_durable()
    await asyncio.sleep(0)

    assert (len(kept.events), removed.events) == (1, [])
    store.close()


async def test_a_listener_is_called_before_the_commit_and_may_write(
    open_store: OpenStore, path: str
) -> None:
    env = SimulatedEnvironment()
    store = open_store(env, path)
    plane = store.open_plane("p")
    seen: list[tuple[str, int]] = []

    def listen(_: PlaneStore, __: Table, event: StoreEvent) -> None:
        seen.append((event.after.name, env.fault_counts["store.before-commit"]))
        if event.after.name == "first":
            put(plane, "second")

    store.subscribe(listen)

    put(plane, "first")
    await store.wait_durable()

    assert seen == [("first", 0), ("second", 0)]
    assert list(contents(open_store(env, path).planes["p"])) == ["first", "second"]
    store.close()


async def test_a_cancelled_waiter_does_not_affect_the_others(
    open_store: OpenStore, path: str
) -> None:
    store = open_store(SimulatedEnvironment(), path)
    plane = store.open_plane("p")
    put(plane, "one")
    waiting = [asyncio.ensure_future(store.wait_durable()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[1].cancel()

    results = await asyncio.gather(*waiting, return_exceptions=True)

    assert [results[0], results[2]] == [None, None]
    assert list(contents(plane)) == ["one"]
    store.close()


@pytest.mark.parametrize("point", ["store.before-commit", "store.after-commit"])
def test_a_crash_at_the_commit_keeps_all_or_nothing_and_acknowledges_nothing(
    open_store: OpenStore, path: str, point: str
) -> None:
    env = SimulatedEnvironment()
    acknowledged = []

    async def commits() -> None:
        store = open_store(env, path)
        plane = store.open_plane("p")
        put(plane, "kept")
        await store.wait_durable()
        env.on_fault(point, crash)
        put(plane, "one")
        put(plane, "two")
        try:
            await store.wait_durable()
            acknowledged.append("one")
        except StoreBroken:
            pass
        finally:
            store.close()

    with pytest.raises(Unhandled) as caught:
        run(commits())
    assert isinstance(caught.value.__cause__, Crash)

    found = list(contents(open_store(SimulatedEnvironment(), path).planes["p"]))
    expected = ["kept"] if point == "store.before-commit" else ["kept", "one", "two"]
    assert found == expected
    assert acknowledged == []


def test_after_a_failed_commit_nothing_is_accepted(open_store: OpenStore, path: str) -> None:
    env = SimulatedEnvironment()
    failures: list[str] = []

    async def commits() -> None:
        store = open_store(env, path)
        plane = store.open_plane("p")
        await store.wait_durable()
        sink = Recorder(plane, plane.table(THINGS))
        store.on_failure(lambda: failures.append("failed"))
        env.on_fault("store.before-commit", crash)
        put(plane, "one")
        with pytest.raises(StoreBroken):
            await store.wait_durable()
        with pytest.raises(StoreBroken):
            put(plane, "two")
        with pytest.raises(StoreBroken):
            await store.wait_durable()
        assert sink.ended
        assert sink.events == []
        store.close()

    with pytest.raises(Unhandled) as caught:
        run(commits())
    assert isinstance(caught.value.__cause__, Crash)
    assert failures == ["failed"]


def _add_user(store: Store) -> None:
    store.add_user("bob", ("developers",), b"hash")


def _compact(store: Store) -> None:
    store.compact_step()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("purpose", "act"), [("user", _add_user), ("compaction", _compact)])
async def test_a_failed_transaction_of_another_kind_breaks_the_store_and_loses_no_object(
    open_store: OpenStore, path: str, when: str, purpose: str, act: Callable[[Store], None]
) -> None:
    env = SimulatedEnvironment()
    store = open_store(env, path)
    plane = store.open_plane("p")
    failures: list[str] = []
    for size in range(3):
        put(plane, "one", size)
    await store.wait_durable()
    await asyncio.sleep(1000)
    sink = Recorder(plane, plane.table(THINGS))
    store.on_failure(lambda: failures.append("failed"))
    put(plane, "unwritten")
    waiting = asyncio.ensure_future(store.wait_durable())
    env.on_fault(f"store.{when}-{purpose}", crash)

    with pytest.raises(Crash):
        act(store)

    with pytest.raises(StoreBroken):
        await waiting
    with pytest.raises(StoreBroken):
        put(plane, "two")
    assert (sink.ended, failures) == (True, ["failed"])
    store.close()
    again = open_store(SimulatedEnvironment(), path)
    assert {name: b'"size":2' in raw for name, raw in contents(again.planes["p"]).items()} == {
        "one": True
    }
    assert [user.name for user in again.users.values()] == (
        ["bob"] if (purpose, when) == ("user", "after") else []
    )
    again.close()


async def test_a_compaction_during_an_open_batch_commits_none_of_it(
    open_store: OpenStore, path: str
) -> None:
    env = SimulatedEnvironment()
    store = open_store(env, path)
    plane = store.open_plane("p")
    put(plane, "one", 1)
    put(plane, "one", 2)
    await store.wait_durable()
    await asyncio.sleep(1000)

    put(plane, "two")
    store.compact_step()
    at_disk = open_store(env, path).planes["p"]

    assert list(contents(at_disk)) == ["one"]
    assert at_disk.revision == plane.revision - 1
    await store.wait_durable()
    assert list(contents(open_store(env, path).planes["p"])) == ["one", "two"]
    store.close()
