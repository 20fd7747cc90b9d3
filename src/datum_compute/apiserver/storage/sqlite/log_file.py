"""The one SQLite file under all planes.

Every change of an object is one row of ``log``, appended in order. There is no second table of
current objects to keep in step, so a write costs one row (half of what two tables cost,
measured) and live data is on disk once. The current state is the last row of each key: the
store reads the log once when it opens. A row is removed when the row that superseded it has
left the watch history.

How damage is noticed:

- every record has a checksum over its identity and content;
- a plane's record has a tally of its rows in ``log``, and its revisions since the last
  compaction have one row each, so no row is missed or added;
- the record of the last commit has the sum of the checksums of all planes and users, so none of
  those is missing;
- it counts commits, and a :class:`.head_file.HeadFile` has the last one that was
  acknowledged, so no end of the log is missing;
- the definitions of the tables are compared with the ones below.

Reading raises :class:`FileDamaged` at the first damage; :mod:`.inspection` finds and names all of
it. Only modules of this package use this one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import apsw
import msgspec

from datum_compute.api.planes import type_name
from datum_compute.apiserver.storage.protocol import StoreRefused
from datum_compute.apiserver.storage.sqlite.checksums import record_checksum, row_checksum
from datum_compute.apiserver.storage.sqlite.head_file import HeadDamaged, HeadFile
from datum_compute.apiserver.storage.sqlite.row_value import object_of
from datum_compute.log import get_logger

LAYOUT = 3
"""Rises when the file changes; a file of a higher layout is refused, one of a lower layout is
brought up to date when it is opened. 3: values may have managed fields."""

SUMMED_LAYOUT = 2
"""From here on: checksums, tallies, a record of the last commit."""

FIRST_LAYOUT = 1
"""That of version 0.1.0: no checksums, no tallies, no record of the last commit."""

PUT, DELETE = 0, 1

TABLES = {
    "log": """CREATE TABLE log (
    seq INTEGER PRIMARY KEY,    -- order over all planes; never leaves the process
    plane INTEGER NOT NULL,
    revision INTEGER NOT NULL,  -- order within the plane: the resourceVersion
    resource TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    type INTEGER NOT NULL,      -- 0 put, 1 delete
    time INTEGER NOT NULL,      -- milliseconds since 1970
    value BLOB NOT NULL,        -- the object as JSON; of a delete, its last state
    checksum INTEGER NOT NULL
)""",
    "planes": """CREATE TABLE planes (
    name TEXT PRIMARY KEY,
    id INTEGER NOT NULL,        -- 0: dropped, and only its revision is remembered
    type TEXT NOT NULL,         -- follows from the name; for readers of the file
    revision INTEGER NOT NULL,
    compacted INTEGER NOT NULL, -- history up to this revision is gone
    rows INTEGER NOT NULL,      -- how many rows of log it has
    seqs INTEGER NOT NULL,      -- the sum of their seq
    objects TEXT NOT NULL,      -- JSON: current objects by resource
    checksum INTEGER NOT NULL
) WITHOUT ROWID""",
    "users": """CREATE TABLE users (
    name TEXT PRIMARY KEY,
    groups TEXT NOT NULL,       -- JSON list
    token BLOB NOT NULL,        -- SHA-256 of the bearer token
    checksum INTEGER NOT NULL
) WITHOUT ROWID""",
}

LOG_COLUMNS = "seq, plane, revision, resource, namespace, name, type, time, value"

SELECT_PLANES = "SELECT * FROM planes WHERE name != '' ORDER BY name"

SELECT_HEAD = "SELECT * FROM planes WHERE name = ''"
"""The record of the last commit lies among the planes: each commit writes there anyway, and a
table of its own would be one more page to write and sync, 50 µs (measured)."""

WAL_BYTES = 16 * 1024 * 1024
"""What is kept of the write-ahead log after a checkpoint. Room for a few large objects: a commit
that makes the file longer takes the disk longer to sync."""

WAL_PAGES = 1000
"""A checkpoint is due once the write-ahead log has this many: SQLite's own default."""

_log = get_logger(__name__)


class FileDamaged(Exception):
    """Something in the file is not what was written. The message is for programmers."""


UNREADABLE = (FileDamaged, HeadDamaged, apsw.Error, UnicodeDecodeError, MemoryError)
"""What reading a damaged file raises: SQLite meets impossible pages, apsw impossible texts."""


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


