"""What the store keeps in memory: versions of objects, changes of them, and tables.

A version is its bytes and the few things the server itself must know of an object. It is
made in two ways that must agree: from the object at hand when it is written, and from the
bytes on the file when the store is opened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from sys import intern
from typing import Any, Protocol, TypeVar

import msgspec

T = TypeVar("T")

_NO_LABELS: dict[str, str] = {}


class Owner(msgspec.Struct, frozen=True, gc=False):
    uid: str
    api_version: str
    kind: str
    name: str
    blocks: bool
    """blockOwnerDeletion: a foreground deletion of the owner waits for this dependent."""


class StoredObject(msgspec.Struct, gc=False):
    """One version of one object: its bytes, and what the server itself must know of it."""

    seq: int
    revision: int
    namespace: str
    name: str
    uid: str
    api_version: str
    labels: dict[str, str]
    owners: tuple[Owner, ...]
    finalizers: tuple[str, ...]
    deleting: bool
    raw: bytes
    """Empty once superseded: ask :meth:`Store.value`."""
    passed: object | None = None
    """The schema that this version went through as a whole, metadata's rules included; None
    where nobody remembers, as after the store was opened."""


class StoreEvent(msgspec.Struct, frozen=True, gc=False):
    """One change of one object."""

    revision: int
    before: StoredObject | None
    after: StoredObject
    """Of a deletion: the last state, with the revision of the deletion."""
    deleted: bool
    time: int


class Sink(Protocol):
    """A watcher, as the store sees it."""

    def offer(self, event: StoreEvent, shared: dict[Any, bytes]) -> None:
        """Take an event. ``shared`` holds what other watchers already made of it."""
        ...

    def end(self) -> None:
        """The table is going away, or the server."""
        ...


class Table:
    """All objects of one resource on one plane."""

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
        """Current objects by namespace and name; None means every namespace."""
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

    def since(self, revision: int) -> list[StoreEvent]:
        """Events after this revision, oldest first."""
        found: list[StoreEvent] = []
        for event in reversed(self.history):
            if event.revision <= revision:
                break
            found.append(event)
        found.reverse()
        return found

    def __len__(self) -> int:
        return sum(map(len, self.rows.values()))

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
    seq: int,
    revision: int,
    obj: dict[str, Any],
    before: StoredObject | None = None,
    passed: object | None = None,
) -> StoredObject:
    """The version that ``obj`` is, which was made by us and is complete. What it has in common
    with the version ``before`` it is kept once: an object has many in the history."""
    raw = _encode(obj)
    metadata = obj["metadata"]
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
        seq, revision, *names, api_version, labels, owners, finalizers, deleting, raw, passed
    )


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


def load_stored(seq: int, revision: int, raw: bytes, *, kept: bool) -> StoredObject:
    """The version these bytes hold; without them, unless they are to be kept."""
    head = _decode_head(raw)
    meta = head.metadata
    return StoredObject(
        seq,
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


_encode = msgspec.json.Encoder().encode
_decode_head = msgspec.json.Decoder(_Head).decode
