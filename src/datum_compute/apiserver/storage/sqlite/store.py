"""The store: all planes, in memory for reads and in one log file on disk.

A write goes to memory and to the open batch; when a turn of the loop adds nothing to it, and
after a few turns in any case, the batch is committed in one transaction with one sync. That
wakes the requests that wait in :meth:`LogStore.wait_durable` and delivers the events.

Superseded versions and large objects keep their labels in memory, for watches that select on them,
but not their bytes; :meth:`LogStore.value` reads those back from the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from datum_compute.apiserver.storage.protocol import (
    KEPT_BYTES,
    HistoryDamaged,
    Listener,
    Managed,
    ObjectDamaged,
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
from datum_compute.apiserver.storage.sqlite.compaction import Compaction
from datum_compute.apiserver.storage.sqlite.log_file import (
    DELETE,
    UNREADABLE,
    FileDamaged,
    LogFile,
    LogRow,
    PlaneRow,
    UserRow,
    first_revision,
)
from datum_compute.apiserver.storage.sqlite.plane import Batch, LogPlane, StoreSizes
from datum_compute.apiserver.storage.sqlite.table import load_stored
from datum_compute.apiserver.storage.sqlite.transactions import Transactions
from datum_compute.env import Environment
from datum_compute.log import get_logger

BATCH_TURNS = 2
"""How many turns of the loop a batch may wait for more rows. A guess."""

_log = get_logger(__name__)


class LogStore:
    """One file, many planes, one batch at a time."""

    def __init__(self, env: Environment, path: str = ":memory:") -> None:
        self.planes: dict[str, LogPlane] = {}
        self.users: dict[bytes, StoredUser] = {}
        self.listeners: list[Listener] = []
        self._failure_callbacks: list[Callable[[], None]] = []
        self._env = env
        self._batch: Batch | None = None
        self._retired: dict[str, int] = {}  # last revisions of dropped planes
        self._next_plane = 1
        self._seq = 0
        self.sizes = StoreSizes()
        try:
            self._file = LogFile(path)
            self._transactions = Transactions(env, self._file, self._fail, self._commit)
            self._compaction = Compaction(
                env, self._file, self._transactions, self.planes, self.sizes
            )
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
        batch.garbage += plane.all_handles()
        plane.release_sizes()
        plane.end_watches()

    def add_user(self, name: str, groups: Sequence[str], token_hash: bytes) -> None:
        self._transactions.check_open()
        row = UserRow(name, tuple(groups), token_hash)
        self._transactions.run("user", lambda: self._file.put_user(row))
        self.users = {key: user for key, user in self.users.items() if user.name != name}
        self.users[token_hash] = StoredUser(name, row.groups)

    def remove_user(self, name: str) -> None:
        self._transactions.check_open()
        self._transactions.run("user", lambda: self._file.remove_user(name))
        self.users = {key: user for key, user in self.users.items() if user.name != name}

    # Writing

    def open_batch(self) -> Batch:
        """The batch that one of the next turns of the loop commits."""
        self._transactions.check_open()
        if self._batch is None:
            self._batch = Batch(int(self._env.now().timestamp() * 1000))
            asyncio.get_running_loop().call_soon(self._commit_soon, 0, BATCH_TURNS)
        return self._batch

    def next_handle(self) -> int:
        self._seq += 1
        return self._seq

    @property
    def is_durable(self) -> bool:
        return self._batch is None and self._transactions.broken is None

    async def wait_durable(self) -> None:
        if self._batch is not None:
            self._transactions.check_open()
            waiter = asyncio.get_running_loop().create_future()
            self._batch.waiters.append(waiter)
            await waiter
        self._transactions.check()

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
        await self._transactions.wait_for_room()

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
        if batch is None or not self._transactions.is_open:
            return
        for plane, table, event in batch.events:
            plane.tally.add(
                event.after.handle,
                table.resource,
                created=event.before is None,
                deleted=event.deleted,
            )
        with suppress(StoreFull):
            self._transactions.run_surely(
                "commit", lambda: self._append(batch), lambda: self._finish(batch)
            )

    def _append(self, batch: Batch) -> None:
        self._file.append(batch.rows)
        self._file.put_planes([*batch.dropped, *(each.to_row() for each in batch.planes.values())])

    def _finish(self, batch: Batch) -> None:
        """It is on disk."""
        self._batch = None
        for plane in batch.planes.values():
            plane.committed = plane.revision
        for waiter in batch.waiters:
            if not waiter.done():  # the request may have been cancelled
                waiter.set_result(None)
        _deliver(batch)
        self._compaction.garbage.extend(batch.garbage)
        self._compaction.begin_soon()

    def _fail(self, error: StoreFull | StoreBroken) -> None:
        for waiter in self._batch.waiters if self._batch is not None else ():
            if not waiter.done():
                waiter.set_exception(error)
        if isinstance(error, StoreBroken):
            self._batch = None
            for plane in self.planes.values():
                plane.end_watches()
            for callback in self._failure_callbacks:
                callback()

    def compact_step(self) -> bool:
        self._transactions.check_open()
        return self._compaction.step()

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
                self._compaction.garbage.append(entry.seq)
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
        self._compaction.close()
        self._transactions.close()
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


def _deliver(batch: Batch) -> None:
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
