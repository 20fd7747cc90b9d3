"""Finds and names everything that is wrong with a log file, and what of it can be proved.

It reads with SQLite in one snapshot, so it may run beside an open store, and goes on past pages
that cannot be read. A row whose checksum fails is tried again with each part of its identity
as other records have it, and with the values of other such rows: what the checksum then confirms
is known to be meant.

Read only; :mod:`.rebuild` writes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import apsw
import msgspec

from datum_compute.api.planes import PLANE_TYPES
from datum_compute.apiserver.storage.protocol import Damage, StoreRefused
from datum_compute.apiserver.storage.sqlite.checksums import row_checksum
from datum_compute.apiserver.storage.sqlite.contents import Contents, show_value, verdict
from datum_compute.apiserver.storage.sqlite.head_file import HeadDamaged, HeadFile
from datum_compute.apiserver.storage.sqlite.log_file import (
    DELETE,
    FIRST_LAYOUT,
    LAYOUT,
    LOG_COLUMNS,
    PUT,
    SELECT_HEAD,
    SELECT_PLANES,
    SUMMED_LAYOUT,
    UNREADABLE,
    FileDamaged,
    LogRow,
    PlaneRow,
    UserRow,
    has_content,
    is_consistent,
    load_head,
    load_plane,
    load_user,
    read_layout,
    select,
    xor,
)
from datum_compute.apiserver.storage.sqlite.row_value import object_of

_NOT_DAMAGE = (
    apsw.BusyError,
    apsw.LockedError,
    apsw.CantOpenError,
    apsw.PermissionsError,
    apsw.ReadOnlyError,
    apsw.FullError,
)

_MAGIC = b"SQLite format 3\0"

MOST_FAILURES = 100_000
"""Reads that may fail before the rest of a file counts as lost; a guess."""

GUESSED_SEQS = 10_000
"""How far an unreadable log is searched for more rows when its own record of that is lost."""

SHOWN_REVISIONS = 5
"""Missing changes that are listed one by one."""


_KEY = ("resource", "namespace", "name")


def raise_for_resources(path: str, error: BaseException) -> None:
    """Raise StoreRefused for an error that says nothing about the content of the file."""
    if isinstance(error, _NOT_DAMAGE):
        raise StoreRefused(f"{path} cannot be opened: {error}") from error


def check(path: str, *, is_backup: bool = False) -> list[Damage]:
    """See :class:`..protocol.Engine`."""
    if is_backup and not _is_database(path):
        raise StoreRefused(f"{path} is not a backup: it is not a SQLite database")
    with closing(Inspection(path, has_head=not is_backup)) as found:
        if is_backup and not found.damages and not found.is_readable:
            raise StoreRefused(f"{path} is not a backup: nothing is stored in it")
        return found.damages


def _is_database(path: str) -> bool:
    """Whether it begins as every file of SQLite 3 does."""
    with open(path, "rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


class Inspection:
    """One look at a file. :meth:`close` ends its snapshot."""

    def __init__(self, path: str, *, has_head: bool = True) -> None:
        """``has_head`` is False for a backup, which has no file beside it."""
        self.damages: list[Damage] = []
        self.users: list[UserRow] = []
        self.planes: list[Contents] = []
        self.retired: list[PlaneRow] = []
        self.commits = 0
        """The last commit, stored or acknowledged."""
        self.is_readable = False
        """Whether any of the file can be kept."""
        self._path = path
        self._layout = LAYOUT
        self._failures = 0
        self._last_seq = GUESSED_SEQS
        self._planes_missing = False
        self._moved: dict[int, int] = {}
        """Where the value of a row is: in the row of another seq."""
        self._db: apsw.Connection | None = None
        acknowledged = self._read_head_file() if has_head else 0
        if not has_content(path):
            if acknowledged:
                self._report(
                    f"the file is missing or empty, and {acknowledged} commits were acknowledged",
                    "cannot be repaired",
                )
            return
        try:
            self._db = db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
            db.execute("BEGIN")
            self._read(db, acknowledged)
        except UNREADABLE as error:
            raise_for_resources(path, error)
            self._report(f"SQLite cannot read it ({error})", "cannot be repaired")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._db is not None:
            self._db.close()

    def copy_to(self, target: apsw.Connection) -> None:
        """The whole file as it is in the snapshot."""
        assert self._db is not None
        with target.backup("main", self._db, "main") as copy:
            copy.step(-1)

    def current_rows(self) -> Iterator[tuple[str, LogRow]]:
        """The rows that a repaired file has, by plane: of each object that exists, the last
        version that is proved."""
        wanted = {
            versions.good.seq: (contents.row.name, versions.good)
            for contents in self.planes
            for versions in contents.versions.values()
            if versions.good is not None and versions.good.type == PUT and not versions.is_deleted
        }
        for record in self._rows():
            plane, known = wanted.get(record[0], ("", None))
            if known is not None and record[0] in self._moved:
                del wanted[known.seq]
                yield plane, msgspec.structs.replace(known, value=self._moved_value(known.seq))
            elif known is not None and type(record[8]) is bytes:
                row = msgspec.structs.replace(known, value=record[8])
                if self._is_proved(row, record[9], plane):
                    del wanted[row.seq]
                    yield plane, row

    # Reading

    def _read(self, db: apsw.Connection, acknowledged: int | None) -> None:
        try:
            self._layout = read_layout(db)
        except FileDamaged:
            self._report("the definitions of its tables were changed", "is written anew")
        if self._layout < SUMMED_LAYOUT and acknowledged:
            self._report(
                f"its tables are missing or of an earlier version, and {acknowledged} commits were"
                " acknowledged; the write-ahead log was removed or cut",
                "what is stored is kept" if self._layout else "cannot be repaired",
            )
        if self._layout == 0:
            return
        self.is_readable = True
        self._check_pages()
        if self._layout >= SUMMED_LAYOUT:
            self._check_head(acknowledged)
        planes, lost_planes = self._load_records("planes", load_plane)
        users, lost_users = self._load_records("users", load_user)
        self.users = users
        for record in lost_users:
            name = show_value(record[0])
            self._report("its record was changed", "is dropped", resource="users", name=name)
        self.retired = [row for row in planes if row.id == 0]
        known = {row.id: Contents(row, row.tally) for row in planes if row.id}
        if lost_planes or self._planes_missing:
            self._find_planes(known, lost_planes)
        self.planes = list(known.values())
        for row, is_good in self._judged_rows(known):
            known[row.plane].add(row, is_good=is_good)
        for contents in self.planes:
            self._judge(contents)

    def _read_head_file(self) -> int | None:
        head = HeadFile(self._path)
        name = os.path.basename(head.path)
        try:
            acknowledged = head.read()
        except HeadDamaged:
            self._report(f"{name} beside it was changed", "is written anew")
            return 0
        self.commits = acknowledged or 0
        return acknowledged

    def _check_pages(self) -> None:
        try:
            found = [row[0] for row in self._select("PRAGMA quick_check(1)")]
        except UNREADABLE as error:
            found = [str(error)]
        if found != ["ok"]:
            said = show_value(found[0].splitlines()[-1]) if found else "no answer"
            self._report(f"pages of the file are malformed ({said})", "what can be read is kept")

    def _load_records(
        self, table: str, load: Callable[[tuple[Any, ...]], Any]
    ) -> tuple[list[Any], list[tuple[Any, ...]]]:
        """The records of ``planes`` or ``users`` that are proved, and those that are not."""
        if self._layout == FIRST_LAYOUT:
            load = {"planes": _load_first_plane, "users": _load_first_user}[table]
        good: list[Any] = []
        bad: list[tuple[Any, ...]] = []
        try:
            for record in self._execute(f"SELECT * FROM {table} WHERE name != ''"):
                try:
                    good.append(load(record))
                except (FileDamaged, msgspec.MsgspecError, TypeError, ValueError):
                    bad.append(record)
        except UNREADABLE:
            self._report(f"its table of {table} cannot be read to the end", "the rest is kept")
        return good, bad

    def _check_head(self, acknowledged: int | None) -> None:
        """Compare the record of the last commit with what was acknowledged."""
        try:
            records = self._select(SELECT_HEAD)
            planes = xor(row[-1] for row in self._execute(SELECT_PLANES))
            users = xor(row[0] for row in self._execute("SELECT checksum FROM users"))
            head = load_head(records[0])
        except FileDamaged:
            self._planes_missing = True
            self._report("the record of its last commit was changed", "is written anew")
            return
        except (*UNREADABLE, IndexError, TypeError):
            self._planes_missing = True
            self._report("the record of its last commit cannot be read", "is written anew")
            return
        commits, self._last_seq = head.commits, head.seq
        if acknowledged is None:
            self._report(
                f"{os.path.basename(HeadFile(self._path).path)} beside it is missing, so that"
                " lost commits would not be noticed",
                "is written anew",
            )
        elif commits < acknowledged:
            self._report(
                f"the last {acknowledged - commits} commits are missing: {acknowledged} were"
                f" acknowledged, {commits} are stored; the write-ahead log was removed or cut",
                "cannot be brought back; what is stored is kept",
            )
        self.commits = max(self.commits, commits)
        self._planes_missing = planes != head.planes
        if self._planes_missing:
            self._report("records of planes are missing or were changed", "see each plane")
        if users != head.users:
            self._report("records of users are missing or were changed", "the rest is kept")

    def _find_planes(self, known: dict[int, Contents], lost: list[tuple[Any, ...]]) -> None:
        """Add the planes whose record is lost and whose rows prove their name."""
        samples: dict[int, tuple[Any, ...]] = {}
        names = {show_value(record[0]) for record in lost}
        rows: dict[int, int] = {}
        for record in self._rows():
            if type(record[1]) is int and record[1] not in known and type(record[8]) is bytes:
                samples.setdefault(record[1], record)
                rows[record[1]] = rows.get(record[1], 0) + 1
            names.add(show_value(record[5]))
        forms = [kind.name + ("" if kind.is_singleton else "/{}") for kind in PLANE_TYPES]
        candidates = {form.format(name) for form in forms for name in names} | names
        for number, record in samples.items():
            for name in candidates:
                if row_checksum(name, *record[:-1]) == record[-1]:
                    known[number] = Contents(PlaneRow(name, number, 0, 0), None)
                    self._report("its record is lost", "is written anew", plane=name)
        found = {contents.row.name for contents in known.values()}
        for record in lost:
            if (name := show_value(record[0])) not in found:
                self._report("its record was changed", "is dropped", plane=name)
        if nameless := sum(rows[number] for number in rows if number not in known):
            self._report(
                f"{nameless} rows are of planes that were dropped or whose names are lost",
                "are dropped",
            )

    def _judged_rows(self, known: dict[int, Contents]) -> Iterator[tuple[LogRow, bool]]:
        """Every row of these planes, without its value, and whether it is proved."""
        bad: list[tuple[LogRow, object, bool]] = []
        stated: dict[int, list[tuple[int, object]]] = {}
        for record in self._rows():
            *fields, checksum = record
            row = LogRow(*fields)
            bare = msgspec.structs.replace(row, value=b"")
            contents = known.get(row.plane) if type(row.plane) is int else None
            if contents is not None and self._is_proved(row, checksum, contents.row.name):
                yield bare, True
                continue
            meant = self._corrected(row, checksum, known)
            if meant is not None:
                yield msgspec.structs.replace(meant, value=b""), True
                continue
            says = dict(_identity(row.value)) if type(row.value) is bytes else {}
            if "revision" in says:
                stated.setdefault(says["revision"], []).append((row.seq, checksum))
            if contents is not None:
                bad.append((bare, checksum, _confirms(row.value, says, row)))
        for bare, checksum, is_certain in bad:
            contents = known[bare.plane]
            meant = self._with_moved_value(bare, checksum, stated, contents.row.name)
            if meant is not None:
                yield meant, True
                continue
            contents.uncertain += not is_certain
            shown = {name: show_value(getattr(bare, name)) for name in _KEY}
            yield msgspec.structs.replace(bare, **shown), False

    def _with_moved_value(
        self,
        row: LogRow,
        checksum: object,
        stated: dict[int, list[tuple[int, object]]],
        plane: str,
    ) -> LogRow | None:
        """The row as it was, where its value lies in another row. Revisions are written once in a
        plane, so the one that a value states finds the row."""
        if self._layout == FIRST_LAYOUT or type(row.revision) is not int:
            return None
        for seq, its_checksum in stated.get(row.revision, ()):
            self._moved[row.seq] = seq
            value = self._moved_value(row.seq)
            meant = msgspec.structs.replace(row, value=value, **dict(_identity(value)))
            proof = row_checksum(plane, *_fields(meant))
            if seq != row.seq and proof in (checksum, its_checksum):
                self._report(
                    f"the value of revision {row.revision} lies in the row of another change",
                    "is set right",
                    plane=plane,
                    resource=show_value(meant.resource),
                    namespace=show_value(meant.namespace),
                    name=show_value(meant.name),
                )
                return msgspec.structs.replace(meant, value=b"")
            del self._moved[row.seq]
        return None

    def _moved_value(self, seq: int) -> bytes:
        try:
            found = self._select("SELECT value FROM log WHERE seq = ?", self._moved[seq])
        except UNREADABLE:
            return b""
        return found[0][0] if found and type(found[0][0]) is bytes else b""

    def _is_proved(self, row: LogRow, checksum: object, plane: str) -> bool:
        if self._layout == FIRST_LAYOUT:
            return is_consistent(row)
        return type(row.value) is bytes and row_checksum(plane, *_fields(row)) == checksum

    def _corrected(
        self, row: LogRow, checksum: object, known: dict[int, Contents]
    ) -> LogRow | None:
        """The row with the one field set right that the checksum proves to be changed."""
        if self._layout == FIRST_LAYOUT or type(row.value) is not bytes:
            return None
        here = known.get(row.plane) if type(row.plane) is int else None
        tries: list[tuple[str, Any, str]] = [
            ("plane", number, each.row.name) for number, each in known.items()
        ]
        if here is not None:
            tries += [("type", kind, here.row.name) for kind in (PUT, DELETE)]
            tries += [(*each, here.row.name) for each in _identity(row.value)]
            resources = here.stored.objects if here.stored is not None else ()
            tries += [("resource", each, here.row.name) for each in resources]
        for field, value, plane in tries:
            meant = msgspec.structs.replace(row, **{field: value})
            if row_checksum(plane, *_fields(meant)) == checksum:
                self._report(
                    f"the {field} of its row was changed to {show_value(getattr(row, field))}",
                    "is set right",
                    plane=plane,
                    resource=show_value(meant.resource),
                    namespace=show_value(meant.namespace),
                    name=show_value(meant.name),
                )
                return meant
        return None

    # Judging

    def _judge(self, contents: Contents) -> None:
        plane = contents.row.name
        live: dict[str, int] = {}
        for (resource, namespace, name), versions in contents.versions.items():
            if versions.bad:
                problem, remedy = verdict(versions)
                self._report(
                    problem,
                    remedy,
                    plane=plane,
                    resource=resource,
                    namespace=namespace,
                    name=name,
                )
            if not versions.is_deleted:
                live[resource] = live.get(resource, 0) + 1
        if contents.uncertain:
            self._report(
                f"rows are damaged so much that their names are not certain: {contents.uncertain}",
                "each object they belong to is as it was before, or missing",
                plane=plane,
            )
        if contents.stored is None or self._layout == FIRST_LAYOUT:
            return
        reported = len(self.damages)
        self._judge_revisions(contents)
        for resource in sorted(live.keys() | contents.stored.objects.keys()):
            found, wanted = live.get(resource, 0), contents.stored.objects.get(resource, 0)
            if found < wanted:
                self._report(
                    f"objects are missing: {wanted - found} of {wanted}; no row has their names",
                    "cannot be brought back",
                    plane=plane,
                    resource=resource,
                )
            elif found > wanted:
                self._report(
                    f"more objects are found than were stored: {found} instead of {wanted}",
                    "what is found is kept: one of them was deleted, or is older than it was",
                    plane=plane,
                    resource=resource,
                )
        if len(self.damages) == reported and contents.rows != contents.stored.rows:
            self._report(
                f"rows are missing or were added: {contents.rows} instead of"
                f" {contents.stored.rows}",
                "its history is dropped",
                plane=plane,
            )

    def _judge_revisions(self, contents: Contents) -> None:
        """Each change since the last compaction has its row."""
        row = contents.row
        count = row.revision - row.compacted
        if len(contents.revisions) == count and contents.highest == row.revision:
            return
        if contents.highest > row.revision:
            self._report(
                f"changes up to revision {contents.highest} are found, and {row.revision} was"
                " the last that was stored",
                "what is found is kept",
                plane=row.name,
            )
        missing = (
            number
            for number in range(row.compacted + 1, row.revision + 1)
            if number not in contents.revisions
        )
        for _, number in zip(range(SHOWN_REVISIONS), missing, strict=False):
            self._report(
                f"the change of revision {number} is missing",
                "cannot be brought back: the object is as it was before, or missing",
                plane=row.name,
            )
        if more := max(0, count - len(contents.revisions) - SHOWN_REVISIONS):
            self._report(f"{more} more changes are missing", "see above", plane=row.name)

    def _report(self, problem: str, remedy: str, **subject: str) -> None:
        self.damages.append(Damage(problem=problem, remedy=remedy, **subject))

    # SQLite

    def _execute(self, statement: str, *values: int) -> apsw.Cursor:
        assert self._db is not None
        return self._db.execute(statement, values)

    def _select(self, statement: str, *values: int) -> list[tuple[Any, ...]]:
        assert self._db is not None
        return select(self._db, statement, values)

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        """Every row of the log that can be read, with its checksum; in a malformed file perhaps
        out of order. Where some cannot be read, each half of what is left is tried."""
        last = 0
        try:
            for record in self._execute(f"SELECT {LOG_COLUMNS}, checksum FROM log"):
                yield record
                last = max(last, record[0])
        except apsw.SQLError:
            return  # there is no such table
        except UNREADABLE:
            yield from self._rows_between(last, max(self._last_seq, last + GUESSED_SEQS))

    def _rows_between(self, after: int, last: int) -> Iterator[tuple[Any, ...]]:
        if after >= last or self._failures >= MOST_FAILURES:
            return
        try:
            for record in self._execute(
                f"SELECT {LOG_COLUMNS}, checksum FROM log WHERE seq > ? AND seq <= ?", after, last
            ):
                yield record
                after = max(after, record[0])
            return
        except UNREADABLE:
            self._failures += 1
        if last - after > 1:
            middle = (after + last) // 2
            yield from self._rows_between(after, middle)
            yield from self._rows_between(middle, last)


def _fields(row: LogRow) -> tuple[Any, ...]:
    return msgspec.structs.astuple(row)


def _identity(value: bytes) -> Iterator[tuple[str, Any]]:
    """What an object itself says of its row, by field."""
    try:
        meta = msgspec.json.decode(object_of(value))["metadata"]
        yield "name", meta["name"]
        yield "namespace", meta.get("namespace", "")
        yield "revision", int(meta["resourceVersion"])
    except (msgspec.MsgspecError, TypeError, KeyError, ValueError, AttributeError):
        return


def _confirms(value: object, says: dict[str, Any], row: LogRow) -> bool:
    """Whether a value is of the object that its row names, as far as that can be known. The name
    and the start of the value lie side by side: damage that reached one from the other shows in
    both."""
    if says:
        return (says["namespace"], says["name"]) == (row.namespace, row.name)
    return not isinstance(value, bytes) or value.startswith(b"{")


def _load_first_plane(record: tuple[Any, ...]) -> PlaneRow:
    name, id_, _, revision, compacted = record
    if [type(each) for each in (name, id_, revision, compacted)] != [str, int, int, int]:
        raise FileDamaged(f"plane {name!r}")
    return PlaneRow(name, id_, revision, compacted)


def _load_first_user(record: tuple[Any, ...]) -> UserRow:
    name, groups, token = record
    return UserRow(name, tuple(msgspec.json.decode(groups)), token)
