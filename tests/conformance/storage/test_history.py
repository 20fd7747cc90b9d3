"""History can be read for as long as a watch may be resumed, and is then compacted."""

from __future__ import annotations

import asyncio

from datum_compute.apiserver.storage.protocol import HISTORY_SECONDS
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.apiserver.stores import THINGS, OpenStore, contents, put, remove


async def test_earlier_state_can_be_read_at_each_revision(open_store: OpenStore, path: str) -> None:
    store = open_store(SimulatedEnvironment(), path)
    plane = store.open_plane("p")
    table = plane.table(THINGS)
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
        found = {row.name: store.value(row) for row in table.snapshot(revision)}
        assert found == expected
    store.close()


async def test_superseded_bytes_can_be_read_until_compaction(
    open_store: OpenStore, path: str
) -> None:
    store = open_store(SimulatedEnvironment(), path)
    plane = store.open_plane("p")
    old = put(plane, "one", 1)
    await store.wait_durable()
    put(plane, "one", 2)
    await store.wait_durable()

    assert b'"size":1' in store.value(old)
    store.close()


async def test_compaction_drops_old_revisions_in_steps_and_keeps_the_current_state(
    open_store: OpenStore, path: str
) -> None:
    env = SimulatedEnvironment()
    store = open_store(env, path)
    plane = store.open_plane("p")
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

    assert steps > 1
    assert plane.compacted == plane.revision
    assert list(plane.table(THINGS).since(0)) == []
    held = contents(plane)
    assert len(held) == 10
    again = open_store(env, path)
    assert contents(again.planes["p"]) == held
    assert again.planes["p"].compacted == plane.compacted
    store.close()


async def test_compaction_keeps_what_a_resumed_watch_needs(
    open_store: OpenStore, path: str
) -> None:
    env = SimulatedEnvironment()
    store = open_store(env, path)
    plane = store.open_plane("p")
    put(plane, "one", 1, labels={"a": "old"})
    await store.wait_durable()
    await asyncio.sleep(HISTORY_SECONDS + 1)
    fresh = put(plane, "one", 2, labels={"a": "new"})
    await store.wait_durable()

    store.compact_step()

    assert plane.compacted == fresh.revision - 1
    for current in (store, open_store(env, path)):
        event = current.planes["p"].table(THINGS).since(plane.compacted)[0]
        assert event.before is not None
        assert event.before.labels == {"a": "old"}
        assert b'"size":1' in current.value(event.before)
    store.close()
