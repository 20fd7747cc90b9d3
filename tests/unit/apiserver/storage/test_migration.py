"""A file of version 0.1.0 is brought up to date when it is opened: all of it or none."""

from __future__ import annotations

import json
import logging
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from datum_compute.apiserver.storage.protocol import StoreDamaged
from datum_compute.apiserver.storage.sqlite import check, repair
from datum_compute.apiserver.storage.sqlite.log_file import LAYOUT, LogFile
from datum_compute.apiserver.storage.sqlite.store import LogStore
from datum_compute.log import fields_of
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.apiserver.stores import contents, put, thing

FIRST_TABLES = """
CREATE TABLE log (
    seq INTEGER PRIMARY KEY, plane INTEGER NOT NULL, revision INTEGER NOT NULL,
    resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    type INTEGER NOT NULL, time INTEGER NOT NULL, value BLOB NOT NULL, checksum INTEGER
);
CREATE TABLE planes (
    name TEXT PRIMARY KEY, id INTEGER NOT NULL, type TEXT NOT NULL,
    revision INTEGER NOT NULL, compacted INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE users (
    name TEXT PRIMARY KEY, groups TEXT NOT NULL, token BLOB NOT NULL
) WITHOUT ROWID;
PRAGMA user_version = 1;
"""


def version(name: str, revision: int, size: int) -> bytes:
    return json.dumps(thing(name, size=size, resourceVersion=str(revision))).encode()


def write_first_file(path: Path) -> None:
    """``one`` in two versions, ``two`` deleted, and a row of a dropped plane."""
    rows = [
        (1, 1, 11, "one", 0, version("one", 11, 1)),
        (2, 1, 12, "two", 0, version("two", 12, 1)),
        (3, 9, 5, "old", 0, version("old", 5, 1)),
        (4, 1, 13, "one", 0, version("one", 13, 2)),
        (5, 1, 14, "two", 1, version("two", 14, 1)),
    ]
    with closing(apsw.Connection(str(path))) as db:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL")
        db.execute(FIRST_TABLES)
        db.execute("INSERT INTO planes VALUES ('project/demo', 1, 'project', 14, 11)")
        db.execute("INSERT INTO planes VALUES ('cell/gone', 0, 'cell', 6, 6)")
        db.execute("INSERT INTO users VALUES ('bob', '[\"developers\"]', x'00ff')")
        for seq, plane, revision, name, type_, value in rows:
            db.execute(
                "INSERT INTO log VALUES (?, ?, ?, 'things', 'ns', ?, ?, 1000, ?, NULL)",
                (seq, plane, revision, name, type_, value),
            )


async def test_a_file_of_the_first_version_keeps_its_state_and_gets_checksums(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "state.db"
    write_first_file(path)
    caplog.set_level(logging.INFO)

    store = LogStore(SimulatedEnvironment(), str(path))

    plane = store.planes["project/demo"]
    assert {name: b'"size": 2' in raw for name, raw in contents(plane).items()} == {"one": True}
    assert (plane.revision, plane.compacted) == (14, 11)
    assert [event.revision for event in plane.table("things").since(11)] == [12, 13, 14]
    assert [user.name for user in store.users.values()] == ["bob"]
    put(plane, "three")
    await store.wait_durable()
    store.close()
    assert check(str(path)) == []
    again = LogStore(SimulatedEnvironment(), str(path))
    assert list(contents(again.planes["project/demo"])) == ["one", "three"]
    again.close()
    (line,) = [each for each in caplog.records if each.message == "storage brought up to date"]
    assert fields_of(line) == {"path": str(path), "layout": LAYOUT, "rows": 4}


def test_a_migration_that_is_cut_off_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.db"
    write_first_file(path)
    before = check(str(path))

    def cut_off(_: LogFile) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LogFile, "commit", cut_off)
        with pytest.raises(KeyboardInterrupt):
            LogStore(SimulatedEnvironment(), str(path))

    with closing(apsw.Connection(str(path))) as db:
        assert db.execute("PRAGMA user_version").fetchall() == [(1,)]
    assert before == check(str(path)) == []
    store = LogStore(SimulatedEnvironment(), str(path))
    assert list(contents(store.planes["project/demo"])) == ["one"]
    store.close()


def test_a_cut_off_object_of_the_first_version_is_refused_by_name_and_repaired(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state.db"
    write_first_file(path)
    with closing(apsw.Connection(str(path))) as db:
        db.execute("UPDATE log SET value = substr(value, 1, 50) WHERE seq = 4")

    with pytest.raises(StoreDamaged, match="plane project/demo things ns/one"):
        LogStore(SimulatedEnvironment(), str(path))
    (damage,) = repair(SimulatedEnvironment(), str(path), str(tmp_path / "kept"))

    assert damage.remedy == "goes back to revision 11"
    store = LogStore(SimulatedEnvironment(), str(path))
    assert b'"size": 1' in contents(store.planes["project/demo"])["one"]
    store.close()