class Tally(msgspec.Struct):
    """Which rows a plane has, in short."""

    rows: int = 0
    seqs: int = 0
    objects: dict[str, int] = {}
    """Current objects by resource, where there are any."""

    def add(self, seq: int, resource: str, *, created: bool, deleted: bool) -> None:
        self.rows += 1
        self.seqs += seq
        if created != deleted:
            count = self.objects.get(resource, 0) + (1 if created else -1)
            if count:
                self.objects[resource] = count
            else:
                self.objects.pop(resource, None)

    def remove(self, seqs: Sequence[int]) -> None:
        """Rows of versions that are not current."""
        self.rows -= len(seqs)
        self.seqs -= sum(seqs)


class PlaneRow(msgspec.Struct, frozen=True, gc=False):
    name: str
    id: int
    revision: int
    compacted: int
    tally: Tally = msgspec.field(default_factory=Tally)


class Head(msgspec.Struct, frozen=True):
    """The last commit."""

    commits: int
    """Its number."""
    seq: int
    """The highest that the log ever had."""
    planes: int
    """The sum (xor) of the checksums of all planes."""
    users: int
    """And of all users."""


class UserRow(msgspec.Struct, frozen=True):
    name: str
    groups: tuple[str, ...]
    token: bytes


def plane_record(row: PlaneRow) -> tuple[Any, ...]:
    """The columns of ``planes``."""
    tally = row.tally
    objects = _encode(tally.objects).decode()
    fields = (
        row.name,
        row.id,
        type_name(row.name),
        row.revision,
        row.compacted,
        tally.rows,
        tally.seqs,
        objects,
    )
    return (*fields, record_checksum("plane", *fields))


def head_record(head: Head) -> tuple[Any, ...]:
    """The columns of ``planes``, with other meanings."""
    fields = ("", 0, "head", head.commits, head.seq, head.planes, head.users, "")
    return (*fields, record_checksum("head", *fields))


def load_head(record: tuple[Any, ...]) -> Head:
    if record[-1] != record_checksum("head", *record[:-1]):
        raise FileDamaged("head")
    return Head(*record[3:7])


def load_plane(record: tuple[Any, ...]) -> PlaneRow:
    if record[-1] != record_checksum("plane", *record[:-1]):
        raise FileDamaged(f"plane {record[0]!r}")
    name, id_, _, revision, compacted, rows, seqs, objects, _ = record
    tally = Tally(rows, seqs, msgspec.json.decode(objects, type=dict[str, int]))
    return PlaneRow(name, id_, revision, compacted, tally)


def user_record(row: UserRow) -> tuple[Any, ...]:
    """The columns of ``users``."""
    groups = _encode(row.groups).decode()
    return row.name, groups, row.token, record_checksum("user", row.name, groups, row.token.hex())


def load_user(record: tuple[Any, ...]) -> UserRow:
    name, groups, token, checksum = record
    if type(token) is not bytes or checksum != record_checksum("user", name, groups, token.hex()):
        raise FileDamaged(f"user {name!r}")
    return UserRow(name, tuple(msgspec.json.decode(groups)), token)


def first_revision(now: datetime) -> int:
    """Where a new plane's revisions start: at the clock, in units in which no plane can write. So
    a plane or file that is created again starts above all its earlier revisions."""
    return int(now.timestamp() * _REVISIONS_PER_SECOND)


_REVISIONS_PER_SECOND = 100_000


def xor(checksums: Iterable[int]) -> int:
    """Their sum, which does not depend on their order."""
    total = 0
    for each in checksums:
        total ^= each
    return total


def read_layout(db: apsw.Connection) -> int:
    """The layout of an open file, 0 for an empty one. Raises FileDamaged for definitions that
    were never written, and StoreRefused for those of a later version."""
    layout = select(db, "PRAGMA user_version")[0][0]
    if layout > LAYOUT:
        raise StoreRefused(
            f"{db.filename} has storage layout {layout}; this program knows layouts up to {LAYOUT}"
        )
    found = dict(select(db, "SELECT name, sql FROM sqlite_master"))
    is_sound = {
        0: not found,
        FIRST_LAYOUT: sorted(found) == ["log", "planes", "users"],
        SUMMED_LAYOUT: found == TABLES,
        LAYOUT: found == TABLES,
    }
    if not is_sound.get(layout):
        raise FileDamaged("definitions of tables")
    return int(layout)


def select(db: apsw.Connection, statement: str, values: tuple[Any, ...] = ()) -> list[Any]:
    """All rows of an answer."""
    return db.execute(statement, values).fetchall()


def is_consistent(row: LogRow) -> bool:
    """Whether the value is an object of the row's name and revision: all that can be said of a
    row without a checksum."""
    try:
        meta = msgspec.json.decode(object_of(row.value), type=_Identity).metadata
    except (msgspec.MsgspecError, TypeError):
        return False
    return (meta.namespace, meta.name, meta.resource_version) == (
        row.namespace,
        row.name,
        str(row.revision),
    )


