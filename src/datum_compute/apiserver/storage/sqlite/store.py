"""The store: all planes, in memory for reads and in one log file on disk.

A write goes to memory and to the open batch; when a turn of the loop adds nothing to it, and
after a few turns in any case, the batch is committed in one transaction with one sync. That
wakes the requests that wait in :meth:`LogStore.wait_durable` and delivers the events.

Superseded versions and large objects keep their labels in memory, for watches that select on them,
but not their bytes; :meth:`LogStore.value` reads those back from the log.

History goes when it is too old, and sooner when it is too large: :meth:`LogStore.compact_step`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import apsw

from datum_compute.apiserver.storage.protocol import (
    HISTORY_BYTES,
    HISTORY_SECONDS,
    KEPT_BYTES,
    RECENT_SECONDS,
    SMALL_HISTORY_BYTES,
    EncodedObject,
    HistoryDamaged,
    Listener,
    Managed,
    ObjectDamaged,
    ObjectKey,
    Sink,
    StoreBroken,
    StoreDamaged,
    StoredObject,
    StoredUser,
    StoreEvent,
    StoreFull,
    StoreRefused,
)
from datum_compute.apiserver.storage.sqlite import inspection, row_value
from datum_compute.apiserver.storage.sqlite.checksums import row_checksum
from datum_compute.apiserver.storage.sqlite.log_file import (
    DELETE,
    PUT,
    UNREADABLE,
    FileDamaged,
    LogFile,
    LogRow,
    PlaneRow,
    Tally,
    UserRow,
    first_revision,
)
from datum_compute.apiserver.storage.sqlite.table import LogTable, build_stored, load_stored
from datum_compute.env import Environment
from datum_compute.log import get_logger

BATCH_TURNS = 2
"""How many turns of the loop a batch may wait for more rows. A guess."""

COMPACTION_ROWS = 256
"""Rows deleted per transaction, so that no write waits long behind a compaction. A guess."""

COMPACTION_BYTES = 4 * 1024 * 1024
"""Bytes of objects deleted per transaction: SQLite reads every page of a value to free it."""

VACUUM_PAGES = 512
"""Free pages taken out of the file per transaction. A guess."""

ROOM_SECONDS = 1.0
"""How often a transaction is tried again while the disk is full."""

_log = get_logger(__name__)


class LogPlane:
    """One plane's objects and indexes, in memory."""

    def __init__(self, store: LogStore, row: PlaneRow) -> None:
        self.name = row.name
        self.id = row.id
        self.revision = row.revision
        self.committed = row.revision
        self.compacted = row.compacted
        self.tables: dict[str, LogTable] = {}
        self.uids: dict[str, ObjectKey] = {}
        self.dependents: dict[str, dict[ObjectKey, None]] = {}
        """By the uid of the owner."""
        self.tally = Tally()
        """Of the rows on the file; those of the open batch are not in it yet."""
        self.history_bytes = 0
        """Of versions that are not current and still in the history."""
        self._store = store
        self._log: deque[tuple[LogTable, StoreEvent, int]] = deque()
        """Each change, and the bytes that go when it leaves the history."""

    def table(self, resource: str) -> LogTable:
        table = self.tables.get(resource)
        if table is None:
            table = self.tables[resource] = LogTable(resource)
        return table

    def all_tables(self) -> list[LogTable]:
        return [self.tables[resource] for resource in sorted(self.tables)]

    def get(self, key: ObjectKey) -> StoredObject | None:
        table = self.tables.get(key[0])
        return table.get(key[1], key[2]) if table is not None else None

    def value(self, stored: StoredObject) -> bytes:
        return self._store.value(stored)

    def content(self, stored: StoredObject) -> tuple[bytes, Managed]:
        return self._store.content(stored)

    def find_by_uid(self, uid: str) -> ObjectKey | None:
        return self.uids.get(uid)

    def dependents_of(self, uid: str) -> tuple[ObjectKey, ...]:
        return tuple(self.dependents.get(uid, ()))

    def put(
        self,
        resource: str,
        obj: dict[str, Any] | EncodedObject,
        before: StoredObject | None,
        *,
        validated_by: object | None = None,
        managed: Managed | None = None,
    ) -> StoredObject:
        batch = self._store.open_batch()
        managed = self._managed(before) if managed is None else managed
        revision = self.revision = self.revision + 1
        handle = self._store.next_handle()
        stored = build_stored(handle, revision, obj, before, validated_by, managed)
        event = StoreEvent(revision, before, stored, False, batch.time)
        self._record(resource, event, PUT, batch)
        return stored

    def remove(
        self, resource: str, obj: dict[str, Any] | EncodedObject, before: StoredObject
    ) -> StoredObject:
        batch = self._store.open_batch()
        managed = self._managed(before)
        revision = self.revision = self.revision + 1
        handle = self._store.next_handle()
        stored = build_stored(handle, revision, obj, before, managed=managed)
        self._record(
            resource, StoreEvent(revision, before, stored, True, batch.time), DELETE, batch
        )
        return stored

    def _managed(self, before: StoredObject | None) -> Managed:
        return self.content(before)[1] if before is not None else ()

    def _record(self, resource: str, event: StoreEvent, kind: int, batch: _Batch) -> None:
        table = self.table(resource)
        after = event.after
        self.apply(table, event)
        row = (
            after.handle,
            self.id,
            after.revision,
            table.resource,
            after.namespace,
            after.name,
            kind,
            batch.time,
            row_value.join(after.raw, after.managed),
        )
        batch.rows.append((*row, row_checksum(self.name, *row)))
        batch.events.append((self, table, event))
        batch.planes[self.name] = self
        for listener in self._store.listeners:
            listener(self, table, event)

    def apply(self, table: LogTable, event: StoreEvent, *, recorded: bool = True) -> None:
        """Apply a change to memory: rows, indexes and, if ``recorded``, history."""
        before, after = event.before, event.after
        size = after.size
        key = (table.resource, after.namespace, after.name)
        if event.deleted:
            table.drop_row(after)
            self.uids.pop(after.uid, None)
        else:
            table.set_row(after)
            if before is None:
                self.uids[after.uid] = key
        if before is not None and before.owners:
            for owner in before.owners:
                found = self.dependents.get(owner.uid)
                if found is not None:
                    found.pop(key, None)
                    if not found:
                        del self.dependents[owner.uid]
        if after.owners and not event.deleted:
            for owner in after.owners:
                self.dependents.setdefault(owner.uid, {})[key] = None
        superseded = before.size if before is not None else 0
        self._store.live_bytes += (0 if event.deleted else size) - superseded
        if recorded:
            past = superseded + (size if event.deleted else 0)
            self.history_bytes += past
            self._store.history_bytes += past
            table.history.append(event)
            self._log.append((table, event, past))

    def compact(self, before_time: int, step: CompactionStep, most_bytes: int) -> None:
        """Drop the oldest history up to this time, and about this many bytes at most."""
        freed: list[int] = []
        enough = step.bytes + most_bytes
        while self._log and step.has_room(len(freed)) and step.bytes < enough:
            table, event, past = self._log[0]
            if event.time > before_time or event.revision > self.committed:
                break
            self._log.popleft()
            table.history.popleft()
            self.compacted = event.revision
            step.planes[self.name] = self
            step.bytes += past
            self.history_bytes -= past
            self._store.history_bytes -= past
            if event.before is not None:
                freed.append(event.before.handle)
            if event.deleted:
                freed.append(event.after.handle)
        self.tally.remove(freed)
        step.rows += freed

    def all_handles(self) -> list[int]:
        """Every row of this plane on the file."""
        handles = {s.handle for table in self.tables.values() for s in table.in_order(None)}
        for _, event, _ in self._log:
            handles.add(event.after.handle)
            if event.before is not None:
                handles.add(event.before.handle)
        return sorted(handles)

    def to_row(self) -> PlaneRow:
        """What the file has of this plane once the open batch is committed."""
        return PlaneRow(self.name, self.id, self.revision, self.compacted, self.tally)

    def end_watches(self) -> None:
        for table in self.tables.values():
            table.end_sinks()


