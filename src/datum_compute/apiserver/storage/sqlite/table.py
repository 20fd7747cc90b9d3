"""Tables in memory, and the two ways to build a version of an object.

The two must agree: from the object when it is written (:func:`build_stored`), and from its
bytes on the file when the store is opened (:func:`load_stored`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from sys import intern
from typing import Any, TypeVar

import msgspec

from datum_compute.apiserver.codec import encode_object
from datum_compute.apiserver.storage.protocol import (
    EncodedObject,
    Managed,
    Owner,
    Sink,
    StoredObject,
    StoreEvent,
)

T = TypeVar("T")

_NO_LABELS: dict[str, str] = {}


class LogTable:
    """A table with its history and its sinks, in memory."""

    __slots__ = ("_order", "history", "resource", "rows", "sinks")

    def __init__(self, resource: str) -> None:
        self.resource = resource
        self.rows: dict[str, dict[str, StoredObject]] = {}
        """By namespace ("" for cluster-scoped kinds), then by name."""
        self.history: deque[StoreEvent] = deque()
        self.sinks: dict[int, Sink] = {}
        self._order: dict[str, list[str]] = {}

    def get(self, namespace: str, name: str) -> StoredObject | None:
        rows = self.rows.get(namespace)
        return rows.get(name) if rows else None

    def in_order(self, namespace: str | None) -> Iterator[StoredObject]:
        spaces = sorted(self.rows) if namespace is None else [namespace]
        for space in spaces:
            rows = self.rows.get(space)
            if not rows:
                continue
            order = self._order.get(space)
            if order is None:
                order = self._order[space] = sorted(rows)
            for name in order:
                yield rows[name]

    def has_objects(self, namespace: str | None) -> bool:
        return bool(self.rows if namespace is None else self.rows.get(namespace))

    def since(self, revision: int) -> list[StoreEvent]:
        found: list[StoreEvent] = []
        for event in reversed(self.history):
            if event.revision <= revision:
                break
            found.append(event)
        found.reverse()
        return found

    def snapshot(self, revision: int) -> Iterator[StoredObject]:
        changed: dict[tuple[str, str], StoredObject | None] = {}
        for event in reversed(self.history):
            if event.revision <= revision:
                break
            changed[event.after.namespace, event.after.name] = event.before
        rows = {(stored.namespace, stored.name): stored for stored in self.in_order(None)}
        for key, version in changed.items():
            if version is None:
                rows.pop(key, None)
            else:
                rows[key] = version
        return (rows[key] for key in sorted(rows))

    def add_sink(self, sink: Sink) -> None:
        self.sinks[id(sink)] = sink

    def remove_sink(self, sink: Sink) -> None:
        self.sinks.pop(id(sink), None)

    def end_sinks(self) -> None:
        for sink in list(self.sinks.values()):
            sink.end()

    def set_row(self, stored: StoredObject) -> None:
        rows = self.rows.setdefault(stored.namespace, {})
        if stored.name not in rows:
            self._order.pop(stored.namespace, None)
        rows[stored.name] = stored

    def drop_row(self, stored: StoredObject) -> None:
        rows = self.rows[stored.namespace]
        del rows[stored.name]
        self._order.pop(stored.namespace, None)
        if not rows:
            del self.rows[stored.namespace]


def build_stored(
    handle: int,
    revision: int,
    obj: dict[str, Any] | EncodedObject,
    before: StoredObject | None = None,
    validated_by: object | None = None,
    managed: Managed = (),
) -> StoredObject:
    """The version that ``obj`` is, with its revision. It shares what is equal with the version
    ``before`` it, because the history holds many versions of an object."""
    if isinstance(obj, EncodedObject):
        raw = obj.raw.replace(obj.mark, b"%d" % revision, 1)
        stored = load_stored(handle, revision, raw, obj.managed, kept=True)
        stored.validated_by = validated_by
        return stored
    metadata = obj["metadata"]
    metadata["resourceVersion"] = str(revision)
    raw = encode_object(obj)
    references = metadata.get("ownerReferences")
    labels = metadata.get("labels") or _NO_LABELS
    owners = tuple(map(_owner, references)) if references else ()
    finalizers = tuple(metadata.get("finalizers") or ())
    deleting = "deletionTimestamp" in metadata
    if before is None:
        names = metadata.get("namespace", ""), metadata["name"], metadata["uid"]
        api_version = intern(obj["apiVersion"])
        labels = {intern(key): intern(value) for key, value in labels.items()}
    else:
        names = before.namespace, before.name, before.uid
        api_version = _same(obj["apiVersion"], before.api_version)
        labels = _same(labels, before.labels)
        owners = _same(owners, before.owners)
        finalizers = _same(finalizers, before.finalizers)
    return StoredObject(
        handle,
        revision,
        *names,
        api_version,
        labels,
        owners,
        finalizers,
        deleting,
        raw,
        validated_by,
        _size(raw, managed),
        managed,
    )


def _size(raw: bytes, managed: Managed) -> int:
    return len(raw) + sum([len(each.fields) for each in managed])


def _same(new: T, known: T) -> T:
    return known if new == known else new


def _owner(reference: dict[str, Any]) -> Owner:
    return Owner(
        reference["uid"],
        reference["apiVersion"],
        reference["kind"],
        reference["name"],
        bool(reference.get("blockOwnerDeletion")),
    )


def load_stored(
    handle: int, revision: int, raw: bytes, managed: Managed, *, kept: bool
) -> StoredObject:
    """The version these bytes hold; it keeps them, and its entries, only if ``kept``."""
    head = _decode_head(raw)
    meta = head.metadata
    return StoredObject(
        handle,
        revision,
        meta.namespace,
        meta.name,
        meta.uid,
        head.api_version,
        meta.labels,
        tuple(
            Owner(o.uid, o.api_version, o.kind, o.name, o.block_owner_deletion)
            for o in meta.owner_references
        ),
        meta.finalizers,
        meta.deletion_timestamp is not None,
        raw if kept else b"",
        size=_size(raw, managed),
        managed=managed if kept else (),
    )


class _HeadOwner(msgspec.Struct, rename="camel", gc=False):
    uid: str = ""
    api_version: str = ""
    kind: str = ""
    name: str = ""
    block_owner_deletion: bool = False


class _HeadMeta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    owner_references: tuple[_HeadOwner, ...] = ()
    finalizers: tuple[str, ...] = ()
    deletion_timestamp: str | None = None


class _Head(msgspec.Struct, rename="camel"):
    metadata: _HeadMeta
    api_version: str = ""


_decode_head = msgspec.json.Decoder(_Head).decode
