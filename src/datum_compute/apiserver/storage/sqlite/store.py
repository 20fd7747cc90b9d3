"""The store: all planes, in memory for reads and in one log file on disk.

A write goes to memory and to the open batch; the next turn of the loop commits the batch in
one transaction with one sync, then wakes the requests that wait in
:meth:`LogStore.wait_durable` and delivers the events.

Superseded versions keep their labels in memory, for watches that select on them, but not their
bytes; :meth:`LogStore.value` reads those back from the log.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from datum_compute.apiserver.storage.protocol import (
    HISTORY_SECONDS,
    Listener,
    ObjectKey,
    Sink,
    StoreBroken,
    StoredObject,
    StoredUser,
    StoreEvent,
)
from datum_compute.apiserver.storage.sqlite.log_file import (
    DELETE,
    PUT,
    LogFile,
    LogRow,
    PlaneRow,
    UserRow,
)
from datum_compute.apiserver.storage.sqlite.table import LogTable, build_stored, load_stored
from datum_compute.env import Environment
from datum_compute.log import get_logger

COMPACTION_ROWS = 256
"""Rows deleted per transaction, so that no write waits long behind a compaction. A guess."""

_REVISIONS_PER_SECOND = 100_000
"""A new plane's revisions start at the clock in these units. No plane can write this fast,
so a plane or file that is created again starts above all its earlier revisions."""

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
        self._store = store
        self._log: deque[tuple[LogTable, StoreEvent]] = deque()

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

    def find_by_uid(self, uid: str) -> ObjectKey | None:
        return self.uids.get(uid)

    def dependents_of(self, uid: str) -> tuple[ObjectKey, ...]:
        return tuple(self.dependents.get(uid, ()))

    def put(
        self,
        resource: str,
        obj: dict[str, Any],
        before: StoredObject | None,
        *,
        validated_by: object | None = None,
    ) -> StoredObject:
        batch = self._store.open_batch()
        metadata = obj["metadata"]
        revision = self.revision = self.revision + 1
        metadata["resourceVersion"] = str(revision)
        stored = build_stored(self._store.next_handle(), revision, obj, before, validated_by)
        event = StoreEvent(revision, before, stored, False, batch.time)
        self._record(resource, event, PUT, batch)
        return stored

    def remove(self, resource: str, obj: dict[str, Any], before: StoredObject) -> StoredObject:
        batch = self._store.open_batch()
        revision = self.revision = self.revision + 1
        obj["metadata"]["resourceVersion"] = str(revision)
        stored = build_stored(self._store.next_handle(), revision, obj, before)
        self._record(
            resource, StoreEvent(revision, before, stored, True, batch.time), DELETE, batch
        )
        return stored

    def _record(self, resource: str, event: StoreEvent, kind: int, batch: _Batch) -> None:
        table = self.table(resource)
        self.apply(table, event)
        after = event.after
        batch.rows.append(
            (
                after.handle,
                self.id,
                after.revision,
                table.resource,
                after.namespace,
                after.name,
                kind,
                batch.time,
                after.raw,
            )
        )
        batch.events.append((self, table, event))
        batch.planes[self.name] = self
        for listener in self._store.listeners:
            listener(self, table, event)

    def apply(self, table: LogTable, event: StoreEvent, *, recorded: bool = True) -> None:
        """Apply a change to memory: rows, indexes and, if ``recorded``, history."""
        before, after = event.before, event.after
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
        if recorded:
            table.history.append(event)
            self._log.append((table, event))

    def compact(self, before_time: int, limit: int) -> list[int]:
        """Drop the oldest history up to this time. Returns the rows that nothing refers to any
        more."""
        freed: list[int] = []
        while self._log and len(freed) < limit:
            table, event = self._log[0]
            if event.time > before_time or event.revision > self.committed:
                break
            self._log.popleft()
            table.history.popleft()
            self.compacted = event.revision
            if event.before is not None:
                freed.append(event.before.handle)
            if event.deleted:
                freed.append(event.after.handle)
        return freed

    def all_handles(self) -> list[int]:
        """Every row of this plane on the file."""
        handles = {s.handle for table in self.tables.values() for s in table.in_order(None)}
        for _, event in self._log:
            handles.add(event.after.handle)
            if event.before is not None:
                handles.add(event.before.handle)
        return sorted(handles)

    def to_row(self) -> PlaneRow:
        return PlaneRow(self.name, self.id, self.revision, self.compacted)

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
        self._file = LogFile(path)
        self._load()

    def subscribe(self, listener: Listener) -> None:
        self.listeners.append(listener)

    def on_failure(self, callback: Callable[[], None]) -> None:
        self._failure_callbacks.append(callback)

    # Planes and users

    def open_plane(self, name: str) -> LogPlane:
        plane = self.planes.get(name)
        if plane is None:
            start = int(self._env.now().timestamp() * _REVISIONS_PER_SECOND)
            start = max(start, self._retired.pop(name, 0))
            plane = LogPlane(self, PlaneRow(name, self._next_plane, start, start))
            self._next_plane += 1
            self.planes[name] = plane
            self.open_batch().planes[name] = plane
        return plane

    def drop_plane(self, name: str) -> None:
        plane = self.planes.pop(name)
        batch = self.open_batch()
        batch.planes.pop(name, None)
        self._retired[name] = plane.revision
        batch.dropped.append(PlaneRow(name, 0, plane.revision, plane.revision))
        self._garbage.extend(plane.all_handles())
        plane.end_watches()

    def add_user(self, name: str, groups: Sequence[str], token_hash: bytes) -> None:
        self._check()
        row = UserRow(name, tuple(groups), token_hash)
        self._transact("user", lambda: self._file.put_user(row))
        self.users = {key: user for key, user in self.users.items() if user.name != name}
        self.users[token_hash] = StoredUser(name, row.groups)

    def remove_user(self, name: str) -> None:
        self._check()
        self._transact("user", lambda: self._file.remove_user(name))
        self.users = {key: user for key, user in self.users.items() if user.name != name}

    # Writing

    def open_batch(self) -> _Batch:
        """The batch that the next turn of the loop commits."""
        if self._batch is None:
            self._check()
            self._batch = _Batch(self._now())
            asyncio.get_running_loop().call_soon(self._commit)
        return self._batch

    def next_handle(self) -> int:
        self._seq += 1
        return self._seq

    async def wait_durable(self) -> None:
        if self._batch is not None:
            waiter = asyncio.get_running_loop().create_future()
            self._batch.waiters.append(waiter)
            await waiter
        self._check()

    def value(self, stored: StoredObject) -> bytes:
        return stored.raw or self._file.value(stored.handle)

    def _commit(self) -> None:
        batch = self._batch
        if batch is None or self.broken is not None:
            return
        self._transact("commit", lambda: self._append(batch))
        self._batch = None
        for plane in batch.planes.values():
            plane.committed = plane.revision
        for waiter in batch.waiters:
            if not waiter.done():  # the request may have been cancelled
                waiter.set_result(None)
        _deliver(batch)

    def _append(self, batch: _Batch) -> None:
        self._file.append(batch.rows)
        self._file.put_planes([*batch.dropped, *(each.to_row() for each in batch.planes.values())])

    def _transact(self, purpose: str, write: Callable[[], None]) -> None:
        """Commit what ``write`` does to the file; if that fails, the store is broken."""
        try:
            self._file.begin()
            write()
            self._env.fault(f"store.before-{purpose}")
            self._file.commit()
            self._env.fault(f"store.after-{purpose}")
        except BaseException as error:
            self._break(error)
            raise

    def _break(self, error: BaseException) -> None:
        self.broken = error
        batch, self._batch = self._batch, None
        self._file.rollback()
        for waiter in batch.waiters if batch is not None else ():
            if not waiter.done():
                waiter.set_exception(StoreBroken(f"a commit failed: {error!r}"))
        for plane in self.planes.values():
            plane.end_watches()
        for callback in self._failure_callbacks:
            callback()

    def _check(self) -> None:
        if self.broken is not None:
            raise StoreBroken(f"a commit failed: {self.broken!r}")

    def _now(self) -> int:
        return int(self._env.now().timestamp() * 1000)

    # Compaction

    def _drop_history(self, handles: Sequence[int], planes: Sequence[PlaneRow]) -> None:
        self._file.delete(handles)
        self._file.put_planes(planes)

    def compact_step(self) -> bool:
        self._check()
        horizon = self._now() - HISTORY_SECONDS * 1000
        freed: list[int] = []
        touched: list[LogPlane] = []
        for plane in self.planes.values():
            mark = plane.compacted
            freed += plane.compact(horizon, COMPACTION_ROWS - len(freed))
            if plane.compacted != mark:
                touched.append(plane)
            if len(freed) >= COMPACTION_ROWS:
                break
        # Rows of a dropped plane may still wait in the open batch to be written.
        while self._garbage and self._batch is None and len(freed) < COMPACTION_ROWS:
            freed.append(self._garbage.popleft())
        if not freed and not touched:
            return False
        # Only what is committed: the open batch has not been written yet.
        planes = [
            PlaneRow(plane.name, plane.id, plane.committed, plane.compacted) for plane in touched
        ]
        self._transact("compaction", lambda: self._drop_history(freed, planes))
        self._file.shrink(COMPACTION_ROWS)
        return len(freed) >= COMPACTION_ROWS

    # Opening and closing

    def _load(self) -> None:
        by_id: dict[int, LogPlane] = {}
        for row in self._file.planes():
            if row.id == 0:
                self._retired[row.name] = row.revision
                continue
            self.planes[row.name] = by_id[row.id] = LogPlane(self, row)
            self._next_plane = max(self._next_plane, row.id + 1)
        for user in self._file.users():
            self.users[user.token] = StoredUser(user.name, user.groups)
        for entry in self._file.rows():
            self._seq = entry.seq
            plane = by_id.get(entry.plane)
            if plane is None:
                self._garbage.append(entry.seq)
                # An id is not used again while rows of a dropped plane have it.
                self._next_plane = max(self._next_plane, entry.plane + 1)
            else:
                _replay(plane, entry)

    def close(self) -> None:
        for plane in self.planes.values():
            plane.end_watches()
        self._file.close()


def _replay(plane: LogPlane, entry: LogRow) -> None:
    deleted = entry.type == DELETE
    table = plane.table(entry.resource)
    before = table.get(entry.namespace, entry.name)
    after = load_stored(entry.seq, entry.revision, entry.value, kept=not deleted)
    event = StoreEvent(entry.revision, before, after, deleted, entry.time)
    plane.apply(table, event, recorded=entry.revision > plane.compacted)
    if before is not None:
        before.raw = b""


def _deliver(batch: _Batch) -> None:
    for _, table, event in batch.events:
        if table.sinks:
            shared: dict[Any, bytes] = {}
            for sink in list(table.sinks.values()):
                _deliver_to(sink, event, shared)
        # On disk and delivered: from here on old content is read from the log.
        if event.before is not None:
            event.before.raw = b""
        if event.deleted:
            event.after.raw = b""


def _deliver_to(sink: Sink, event: StoreEvent, shared: dict[Any, bytes]) -> None:
    try:
        sink.offer(event, shared)
    except Exception:  # noqa: BLE001 - one failing watcher must not affect another
        _log.exception("watch failed", revision=event.revision)
        sink.end()