class _Batch:
    __slots__ = ("dropped", "events", "planes", "rows", "time", "waiters")

    def __init__(self, time: int) -> None:
        self.time = time
        self.rows: list[tuple[Any, ...]] = []
        self.events: list[tuple[LogPlane, LogTable, StoreEvent]] = []
        self.planes: dict[str, LogPlane] = {}
        self.dropped: list[PlaneRow] = []
        self.waiters: list[asyncio.Future[None]] = []


class CompactionStep:
    """What one transaction of a compaction removes."""

    __slots__ = ("bytes", "planes", "rows")

    def __init__(self) -> None:
        self.bytes = 0
        self.planes: dict[str, LogPlane] = {}
        self.rows: list[int] = []

    def has_room(self, more: int = 0) -> bool:
        return len(self.rows) + more < COMPACTION_ROWS and self.bytes < COMPACTION_BYTES


class LogStore:
    """One file, many planes, one batch at a time."""

    def __init__(self, env: Environment, path: str = ":memory:") -> None:
        self.broken: BaseException | None = None
        self.planes: dict[str, LogPlane] = {}
        self.users: dict[bytes, StoredUser] = {}
        self.listeners: list[Listener] = []
        self._failure_callbacks: list[Callable[[], None]] = []
        self._env = env
        self._batch: _Batch | None = None
        self._garbage: deque[int] = deque()
        self._retired: dict[str, int] = {}  # last revisions of dropped planes
        self._next_plane = 1
        self._seq = 0
        self.live_bytes = 0
        """Of all current objects."""
        self.history_bytes = 0
        """Of all versions that are not current."""
        self._relief: asyncio.Handle | None = None
        self._room: asyncio.Future[None] | None = None
        """Done when the transaction that met a full disk is committed."""
        self._retry: asyncio.TimerHandle | None = None
        try:
            self._file = LogFile(path)
            try:
                self._load()
            except BaseException:
                self._file.close()
                raise
        except StoreRefused:
            raise
        except Exception as error:
            inspection.raise_for_resources(path, error)
            if damages := inspection.check(path):
                raise StoreDamaged(path, damages) from error
            raise

    def subscribe(self, listener: Listener) -> None:
        self.listeners.append(listener)

    def on_failure(self, callback: Callable[[], None]) -> None:
        self._failure_callbacks.append(callback)

    # Planes and users

    def open_plane(self, name: str) -> LogPlane:
        plane = self.planes.get(name)
        if plane is None:
            batch = self.open_batch()
            start = max(first_revision(self._env.now()), self._retired.pop(name, 0))
            plane = LogPlane(self, PlaneRow(name, self._next_plane, start, start))
            self._next_plane += 1
            self.planes[name] = batch.planes[name] = plane
        return plane

    def drop_plane(self, name: str) -> None:
        batch = self.open_batch()
        plane = self.planes.pop(name)
        batch.planes.pop(name, None)
        self._retired[name] = plane.revision
        batch.dropped.append(PlaneRow(name, 0, plane.revision, plane.revision))
        self._garbage.extend(plane.all_handles())
        plane.end_watches()

    def add_user(self, name: str, groups: Sequence[str], token_hash: bytes) -> None:
        self._check_writable()
        row = UserRow(name, tuple(groups), token_hash)
        self._transact("user", lambda: self._file.put_user(row))
        self.users = {key: user for key, user in self.users.items() if user.name != name}
        self.users[token_hash] = StoredUser(name, row.groups)

    def remove_user(self, name: str) -> None:
        self._check_writable()
        self._transact("user", lambda: self._file.remove_user(name))
        self.users = {key: user for key, user in self.users.items() if user.name != name}

    # Writing

    def open_batch(self) -> _Batch:
        """The batch that one of the next turns of the loop commits."""
        self._check_writable()
        if self._batch is None:
            self._batch = _Batch(self._now())
            asyncio.get_running_loop().call_soon(self._commit_soon, 0, BATCH_TURNS)
        return self._batch

    def next_handle(self) -> int:
        self._seq += 1
        return self._seq

    @property
    def is_durable(self) -> bool:
        return self._batch is None and self.broken is None

    async def wait_durable(self) -> None:
        if self._batch is not None:
            self._check_writable()
            waiter = asyncio.get_running_loop().create_future()
            self._batch.waiters.append(waiter)
            await waiter
        self._check()

    def value(self, stored: StoredObject) -> bytes:
        return stored.raw or self.content(stored)[0]

    def content(self, stored: StoredObject) -> tuple[bytes, Managed]:
        if stored.raw:
            return stored.raw, stored.managed
        try:
            return row_value.split(self._file.value(stored.handle))
        except (*UNREADABLE, ValueError) as error:
            what = f"{stored.namespace}/{stored.name} at revision {stored.revision}"
            kind = ObjectDamaged if self._is_current(stored) else HistoryDamaged
            raise kind(what) from error

    def _is_current(self, stored: StoredObject) -> bool:
        tables = (table for plane in self.planes.values() for table in plane.tables.values())
        return any(table.get(stored.namespace, stored.name) is stored for table in tables)

    async def wait_for_room(self) -> None:
        if self._room is not None:
            await asyncio.shield(self._room)
        self._check()

    def _commit_soon(self, seen: int, turns: int) -> None:
        """Commit when a turn of the loop adds no row: requests that have arrived share a sync."""
        batch = self._batch
        if batch is not None and seen < len(batch.rows) and turns:
            loop = asyncio.get_running_loop()
            loop.call_soon(self._commit_soon, len(batch.rows), turns - 1)
        else:
            self._commit()

    def _commit(self) -> None:
        batch = self._batch
        if batch is None or self.broken is not None or self._room is not None:
            return
        for plane, table, event in batch.events:
            plane.tally.add(
                event.after.handle,
                table.resource,
                created=event.before is None,
                deleted=event.deleted,
            )
        with suppress(StoreFull):
            self._transact_surely(
                "commit", lambda: self._append(batch), lambda: self._finish(batch)
            )

    def _append(self, batch: _Batch) -> None:
        self._file.append(batch.rows)
        self._file.put_planes([*batch.dropped, *(each.to_row() for each in batch.planes.values())])

    def _finish(self, batch: _Batch) -> None:
        """It is on disk."""
        self._batch = None
        for plane in batch.planes.values():
            plane.committed = plane.revision
        for waiter in batch.waiters:
            if not waiter.done():  # the request may have been cancelled
                waiter.set_result(None)
        _deliver(batch)
        self._relieve_soon()

    def _relieve_soon(self) -> None:
        is_due = self._file.needs_checkpoint or self.history_bytes > HISTORY_BYTES
        if is_due and self._relief is None:
            self._relief = asyncio.get_running_loop().call_soon(self._relieve, 1)

    def _relieve(self, turns: int) -> None:
        """A checkpoint, or a step of a compaction that cannot wait as the disk may be filling. Each
        in a turn of its own: the next one resumes the requests that waited for the commit, and
        sends their responses at its end."""
        if turns:
            self._relief = asyncio.get_running_loop().call_soon(self._relieve, turns - 1)
            return
        self._relief = None
        if self.broken is not None or self._room is not None:
            return
        if self._file.needs_checkpoint:
            self._file.checkpoint()
        else:
            with suppress(StoreFull):
                self.compact_step()
        self._relieve_soon()

    def _transact(self, purpose: str, write: Callable[[], None]) -> None:
        """Commit what ``write`` does to the file. Raises StoreFull with the file as it was; after
        any other error the store is broken."""
        try:
            self._file.begin()
            write()
            self._env.fault(f"store.before-{purpose}")
            self._file.commit()
            self._env.fault(f"store.after-{purpose}")
        except apsw.FullError as error:
            self._file.rollback()
            raise StoreFull(str(error)) from error
        except BaseException as error:
            self._break(error)
            raise

    def _transact_surely(
        self, purpose: str, write: Callable[[], None], done: Callable[[], None] = lambda: None
    ) -> None:
        """As above where memory is ahead of the file: what meets a full disk is tried again until
        there is room, and nothing else is written before it."""
        try:
            self._transact(purpose, write)
        except StoreFull as error:
            self._wait_for_room(error)
            self._retry = asyncio.get_running_loop().call_later(
                ROOM_SECONDS, self._try_again, purpose, write, done
            )
            raise
        if self._room is not None:
            _log.info("the disk has room again")
            self._room.set_result(None)
            self._room = None
        done()

    def _try_again(self, purpose: str, write: Callable[[], None], done: Callable[[], None]) -> None:
        with suppress(StoreFull):
            self._transact_surely(purpose, write, done)
            self._commit()  # what was open when a compaction met the full disk

    def _wait_for_room(self, error: StoreFull) -> None:
        if self._room is None:
            _log.error("the disk is full; nothing is stored until there is room")
            self._room = asyncio.get_running_loop().create_future()
        for waiter in self._batch.waiters if self._batch is not None else ():
            if not waiter.done():
                waiter.set_exception(error)

    def _break(self, error: BaseException) -> None:
        self.broken = error
        batch, self._batch = self._batch, None
        self._file.rollback()
        for waiter in batch.waiters if batch is not None else ():
            if not waiter.done():
                waiter.set_exception(StoreBroken(f"a commit failed: {error!r}"))
        for plane in self.planes.values():
            plane.end_watches()
        if self._room is not None:
            self._room.set_result(None)
        for callback in self._failure_callbacks:
            callback()

    def _check_writable(self) -> None:
        self._check()
        if self._room is not None:
            raise StoreFull("the disk is full")

    def _check(self) -> None:
        if self.broken is not None:
            raise StoreBroken(f"a commit failed: {self.broken!r}")

    def _now(self) -> int:
        return int(self._env.now().timestamp() * 1000)

    # Compaction

    def compact_step(self) -> bool:
        self._check_writable()
        step = CompactionStep()
        self._drop_history(step)
        # Rows of a dropped plane may still wait in the open batch to be written.
        while self._garbage and self._batch is None and step.has_room():
            step.rows.append(self._garbage.popleft())
        free = self._file.free_pages()
        if not step.rows and not step.planes and not free:
            return False
        # Only what is committed: the open batch has not been written yet.
        planes = [
            PlaneRow(plane.name, plane.id, plane.committed, plane.compacted, plane.tally)
            for plane in step.planes.values()
        ]

        def remove() -> None:
            self._file.delete(step.rows)
            self._file.put_planes(planes)
            self._file.shrink(min(self._file.free_pages(), VACUUM_PAGES))

        self._transact_surely("compaction", remove)
        if not step.has_room() or self._file.free_pages():
            return True
        with suppress(apsw.FullError):
            self._file.truncate_wal()
        return False

    def _drop_history(self, step: CompactionStep) -> None:
        """All that is too old; then, of the planes with the most history, what is not recent
        while it outweighs the current objects, and whatever its age what is too much."""
        now = self._now()
        for plane in self.planes.values():
            plane.compact(now - HISTORY_SECONDS * 1000, step, COMPACTION_BYTES)
        small = max(SMALL_HISTORY_BYTES, self.live_bytes)
        much = HISTORY_BYTES
        if self.history_bytes > HISTORY_BYTES:
            # More than the excess, so that not every write is followed by a compaction.
            much = HISTORY_BYTES * 7 // 8
        for until, allowed in ((now - RECENT_SECONDS * 1000, small), (now, much)):
            for plane in sorted(self.planes.values(), key=lambda each: -each.history_bytes):
                if (excess := self.history_bytes - allowed) <= 0:
                    break
                plane.compact(until, step, excess)

    # Opening and closing

    def _load(self) -> None:
        by_id: dict[int, LogPlane] = {}
        rows = self._file.planes()
        for row in rows:
            if row.id == 0:
                self._retired[row.name] = row.revision
                continue
            self.planes[row.name] = by_id[row.id] = LogPlane(self, row)
            self._next_plane = max(self._next_plane, row.id + 1)
        for user in self._file.users():
            self.users[user.token] = StoredUser(user.name, user.groups)
        stored = {plane.id: row for row in rows if (plane := self.planes.get(row.name))}
        reached = {row.id: row.compacted for row in stored.values()}
        self._seq = self._file.last_seq
        for entry in self._file.rows():
            plane = by_id.get(entry.plane)
            if plane is None:
                self._garbage.append(entry.seq)
                # An id is not used again while rows of a dropped plane have it.
                self._next_plane = max(self._next_plane, entry.plane + 1)
                continue
            if entry.revision > plane.compacted:
                reached[entry.plane] += 1
                if entry.revision != reached[entry.plane]:
                    raise FileDamaged(f"revision {reached[entry.plane]} of plane {plane.name}")
            _replay(plane, entry)
        for number, row in stored.items():
            if (by_id[number].tally, reached[number]) != (row.tally, row.revision):
                raise FileDamaged(f"rows of plane {row.name}")

    def close(self) -> None:
        for handle in (self._relief, self._retry):
            if handle is not None:
                handle.cancel()
        for plane in self.planes.values():
            plane.end_watches()
        self._file.close()


