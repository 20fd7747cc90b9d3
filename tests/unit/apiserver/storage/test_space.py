"""Space is given back: to the file system after deletions, and by a history that stays small."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from datum_compute.apiserver.storage.protocol import HISTORY_BYTES
from datum_compute.apiserver.storage.sqlite import compaction
from datum_compute.apiserver.storage.sqlite.log_file import WAL_BYTES
from datum_compute.apiserver.storage.sqlite.store import LogStore
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.apiserver.recorded_disk import Operation, recorded_disk
from tests.support.apiserver.stores import contents, put, remove

MEGABYTE = "x" * 1_000_000


def bytes_on_disk(path: Path) -> int:
    return sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*"))


async def compact_for_a_minute(store: LogStore) -> None:
    for _ in range(6):
        await asyncio.sleep(10)
        while store.compact_step():
            pass


@pytest.mark.parametrize("count", [30, pytest.param(500, marks=pytest.mark.long)])
async def test_the_file_shrinks_within_a_minute_of_deleting_large_objects(
    tmp_path: Path, count: int
) -> None:
    path = tmp_path / "state.db"
    store = LogStore(SimulatedEnvironment(), str(path))
    plane = store.open_plane("project/demo")
    for number in range(500):
        put(plane, f"small-{number}", annotations={"fill": "x" * 900})
    for number in range(count):
        put(plane, f"large-{number}", annotations={"fill": MEGABYTE})
        await store.wait_durable()
    for number in range(count):
        remove(plane, f"large-{number}")  # all in one commit, as a deleted collection is
    await store.wait_durable()
    full = bytes_on_disk(path)

    await compact_for_a_minute(store)

    live = sum(len(raw) for raw in contents(plane).values())
    assert full > count * len(MEGABYTE)
    assert bytes_on_disk(path) < 3 * live
    store.close()


async def test_what_a_dropped_plane_held_no_longer_shortens_the_history_of_others(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state.db"
    store = LogStore(SimulatedEnvironment(), str(path))
    kept, dropped = store.open_plane("project/kept"), store.open_plane("project/dropped")
    first = put(kept, "one", 0)
    for number in range(HISTORY_BYTES * 9 // 10 // len(MEGABYTE)):
        put(dropped, "one", number, annotations={"fill": MEGABYTE})
        await store.wait_durable()
    store.drop_plane("project/dropped")
    for number in range(HISTORY_BYTES // 5 // len(MEGABYTE)):
        put(kept, "one", number, annotations={"fill": MEGABYTE})
        await store.wait_durable()

    assert kept.compacted < first.revision
    sizes = store.sizes.live_bytes, store.sizes.history_bytes
    store.close()
    reopened = LogStore(SimulatedEnvironment(), str(path))
    assert (reopened.sizes.live_bytes, reopened.sizes.history_bytes) == sizes
    reopened.close()


async def test_a_flood_of_large_objects_shortens_the_history_instead_of_filling_the_disk(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state.db"
    store = LogStore(SimulatedEnvironment(), str(path))
    plane = store.open_plane("project/demo")
    first = put(plane, "one", annotations={"fill": MEGABYTE})

    for number in range(2 * HISTORY_BYTES // len(MEGABYTE)):
        put(plane, "one", number, annotations={"fill": MEGABYTE})
        await store.wait_durable()

    assert plane.compacted > first.revision
    assert bytes_on_disk(path) < 1.3 * HISTORY_BYTES + WAL_BYTES
    newest = plane.table("things").since(plane.compacted)
    assert all(store.value(event.after) for event in newest)
    store.close()


async def test_a_commit_is_acknowledged_before_the_checkpoint_that_it_makes_due(
    tmp_path: Path,
) -> None:
    checkpoints = 0
    with recorded_disk() as disk:
        store = LogStore(SimulatedEnvironment(), str(tmp_path / "state.db"))
        plane = store.open_plane("project/demo")
        for number in range(40):
            disk.operations.clear()
            put(plane, f"large-{number}", annotations={"fill": MEGABYTE})
            await store.wait_durable()
            assert {each.file for each in disk.operations} == {"state.db-wal"}
            await asyncio.sleep(0.001)
            checkpoints += Operation("state.db", "sync") in disk.operations
        store.close()

    # Of 40 MB, about one in every 4 MB.
    assert 8 <= checkpoints <= 12


async def test_a_small_history_is_kept_for_its_whole_time(tmp_path: Path) -> None:
    store = LogStore(SimulatedEnvironment(), str(tmp_path / "state.db"))
    plane = store.open_plane("project/demo")
    for number in range(100):
        put(plane, "one", number)
    await store.wait_durable()
    begin = plane.compacted

    await compact_for_a_minute(store)

    assert plane.compacted == begin
    store.close()


async def test_under_a_flood_of_small_writes_few_of_them_are_followed_by_a_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "HISTORY_BYTES", 1_000_000)
    env = SimulatedEnvironment()
    store = LogStore(env, str(tmp_path / "state.db"))
    plane = store.open_plane("project/demo")
    for number in range(3_000):
        put(plane, f"thing-{number % 10}", annotations={"fill": "x" * 1_000})
        await store.wait_durable()

    assert store.sizes.history_bytes < 1_200_000
    assert 5 < env.fault_counts["store.after-compaction"] < 100
    store.close()