class LogFile:
    """Rows in, rows out. Knows nothing of objects. Raises any of :data:`UNREADABLE` when what it
    reads is damaged, and StoreRefused for a file of a later version."""

    def __init__(self, path: str) -> None:
        self._head = None if path == ":memory:" else HeadFile(path)
        acknowledged = self._head.read() if self._head is not None else None
        if acknowledged and not has_content(path):
            # Opened, SQLite would delete the log beside an empty file.
            raise FileDamaged("no database")
        self.commits = 0
        self.last_seq = 0
        self._planes: dict[str, int] = {}
        self._users: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._db = apsw.Connection(path)
        self._wal_pages = 0
        # Instead of SQLite's own, which lets the commit that reaches the limit wait for it.
        self._db.set_wal_hook(self._note_wal)
        try:
            # Set before the first table exists, else it takes a full vacuum to change.
            self._db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
            self._prepare_layout(acknowledged)
        except BaseException:
            self.close()
            raise

    def _prepare_layout(self, acknowledged: int | None) -> None:
        layout = read_layout(self._db)
        # Rows can be sound on pages that are not, and the next write would damage them. As long
        # as a scan of the file: 0.2 s for 100,000 objects.
        if select(self._db, "PRAGMA quick_check(1)") != [("ok",)]:
            raise FileDamaged("pages")
        if layout >= SUMMED_LAYOUT:
            if self._head is not None and acknowledged is None:
                raise FileDamaged("no head file")
            self._read_head(acknowledged or 0)
            if layout < LAYOUT:
                # Its rows can be read as they are; older programs could not read new ones.
                self.begin()
                self._db.execute(f"PRAGMA user_version = {LAYOUT}")
                self.commit()
            return
        if acknowledged:
            raise FileDamaged("no tables, or those of an earlier version")
        if self._head is not None and acknowledged is None:
            # 0: from here to the first commit nothing is acknowledged, so nothing can be lost.
            self._head.create(0)
        self.begin()
        if layout == FIRST_LAYOUT:
            self._migrate()
        else:
            self._create_tables()
        self._db.execute(f"PRAGMA user_version = {LAYOUT}")
        self.commit()

    def _create_tables(self) -> None:
        for definition in TABLES.values():
            self._db.execute(definition)

    def _migrate(self) -> None:
        """Bring a file of version 0.1.0 up to date, within one transaction."""
        planes = [
            PlaneRow(*row)
            for row in select(self._db, "SELECT name, id, revision, compacted FROM planes")
        ]
        users = [
            UserRow(name, tuple(msgspec.json.decode(groups)), token)
            for name, groups, token in self._db.execute("SELECT name, groups, token FROM users")
        ]
        self._db.execute("ALTER TABLE log RENAME TO old_log; DROP TABLE planes; DROP TABLE users")
        self._create_tables()
        by_id = {row.id: row for row in planes if row.id}
        self._names = {row.id: row.name for row in by_id.values()}
        current: set[tuple[int, str, str, str]] = set()
        for found in self._db.execute(f"SELECT {LOG_COLUMNS} FROM old_log ORDER BY seq"):
            row = LogRow(*found)
            plane = by_id.get(row.plane)
            if plane is None:
                continue  # of a plane that was dropped
            if not is_consistent(row):
                raise FileDamaged(f"row {row.seq}")
            key = row.plane, row.resource, row.namespace, row.name
            deleted = row.type == DELETE
            plane.tally.add(row.seq, row.resource, created=key not in current, deleted=deleted)
            (current.discard if deleted else current.add)(key)
            self.append([(*found, row_checksum(plane.name, *found))])
        self._db.execute("DROP TABLE old_log")
        self.put_planes(planes)
        for user in users:
            self.put_user(user)
        _log.info(
            "storage brought up to date",
            path=self._db.filename,
            layout=LAYOUT,
            rows=sum(plane.tally.rows for plane in by_id.values()),
        )

    def _read_head(self, acknowledged: int) -> None:
        records = select(self._db, SELECT_HEAD)
        if len(records) != 1:
            raise FileDamaged("no head")
        head = load_head(records[0])
        self.commits, self.last_seq = head.commits, head.seq
        if self.commits < acknowledged:
            raise FileDamaged(f"{acknowledged - self.commits} commits are missing")
        self._read_checksums()
        if (xor(self._planes.values()), xor(self._users.values())) != (head.planes, head.users):
            raise FileDamaged("planes or users")

    def _read_checksums(self) -> None:
        self._planes = {row[0]: row[-1] for row in self._db.execute(SELECT_PLANES)}
        self._users = dict(select(self._db, "SELECT name, checksum FROM users"))

    def planes(self) -> list[PlaneRow]:
        rows = [load_plane(row) for row in self._db.execute(SELECT_PLANES)]
        self._names = {row.id: row.name for row in rows if row.id}
        return rows

    def users(self) -> list[UserRow]:
        return [load_user(row) for row in self._db.execute("SELECT * FROM users ORDER BY name")]

    def rows(self) -> Iterator[LogRow]:
        """All rows, in order. Those of a dropped plane, which nothing reads, are not proved."""
        for row in self._db.execute(f"SELECT {LOG_COLUMNS}, checksum FROM log ORDER BY seq"):
            yield self._proved(row)

    def value(self, seq: int) -> bytes:
        """Raises FileDamaged where the row is missing, too."""
        found = select(self._db, f"SELECT {LOG_COLUMNS}, checksum FROM log WHERE seq = ?", (seq,))
        if not found:
            raise FileDamaged(f"row {seq}")
        return self._proved(found[0]).value

    def _proved(self, row: tuple[Any, ...]) -> LogRow:
        *fields, checksum = row
        plane = self._names.get(row[1])
        if plane is None:
            is_sound = type(row[1]) is int
        else:
            is_sound = type(row[8]) is bytes and row_checksum(plane, *fields) == checksum
        if not is_sound:
            raise FileDamaged(f"row {row[0]}")
        return LogRow(*fields)

    def begin(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Durable on return, and recorded as acknowledged."""
        sums = xor(self._planes.values()), xor(self._users.values())
        self._db.execute(_PUT_PLANE, head_record(Head(self.commits + 1, self.last_seq, *sums)))
        self._db.execute("COMMIT")
        self.commits += 1
        if self._head is not None:
            self._head.write(self.commits)

    def rollback(self) -> None:
        """Leave the transaction, if one is open. Never raises: an error before this one is the
        cause, and closing the file ends the transaction too."""
        with suppress(apsw.Error):
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            self._read_checksums()

    def append(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Rows in the order of :class:`LogRow`'s fields, each with its checksum, inside a
        transaction."""
        if rows:
            self.last_seq = max(self.last_seq, rows[-1][0])
        self._db.executemany(
            f"INSERT INTO log ({LOG_COLUMNS}, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )

    def put_planes(self, rows: Iterable[PlaneRow]) -> None:
        records = [plane_record(row) for row in rows]
        self._db.executemany(_PUT_PLANE, records)
        for record in records:
            self._planes[record[0]] = record[-1]
            if record[1]:
                self._names[record[1]] = record[0]

    def put_user(self, row: UserRow) -> None:
        record = user_record(row)
        self._db.execute("INSERT OR REPLACE INTO users VALUES (?, ?, ?, ?)", record)
        self._users[row.name] = record[-1]

    def remove_user(self, name: str) -> None:
        self._db.execute("DELETE FROM users WHERE name = ?", (name,))
        self._users.pop(name, None)

    def delete(self, seqs: Sequence[int]) -> None:
        self._db.executemany("DELETE FROM log WHERE seq = ?", [(seq,) for seq in seqs])

    def free_pages(self) -> int:
        """How many unused pages there are beyond the few that are kept for the next writes."""
        (free,), (pages,) = (
            select(self._db, f"PRAGMA {each}")[0] for each in ("freelist_count", "page_count")
        )
        return max(0, int(free) - int(pages) // 8 - 16)

    def shrink(self, pages: int) -> None:
        """Take up to this many free pages out of the file, inside a transaction."""
        self._db.execute(f"PRAGMA incremental_vacuum({pages:d})").fetchall()

    def _note_wal(self, _: apsw.Connection, __: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    @property
    def needs_checkpoint(self) -> bool:
        return self._wal_pages >= WAL_PAGES

    def checkpoint(self) -> None:
        """Move the write-ahead log into the database, as far as readers and the disk allow: what
        cannot be moved stays in the log."""
        self._wal_pages = 0
        with suppress(apsw.Error):
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def truncate_wal(self) -> None:
        """Move the write-ahead log into the database and empty it; a reader may prevent it."""
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        self._db.close()
        if self._head is not None:
            self._head.close()


def has_content(path: str) -> bool:
    """Whether the file exists and is not empty."""
    return os.path.exists(path) and os.path.getsize(path) > 0


class _IdentityMeta(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str
    namespace: str = ""


class _Identity(msgspec.Struct):
    metadata: _IdentityMeta


_PUT_PLANE = "INSERT OR REPLACE INTO planes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"

_encode = msgspec.json.Encoder().encode
