"""Rules of the SQLite engine only; the rest is in ``tests/conformance/storage``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest

from datum_compute.apiserver.request import access
from datum_compute.apiserver.storage.protocol import HISTORY_SECONDS, StoredObject, StoreRefused
from datum_compute.apiserver.storage.sqlite.store import BATCH_TURNS, LogStore
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.apiserver.stores import put, remove


def rows_on_file(path: Path) -> int:
    connection = apsw.Connection(str(path))
    try:
        return len(connection.execute("SELECT seq FROM log").fetchall())
    finally:
        connection.close()


async def test_versions_of_an_object_share_equal_parts_in_memory() -> None:
    """The history holds every version of the last minutes; labels are most of one."""
    plane = LogStore(SimulatedEnvironment()).open_plane("p")
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


async def test_writes_of_consecutive_turns_share_a_commit_and_none_waits_for_good() -> None:
    env = SimulatedEnvironment()
    store = LogStore(env)
    plane = store.open_plane("p")

    async def write_each_turn(count: int) -> None:
        for number in range(count):
            put(plane, f"n{number}")
            await asyncio.sleep(0)

    await write_each_turn(2)
    await store.wait_durable()
    shared = env.fault_counts["store.before-commit"]
    await write_each_turn(50)
    await store.wait_durable()
    commits = env.fault_counts["store.before-commit"] - shared

    assert shared == 1
    assert 50 / (BATCH_TURNS + 2) <= commits < 50


async def test_superseded_bytes_are_freed_from_memory() -> None:
    store = LogStore(SimulatedEnvironment())
    plane = store.open_plane("p")
    old = put(plane, "one", 1)
    await store.wait_durable()
    put(plane, "one", 2)
    await store.wait_durable()

    assert old.raw == b""
    assert b'"size":1' in store.value(old)


async def test_compaction_removes_superseded_rows_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    store = LogStore(SimulatedEnvironment(), str(path))
    plane = store.open_plane("p")
    for number in range(100):
        put(plane, f"n{number % 10}", number)
    put(plane, "gone")
    remove(plane, "gone")
    await store.wait_durable()
    await asyncio.sleep(HISTORY_SECONDS + 1)
    while store.compact_step():
        pass

    assert rows_on_file(path) == 10
    store.close()


async def test_a_dropped_plane_leaves_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    store = LogStore(SimulatedEnvironment(), str(path))
    put(store.open_plane("p"), "one")
    await store.wait_durable()
    store.drop_plane("p")
    await store.wait_durable()
    while store.compact_step():
        pass

    assert rows_on_file(path) == 0
    store.close()


async def test_a_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    connection = apsw.Connection(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()

    with pytest.raises(StoreRefused, match="layout 99"):
        LogStore(SimulatedEnvironment(), path)


def test_only_the_hash_of_a_token_is_kept(tmp_path: Path) -> None:
    env = SimulatedEnvironment()
    path = tmp_path / "a.db"
    store = LogStore(env, str(path))
    store.add_user("bob", ("developers",), access.token_hash("secret-token"))
    store.close()

    again = LogStore(env, str(path))

    assert again.users[access.token_hash("secret-token")].groups == ("developers",)
    again.close()
    assert b"secret-token" not in path.read_bytes()
