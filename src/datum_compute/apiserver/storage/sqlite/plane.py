"""One plane in memory: its tables, its indexes and its history."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Protocol

from datum_compute.apiserver.storage.protocol import (
    EncodedObject,
    Listener,
    Managed,
    ObjectKey,
    StoredObject,
    StoreEvent,
)
from datum_compute.apiserver.storage.sqlite import row_value
from datum_compute.apiserver.storage.sqlite.checksums import row_checksum
from datum_compute.apiserver.storage.sqlite.log_file import DELETE, PUT, PlaneRow, Tally
from datum_compute.apiserver.storage.sqlite.table import LogTable, build_stored

COMPACTION_ROWS = 256
"""Rows deleted per transaction, so that no write waits long behind a compaction. A guess."""

COMPACTION_BYTES = 4 * 1024 * 1024
"""Bytes of objects deleted per transaction: SQLite reads every page of a value to free it."""


class StoreSizes:
    """Of all planes together."""

    __slots__ = ("history_bytes", "live_bytes")

    def __init__(self) -> None:
        self.live_bytes = 0
        """Of current objects."""
        self.history_bytes = 0
        """Of versions that are not current."""


class PlaneBackend(Protocol):
    """What a plane uses of its store."""

    listeners: list[Listener]
    sizes: StoreSizes

    def open_batch(self) -> Batch:
        """The batch that one of the next turns of the loop commits."""
        ...

    def next_handle(self) -> int: ...

    def value(self, stored: StoredObject) -> bytes: ...

    def content(self, stored: StoredObject) -> tuple[bytes, Managed]: ...


class LogPlane:
    """One plane's objects and indexes, in memory."""

    def __init__(self, backend: PlaneBackend, row: PlaneRow) -> None:
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
        self._backend = backend
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
        return self._backend.value(stored)

    def content(self, stored: StoredObject) -> tuple[bytes, Managed]:
        return self._backend.content(stored)

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
        batch = self._backend.open_batch()
        managed = self._managed(before) if managed is None else managed
        revision = self.revision = self.revision + 1
        handle = self._backend.next_handle()
        stored = build_stored(handle, revision, obj, before, validated_by, managed)
        event = StoreEvent(revision, before, stored, False, batch.time)
        self._record(resource, event, PUT, batch)
        return stored

    def remove(
        self, resource: str, obj: dict[str, Any] | EncodedObject, before: StoredObject
    ) -> StoredObject:
        batch = self._backend.open_batch()
        managed = self._managed(before)
        revision = self.revision = self.revision + 1
        handle = self._backend.next_handle()
        stored = build_stored(handle, revision, obj, before, managed=managed)
        self._record(
            resource, StoreEvent(revision, before, stored, True, batch.time), DELETE, batch
        )
        return stored

    def _managed(self, before: StoredObject | None) -> Managed:
        return self.content(before)[1] if before is not None else ()

    def _record(self, resource: str, event: StoreEvent, kind: int, batch: Batch) -> None:
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
        for listener in self._backend.listeners:
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
        self._backend.sizes.live_bytes += (0 if event.deleted else size) - superseded
        if recorded:
            past = superseded + (size if event.deleted else 0)
            self.history_bytes += past
            self._backend.sizes.history_bytes += past
            table.history.append(event)
            self._log.append((table, event, past))

    def compact(self, before_time: int, step: CompactionStep, most_bytes: int) -> None:
        """Drop the oldest history up to this time, and about this many bytes at most."""
        freed: list[int] = []
        compacted = self.compacted
        enough = step.bytes + most_bytes
        while self._log and step.has_room(len(freed)) and step.bytes < enough:
            table, event, past = self._log[0]
            if event.time > before_time or event.revision > self.committed:
                break
            self._log.popleft()
            table.history.popleft()
            self.compacted = event.revision
            step.bytes += past
            self.history_bytes -= past
            self._backend.sizes.history_bytes -= past
            if event.before is not None:
                freed.append(event.before.handle)
            if event.deleted:
                freed.append(event.after.handle)
        self.tally.remove(freed)
        step.rows += freed
        if self.compacted > compacted:
            # Only what is committed: the open batch has not been written yet.
            step.planes[self.name] = PlaneRow(
                self.name, self.id, self.committed, self.compacted, self.tally
            )

    def release_sizes(self) -> None:
        """Count it no longer in the sizes of the store."""
        rows = (row for table in self.tables.values() for row in table.in_order(None))
        self._backend.sizes.live_bytes -= sum(row.size for row in rows)
        self._backend.sizes.history_bytes -= self.history_bytes

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


class Batch:
    """What the next transaction of a store appends, and who waits for it."""

    __slots__ = ("dropped", "events", "garbage", "planes", "rows", "time", "waiters")

    def __init__(self, time: int) -> None:
        self.time = time
        self.rows: list[tuple[Any, ...]] = []
        self.events: list[tuple[LogPlane, LogTable, StoreEvent]] = []
        self.planes: dict[str, LogPlane] = {}
        self.dropped: list[PlaneRow] = []
        self.garbage: list[int] = []
        """The rows of dropped planes."""
        self.waiters: list[asyncio.Future[None]] = []


class CompactionStep:
    """What one transaction of a compaction removes."""

    __slots__ = ("bytes", "planes", "rows")

    def __init__(self) -> None:
        self.bytes = 0
        self.planes: dict[str, PlaneRow] = {}
        self.rows: list[int] = []

    def has_room(self, more: int = 0) -> bool:
        return len(self.rows) + more < COMPACTION_ROWS and self.bytes < COMPACTION_BYTES
