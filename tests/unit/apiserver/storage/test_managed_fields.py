"""Managed fields lie beside the object: proved, backed up and repaired with it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw

from datum_compute.apiserver.storage.protocol import ManagedEntry
from datum_compute.apiserver.storage.sqlite import back_up, check, repair, restore
from datum_compute.apiserver.storage.sqlite.log_file import LAYOUT
from datum_compute.apiserver.storage.sqlite.store import LogStore
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.apiserver.stores import THINGS, put, thing

PLANE = "project/demo"
ENTRY = ManagedEntry("kubectl", "Apply", "v1", "", 1_700_000_000, b'{"f:size":{}}')
OTHER = ManagedEntry("other", "Update", "v1", "status", None, b'{"f:status":{".":{},"f:a":{}}}')


def entries(path: Path) -> dict[str, tuple[bytes, tuple[ManagedEntry, ...]]]:
    store = LogStore(SimulatedEnvironment(), str(path))
    with closing(store):
        rows = store.planes[PLANE].table(THINGS).in_order(None)
        return {row.name: store.content(row) for row in rows}


async def write(path: Path) -> dict[str, tuple[bytes, tuple[ManagedEntry, ...]]]:
    """One object with entries that are carried on, one whose entries change, one without."""
    store = LogStore(SimulatedEnvironment(), str(path))
    with closing(store):
        plane = store.open_plane(PLANE)
        for name in ("one", "two"):
            plane.put(THINGS, thing(name), None, managed=(ENTRY, OTHER))
        put(plane, "plain")
        await store.wait_durable()
        put(plane, "one", size=2)
        before = plane.get((THINGS, "ns", "two"))
        plane.put(THINGS, thing("two", size=2), before, managed=(OTHER,))
        await store.wait_durable()
        assert before is not None
        assert store.content(before)[1] == (ENTRY, OTHER), "an old version has its own"
        rows = plane.table(THINGS).in_order(None)
        return {row.name: store.content(row) for row in rows}


async def test_they_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    written = await write(path)

    found = entries(path)

    assert found == written
    assert {name: each[1] for name, each in found.items()} == {
        "one": (ENTRY, OTHER),
        "plain": (),
        "two": (OTHER,),
    }
    assert all(b"kubectl" not in each[0] for each in found.values())
    assert check(str(path)) == []


async def test_a_backup_has_them(tmp_path: Path) -> None:
    path, copy, target = tmp_path / "state.db", tmp_path / "copy", tmp_path / "new.db"
    written = await write(path)

    back_up(str(path), str(copy))
    restore(SimulatedEnvironment(), str(target), str(copy))

    assert entries(target) == written


async def test_damage_to_them_is_noticed_and_repaired(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    await write(path)
    with closing(apsw.Connection(str(path))) as db:
        last = "(SELECT max(seq) FROM log WHERE name = 'one')"
        ((value,),) = db.execute(f"SELECT value FROM log WHERE seq = {last}").fetchall()
        assert isinstance(value, bytes)
        damaged = value[:-1] + bytes([value[-1] ^ 1])
        db.execute(f"UPDATE log SET value = ? WHERE seq = {last}", (damaged,))

    problems = check(str(path))
    repair(SimulatedEnvironment(), str(path), str(tmp_path / "kept"))

    assert [each.name for each in problems] == ["one"]
    assert check(str(path)) == []
    assert entries(path)["one"][1] == (ENTRY, OTHER), "of the version before"


async def test_a_file_without_any_opens_and_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = LogStore(SimulatedEnvironment(), str(path))
    with closing(store):
        put(store.open_plane(PLANE), "plain")
        await store.wait_durable()
    with closing(apsw.Connection(str(path))) as db:
        db.execute("PRAGMA user_version = 2")

    assert check(str(path)) == []
    assert entries(path)["plain"][1] == ()
    with closing(apsw.Connection(str(path))) as db:
        assert db.execute("PRAGMA user_version").fetchall() == [(LAYOUT,)]
