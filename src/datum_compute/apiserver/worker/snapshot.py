"""A plane that has only the objects which one request depends on, and collects its write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from datum_compute.apiserver.codec import encode_object
from datum_compute.apiserver.storage.protocol import Managed, ObjectKey, StoredObject
from datum_compute.apiserver.worker.records import PendingWrite, SentRow


class SnapshotTable:
    def __init__(self, resource: str, rows: list[StoredObject], absent: set[ObjectKey]) -> None:
        self.resource = resource
        self._rows = rows
        self._absent = absent

    def get(self, namespace: str, name: str) -> StoredObject | None:
        for row in self._rows:
            if (row.namespace, row.name) == (namespace, name):
                return row
        self._absent.add((self.resource, namespace, name))
        return None

    def in_order(self, namespace: str | None) -> Iterator[StoredObject]:
        return (row for row in self._rows if namespace in (None, row.namespace))


class SnapshotPlane:
    """The part of a plane's store that writes of one object use."""

    def __init__(self, name: str, rows: tuple[SentRow, ...], mark: str) -> None:
        self.name = name
        self.write: PendingWrite | None = None
        self.absent: set[ObjectKey] = set()
        self._rows = rows
        self._mark = mark

    def table(self, resource: str) -> SnapshotTable:
        rows = [row.stored for row in self._rows if row.resource == resource]
        return SnapshotTable(resource, rows, self.absent)

    def get(self, key: ObjectKey) -> StoredObject | None:
        return self.table(key[0]).get(key[1], key[2])

    def value(self, stored: StoredObject) -> bytes:
        return stored.raw

    def content(self, stored: StoredObject) -> tuple[bytes, Managed]:
        return stored.raw, stored.managed

    def put(
        self,
        resource: str,
        obj: dict[str, Any],
        before: StoredObject | None,
        *,
        validated_by: object | None = None,
        managed: Managed | None = None,
    ) -> StoredObject:
        return self._write(obj, before, managed, is_validated=validated_by is not None)

    def remove(self, resource: str, obj: dict[str, Any], before: StoredObject) -> StoredObject:
        return self._write(obj, before, None, is_removal=True)

    def _write(
        self,
        obj: dict[str, Any],
        before: StoredObject | None,
        managed: Managed | None,
        **facts: bool,
    ) -> StoredObject:
        metadata = obj["metadata"]
        metadata["resourceVersion"] = self._mark
        raw = encode_object(obj)
        if managed is None:
            managed = before.managed if before is not None else ()
        self.write = PendingWrite(raw, managed, **facts)
        if before is not None:
            version = obj["apiVersion"]
            return msgspec.structs.replace(before, raw=raw, api_version=version, managed=managed)
        names = metadata.get("namespace", ""), metadata["name"], metadata["uid"]
        return StoredObject(
            0, 0, *names, obj["apiVersion"], {}, (), (), False, raw, managed=managed
        )
