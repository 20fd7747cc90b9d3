"""The truth of all planes: in memory to read, on one file to keep.

The life of a write: the handler looks at the current state in memory, decides, and calls
:meth:`PlaneStore.put` or :meth:`PlaneStore.remove` without any ``await`` in between. That
applies the change to memory at once, with the plane's next revision, and adds it to the
open batch; the next write of the same tick already builds on it. The batch closes on the
next turn of the loop: one transaction, one sync, then everybody who waited in
:meth:`Store.durable` goes on, and watchers get the events in revision order.

So memory may be ahead of the disk by one batch, and therefore **nothing computed from
memory may leave before** :meth:`Store.durable` **has been awaited**, reads included. A
commit that fails leaves memory wrong for ever: the store declares itself broken, answers
nobody, and must be opened anew.

Versions of an object that have been superseded keep their labels in memory, for watches
that select on them, but not their content; :meth:`Store.value` reads it back from the log.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from datum_compute.apiserver.storage.sqlite import DELETE, PUT, LogFile, LogRow, PlaneRow, UserRow
from datum_compute.apiserver.storage.table import (
    Sink,
    StoredObject,
    StoreEvent,
    Table,
    build_stored,
    load_stored,
)
from datum_compute.env import Environment
from datum_compute.log import get_logger

HISTORY_SECONDS = 300
"""How long a watch may be resumed: as long as etcd's customary compaction interval."""

COMPACTION_ROWS = 256
"""Rows given up per transaction, so that no write waits long behind a compaction. A guess."""

_REVISIONS_PER_SECOND = 100_000
"""A new plane's revisions start at the clock in these units. No plane can write this fast,
so a plane or a file made again later starts above all it ever had."""

_log = get_logger(__name__)


class StoreBroken(Exception):
    """A commit failed. What memory holds is not what the disk holds; open the store anew."""


ObjectKey = tuple[str, str, str]
"""Resource, namespace, name."""