def _replay(plane: LogPlane, entry: LogRow) -> None:
    deleted = entry.type == DELETE
    table = plane.table(entry.resource)
    before = table.get(entry.namespace, entry.name)
    try:
        raw, managed = row_value.split(entry.value)
    except ValueError as error:
        raise FileDamaged(f"row {entry.seq}") from error
    kept = not deleted and len(raw) + sum(len(each.fields) for each in managed) <= KEPT_BYTES
    after = load_stored(entry.seq, entry.revision, raw, managed, kept=kept)
    event = StoreEvent(entry.revision, before, after, deleted, entry.time)
    recorded = entry.revision > plane.compacted
    if deleted and before is None:
        raise FileDamaged(f"row {entry.seq} deletes what does not exist")
    plane.apply(table, event, recorded=recorded)
    plane.tally.add(entry.seq, entry.resource, created=before is None, deleted=deleted)
    if before is not None:
        _forget(before)


def _forget(stored: StoredObject) -> None:
    """Its content is read from the log from now on."""
    stored.raw = b""
    stored.managed = ()


def _deliver(batch: _Batch) -> None:
    for _, table, event in batch.events:
        if table.sinks:
            shared: dict[Any, bytes] = {}
            for sink in list(table.sinks.values()):
                _deliver_to(sink, event, shared)
        # On disk and delivered: from here on old content is read from the log.
        if event.before is not None:
            _forget(event.before)
        if event.deleted or event.after.size > KEPT_BYTES:
            _forget(event.after)


def _deliver_to(sink: Sink, event: StoreEvent, shared: dict[Any, bytes]) -> None:
    try:
        sink.offer(event, shared)
    except Exception:  # noqa: BLE001 - one failing watcher must not affect another
        _log.exception("watch failed", revision=event.revision)
        sink.end()
