"""The one SQLite file under all planes.

Every change of an object is one row of ``log``, appended in order. There is no second table of
current objects to keep in step, so a write costs one row (half of what two tables cost,
measured) and live data is on disk once. The current state is the last row of each key: the
store reads the log once when it opens. A row is removed when the row that superseded it has
left the watch history.

Only :mod:`.store` uses this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import apsw
import msgspec

from datum_compute.api.planes import type_name

LAYOUT = 1
"""Rises when the tables change; a file of a higher layout is refused."""

PUT, DELETE = 0, 1

_TABLES = """
CREATE TABLE log (
    seq INTEGER PRIMARY KEY,    -- order over all planes; never leaves the process
    plane INTEGER NOT NULL,
    revision INTEGER NOT NULL,  -- order within the plane: the resourceVersion
    resource TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    type INTEGER NOT NULL,      -- 0 put, 1 delete
    time INTEGER NOT NULL,      -- milliseconds since 1970
    value BLOB NOT NULL,        -- the object as JSON; of a delete, its last state
    checksum INTEGER            -- reserved for that of the value; not filled yet
);
CREATE TABLE planes (
    name TEXT PRIMARY KEY,
    id INTEGER NOT NULL,        -- 0: dropped, and only its revision is remembered
    type TEXT NOT NULL,         -- follows from the name; for readers of the file
    revision INTEGER NOT NULL,
    compacted INTEGER NOT NULL  -- history up to this revision is gone
) WITHOUT ROWID;
CREATE TABLE users (
    name TEXT PRIMARY KEY,
    groups TEXT NOT NULL,       -- JSON list
    token BLOB NOT NULL         -- SHA-256 of the bearer token
) WITHOUT ROWID;
"""


class LogRow(msgspec.Struct, frozen=True, gc=False, array_like=True):
    seq: int
    plane: int
    revision: int
    resource: str
    namespace: str
    name: str
    type: int
    time: int
    value: bytes


class PlaneRow(msgspec.Struct, frozen=True, gc=False):
    name: str
    id: int
    revision: int
    compacted: int


class UserRow(msgspec.Struct, frozen=True):
    name: str
    groups: tuple[str, ...]
    token: bytes


class LogFile:
    """Rows in, rows out. Knows nothing of objects."""

    def __init__(self, path: str) -> None:
        self._db = apsw.Connection(path)
        # Set before the first table exists, else it takes a full vacuum to change.
        self._db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._prepare_layout(path)

    def _prepare_layout(self, path: str) -> None:
        layout = self._one("PRAGMA user_version")
        if layout > LAYOUT:
            raise RuntimeError(
                f"{path} has storage layout {layout}; this program knows layouts up to {LAYOUT}"
            )
        if layout < LAYOUT:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute(_TABLES)
            self._db.execute(f"PRAGMA user_version = {LAYOUT}")
            self._db.execute("COMMIT")

    def planes(self) -> list[PlaneRow]:
        rows = self._db.execute("SELECT name, id, revision, compacted FROM planes ORDER BY name")
        return [PlaneRow(*row) for row in rows]

    def users(self) -> list[UserRow]:
        rows = self._db.execute("SELECT name, groups, token FROM users ORDER BY name")
        return [
            UserRow(name, tuple(msgspec.json.decode(groups)), token) for name, groups, token in rows
        ]

    def rows(self) -> Iterator[LogRow]:
        rows = self._db.execute(
            "SELECT seq, plane, revision, resource, namespace, name, type, time, value"
            " FROM log ORDER BY seq"
        )
        return (LogRow(*row) for row in rows)

    def value(self, seq: int) -> bytes:
        found: bytes = self._one("SELECT value FROM log WHERE seq = ?", (seq,))
        return found

    def begin(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self._db.execute("COMMIT")

    def rollback(self) -> None:
        """Leave the transaction, if one is open. Never raises: an error before this one is the
        cause, and closing the file ends the transaction too."""
        with suppress(apsw.Error):
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def append(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Rows in the order of :class:`LogRow`'s fields, inside a transaction."""
        self._db.executemany(
            "INSERT INTO log (seq, plane, revision, resource, namespace, name, type, time, value)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )

    def put_planes(self, rows: Iterable[PlaneRow]) -> None:
        self._db.executemany(
            "INSERT OR REPLACE INTO planes (name, id, type, revision, compacted)"
            " VALUES (?, ?, ?, ?, ?)",
            [(row.name, row.id, type_name(row.name), row.revision, row.compacted) for row in rows],
        )

    def put_user(self, row: UserRow) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO users (name, groups, token) VALUES (?, ?, ?)",
            (row.name, msgspec.json.encode(row.groups).decode(), row.token),
        )

    def remove_user(self, name: str) -> None:
        self._db.execute("DELETE FROM users WHERE name = ?", (name,))

    def delete(self, seqs: Sequence[int]) -> None:
        self._db.executemany("DELETE FROM log WHERE seq = ?", [(seq,) for seq in seqs])

    def shrink(self, pages: int) -> None:
        """Return up to this many free pages to the file system."""
        self._db.execute(f"PRAGMA incremental_vacuum({pages:d})").fetchall()

    def close(self) -> None:
        self._db.close()

    def _one(self, statement: str, values: tuple[Any, ...] = ()) -> Any:
        row = self._db.execute(statement, values).fetchone()
        return None if row is None else row[0]