class PlaneStore:
    """One plane's objects. Handed out by the plane only, so no request can reach another's."""

    def __init__(self, store: Store, row: PlaneRow) -> None:
        self.name = row.name
        self.id = row.id
        self.type = row.type
        self.revision = row.revision
        """Of the latest change, on disk or not."""
        self.committed = row.revision
        """Of the latest change that is on disk and with the watchers."""
        self.compacted = row.compacted
        self.tables: dict[str, Table] = {}
        self.uids: dict[str, ObjectKey] = {}
        self.dependents: dict[str, dict[ObjectKey, None]] = {}
        """By the uid of the owner, whether that exists or not; in order of arrival."""
        self._store = store
        self._log: deque[tuple[Table, StoreEvent]] = deque()

    def table(self, resource: str) -> Table:
        table = self.tables.get(resource)
        if table is None:
            table = self.tables[resource] = Table(resource)
        return table

    def get(self, key: ObjectKey) -> StoredObject | None:
        table = self.tables.get(key[0])
        return table.get(key[1], key[2]) if table else None

    def put(
        self,
        table: Table,
        obj: dict[str, Any],
        before: StoredObject | None,
        *,
        passed: object | None = None,
    ) -> StoredObject:
        """Store ``obj`` as the next version; sets its resourceVersion. Caller checked all else,
        with the schema ``passed`` if that is given."""
        batch = self._store.open_batch()
        metadata = obj["metadata"]
        revision = self.revision = self.revision + 1
        metadata["resourceVersion"] = str(revision)
        stored = build_stored(self._store.next_seq(), revision, obj, before, passed)
        self._apply(table, StoreEvent(revision, before, stored, False, batch.time), PUT, batch)
        return stored

    def remove(self, table: Table, obj: dict[str, Any], before: StoredObject) -> StoredObject:
        """Delete; ``obj`` is the last state and gets the revision of the deletion."""
        batch = self._store.open_batch()
        revision = self.revision = self.revision + 1
        obj["metadata"]["resourceVersion"] = str(revision)
        stored = build_stored(self._store.next_seq(), revision, obj, before)
        self._apply(table, StoreEvent(revision, before, stored, True, batch.time), DELETE, batch)
        return stored

    def _apply(self, table: Table, event: StoreEvent, kind: int, batch: _Batch) -> None:
        self.absorb(table, event)
        after = event.after
        batch.rows.append(
            (
                after.seq,
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

    def absorb(self, table: Table, event: StoreEvent, *, recorded: bool = True) -> None:
        """Make the change in memory: rows, indexes and, if ``recorded``, history."""
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

    def snapshot(self, table: Table, revision: int) -> Iterator[StoredObject]:
        """The table as it was at ``revision``, in order. Caller checked that it is kept."""
        changed: dict[tuple[str, str], StoredObject | None] = {}
        for event in reversed(table.history):
            if event.revision <= revision:
                break
            changed[event.after.namespace, event.after.name] = event.before
        rows = {(stored.namespace, stored.name): stored for stored in table.in_order(None)}
        for key, version in changed.items():
            if version is None:
                rows.pop(key, None)
            else:
                rows[key] = version
        return (rows[key] for key in sorted(rows))

    def forget(self, before_time: int, limit: int) -> list[int]:
        """Drop the oldest history up to this time; give the rows nobody needs any more."""
        freed: list[int] = []
        while self._log and len(freed) < limit:
            table, event = self._log[0]
            if event.time > before_time or event.revision > self.committed:
                break
            self._log.popleft()
            table.history.popleft()
            self.compacted = event.revision
            if event.before is not None:
                freed.append(event.before.seq)
            if event.deleted:
                freed.append(event.after.seq)
        return freed

    def all_seqs(self) -> list[int]:
        """Every row of this plane on the file."""
        seqs = {s.seq for table in self.tables.values() for s in table.in_order(None)}
        for _, event in self._log:
            seqs.add(event.after.seq)
            if event.before is not None:
                seqs.add(event.before.seq)
        return sorted(seqs)

    def to_row(self) -> PlaneRow:
        return PlaneRow(self.name, self.id, self.type, self.revision, self.compacted)

    def end_watches(self) -> None:
        for table in self.tables.values():
            for sink in list(table.sinks.values()):
                sink.end()


class _Batch:
    __slots__ = ("dropped", "events", "planes", "rows", "time", "waiters")

    def __init__(self, time: int) -> None:
        self.time = time
        self.rows: list[tuple[Any, ...]] = []
        self.events: list[tuple[PlaneStore, Table, StoreEvent]] = []
        self.planes: dict[str, PlaneStore] = {}
        self.dropped: list[PlaneRow] = []
        self.waiters: list[asyncio.Future[None]] = []


Listener = Callable[[PlaneStore, Table, StoreEvent], None]
"""Told of each change as it is applied to memory, before it is on disk; may write more."""


class Store:
    """One file, many planes, one batch at a time."""

    def __init__(self, env: Environment, path: str = ":memory:", *, vfs: str | None = None) -> None:
        self.broken: BaseException | None = None
        self.planes: dict[str, PlaneStore] = {}
        self.users: dict[bytes, UserRow] = {}
        """By the hash of the token."""
        self.listeners: list[Listener] = []
        self.failure_listeners: list[Callable[[], None]] = []
        """Told when a commit has failed."""
        self._env = env
        self._batch: _Batch | None = None
        self._garbage: deque[int] = deque()
        self._retired: dict[str, int] = {}  # last revisions of dropped planes
        self._next_plane = 1
        self._seq = 0
        self._file = LogFile(path, vfs=vfs)
        self._load()

    # Planes and users

    def open_plane(self, name: str, plane_type: str) -> PlaneStore:
        """The plane of this name, made if need be."""
        plane = self.planes.get(name)
        if plane is None:
            start = int(self._env.now().timestamp() * _REVISIONS_PER_SECOND)
            start = max(start, self._retired.pop(name, 0))
            plane = PlaneStore(self, PlaneRow(name, self._next_plane, plane_type, start, start))
            self._next_plane += 1
            self.planes[name] = plane
            self.open_batch().planes[name] = plane
        return plane

    def drop_plane(self, name: str) -> None:
        """Forget a plane and all it held, except how far its revisions had come."""
        plane = self.planes.pop(name)
        batch = self.open_batch()
        batch.planes.pop(name, None)
        self._retired[name] = plane.revision
        batch.dropped.append(PlaneRow(name, 0, plane.type, plane.revision, plane.revision))
        self._garbage.extend(plane.all_seqs())
        plane.end_watches()

    def add_user(self, name: str, groups: tuple[str, ...], token_hash: bytes) -> None:
        """Durable on return. A user of this name before loses its token."""
        self._check()
        row = UserRow(name, groups, token_hash)
        self._file.begin()
        self._file.put_user(row)
        self._file.commit()
        self.users = {key: user for key, user in self.users.items() if user.name != name}
        self.users[token_hash] = row

    # Writing

    def open_batch(self) -> _Batch:
        """The batch that the next turn of the loop commits."""
        if self._batch is None:
            self._check()
            self._batch = _Batch(self._now())
            asyncio.get_running_loop().call_soon(self._commit)
        return self._batch

    def next_seq(self) -> int:
        self._seq += 1
        return self._seq

    async def wait_durable(self) -> None:
        """Return when all that memory holds now is on disk. Raises StoreBroken if never."""
        if self._batch is not None:
            waiter = asyncio.get_running_loop().create_future()
            self._batch.waiters.append(waiter)
            await waiter
        self._check()

    def value(self, stored: StoredObject) -> bytes:
        """The object's bytes, from memory or, once superseded, from the log."""
        return stored.raw or self._file.value(stored.seq)

    def _commit(self) -> None:
        batch = self._batch
        if batch is None or self.broken is not None:
            return
        try:
            self._write(batch)
        except BaseException as error:
            self._break(batch, error)
            raise
        self._batch = None
        for plane in batch.planes.values():
            plane.committed = plane.revision
        for waiter in batch.waiters:
            if not waiter.done():  # its request may have been cancelled
                waiter.set_result(None)
        _deliver(batch)

    def _write(self, batch: _Batch) -> None:
        self._file.begin()
        self._file.append(batch.rows)
        self._file.put_planes([*batch.dropped, *(each.to_row() for each in batch.planes.values())])
        self._env.fault("store.before-commit")
        self._file.commit()
        self._env.fault("store.after-commit")

    def _break(self, batch: _Batch, error: BaseException) -> None:
        self.broken = error
        self._batch = None
        for waiter in batch.waiters:
            if not waiter.done():
                waiter.set_exception(StoreBroken(f"a commit failed: {error!r}"))
        for plane in self.planes.values():
            plane.end_watches()
        for listener in self.failure_listeners:
            listener()

    def _check(self) -> None:
        if self.broken is not None:
            raise StoreBroken(f"a commit failed: {self.broken!r}")

    def _now(self) -> int:
        return int(self._env.now().timestamp() * 1000)

    # Compaction

    def compact_step(self) -> bool:
        """Give up one step's worth of old history. True while there is more to do."""
        self._check()
        horizon = self._now() - HISTORY_SECONDS * 1000
        freed: list[int] = []
        touched: list[PlaneStore] = []
        for plane in self.planes.values():
            mark = plane.compacted
            freed += plane.forget(horizon, COMPACTION_ROWS - len(freed))
            if plane.compacted != mark:
                touched.append(plane)
            if len(freed) >= COMPACTION_ROWS:
                break
        # Rows of a dropped plane may still wait in the open batch to be written.
        while self._garbage and self._batch is None and len(freed) < COMPACTION_ROWS:
            freed.append(self._garbage.popleft())
        if not freed and not touched:
            return False
        self._file.begin()
        self._file.delete(freed)
        # Only what is committed: the open batch has not been written yet.
        self._file.put_planes(
            PlaneRow(plane.name, plane.id, plane.type, plane.committed, plane.compacted)
            for plane in touched
            if plane.id
        )
        self._file.commit()
        self._file.shrink(COMPACTION_ROWS)
        return len(freed) >= COMPACTION_ROWS

    # Opening and closing

    def _load(self) -> None:
        by_id: dict[int, PlaneStore] = {}
        for row in self._file.planes():
            if row.id == 0:
                self._retired[row.name] = row.revision
                continue
            self.planes[row.name] = by_id[row.id] = PlaneStore(self, row)
            self._next_plane = max(self._next_plane, row.id + 1)
        for user in self._file.users():
            self.users[user.token] = user
        for entry in self._file.rows():
            self._seq = entry.seq
            plane = by_id.get(entry.plane)
            if plane is None:
                self._garbage.append(entry.seq)
                # Ids of dropped planes are never given out again while rows carry them.
                self._next_plane = max(self._next_plane, entry.plane + 1)
            else:
                _replay(plane, entry)

    def close(self) -> None:
        """Let go of the file. Whatever was not committed is lost, as it would be in a crash."""
        for plane in self.planes.values():
            plane.end_watches()
        self._file.close()


def _replay(plane: PlaneStore, entry: LogRow) -> None:
    deleted = entry.type == DELETE
    table = plane.table(entry.resource)
    before = table.get(entry.namespace, entry.name)
    after = load_stored(entry.seq, entry.revision, entry.value, kept=not deleted)
    event = StoreEvent(entry.revision, before, after, deleted, entry.time)
    plane.absorb(table, event, recorded=entry.revision > plane.compacted)
    if before is not None:
        before.raw = b""


def _deliver(batch: _Batch) -> None:
    for _, table, event in batch.events:
        if table.sinks:
            shared: dict[Any, bytes] = {}
            for sink in list(table.sinks.values()):
                _offer(sink, event, shared)
        # On disk and with everybody: from here on the log answers for old content.
        if event.before is not None:
            event.before.raw = b""
        if event.deleted:
            event.after.raw = b""


def _offer(sink: Sink, event: StoreEvent, shared: dict[Any, bytes]) -> None:
    try:
        sink.offer(event, shared)
    except Exception:  # noqa: BLE001 - one watcher's form of an event must not cost another's
        _log.exception("a watch failed", revision=event.revision)
        sink.end()
