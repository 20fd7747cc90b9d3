"""The cached objects of one kind on one cluster.

A reflector fills a cache: first with a whole list (``replace``), then with one event after
the other (``apply``). Every change passes through the indexes and then to the subscribers,
each time with the object before and the object after. Readers get the stored objects
themselves and must not change them.

Events of one kind arrive in the order of their revisions, so a cache that has seen
revision 7 has seen everything up to 7; ``when_seen`` lets a writer wait for that. A live
read may put an object in early (``put_live``); older events that arrive after it are
ignored. Only a list of an older revision than one already seen replaces everything: such a server
was restored from a backup.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import partial

import msgspec

from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.api.selectors import LabelSelector
from datum_compute.client.protocol import EventType, WatchEvent
from datum_compute.runtime.cache.index import Index, IndexKeys
from datum_compute.runtime.cache.quarantine import UnreadableObjects

Objects = list[Object]

Subscriber = Callable[[Object | None, Object | None], None]
"""Called with the old object (None: created) and the new one (None: deleted)."""


class CacheState(StrEnum):
    STARTING = "Starting"
    """The first list has not been answered."""
    CURRENT = "Current"
    """A watch is open."""
    INTERRUPTED = "Interrupted"
    """The last call failed; the content is what was known before, and grows older."""
    NOT_SERVED = "NotServed"
    """The cluster does not serve the kind; retried from time to time."""
    CLOSED = "Closed"
    """The cluster was disengaged."""


class CacheExpectation(msgspec.Struct, frozen=True, gc=False):
    """Something a cache is to have seen: an object at a revision, one that is newer than a
    revision or gone, or a deleted uid."""

    namespace: str
    name: str
    resource_version: str = ""
    deleted_uid: str = ""
    newer_than: str = ""


class Cache:
    def __init__(self, resource: Resource, *, label_selector: str = "") -> None:
        self.resource = resource
        self.label_selector = label_selector
        self.synced = False
        """Whether there ever was a whole list. It stays true: stale content is kept."""
        self.state = CacheState.STARTING
        self.message = ""
        """Why the state is what it is; may be empty."""
        self.refused = False
        """Whether the last failure was an answer: the server is reachable and refuses."""
        self.lists = 0
        self.watches = 0
        """How many lists filled it, and how many watches were opened for it."""
        self.changes = 0
        """How often an object was put, replaced or dropped: while it stays, so does the content."""
        self.quarantine = UnreadableObjects()
        self.resource_version = ""
        """The revision a watch resumes from."""
        self.revision = -1
        """The same as a number; -1 while it is not known, or not a number."""
        self._matches = LabelSelector.parse(label_selector).matches if label_selector else None
        self._namespaces: dict[str, dict[str, Object]] = {}
        self._sorted: dict[str, list[str]] = {}  # names per namespace, until membership changes
        self._indexes: dict[str, Index] = {}
        self._subscribers: dict[int, Subscriber] = {}
        self._listeners: tuple[Subscriber, ...] = ()  # the same, safe to iterate while they change
        self._subscriptions = 0
        self._on_synced: list[Callable[[], None]] = []
        self._awaited: list[tuple[CacheExpectation, Callable[[], None]]] = []
        self._on_unreadable = self.quarantine.add  # one bound method for all objects
        self._gone: set[str] = set()  # uids a live read did not find, until their deletion arrives

    def __len__(self) -> int:
        return sum(len(objects) for objects in self._namespaces.values())

    def get(self, name: str, namespace: str = "") -> Object | None:
        objects = self._namespaces.get(namespace)
        return objects.get(name) if objects is not None else None

    def list(self, namespace: str = "") -> Objects:
        """Sorted by namespace and name; an empty namespace means all of them."""
        if namespace:
            return self._in(namespace)
        if len(self._namespaces) == 1:
            return self._in(next(iter(self._namespaces)))
        return [obj for name in sorted(self._namespaces) for obj in self._in(name)]

    def has_any(self, namespace: str) -> bool:
        """Whether there is an object in this namespace."""
        return namespace in self._namespaces

    def by_index(self, index: str, key: str) -> Objects:
        """Sorted by namespace and name. Raises KeyError for an unknown index."""
        return [self._namespaces[where[0]][where[1]] for where in self._indexes[index].find(key)]

    def add_index(self, name: str, keys: IndexKeys) -> None:
        """Idempotent by name: several controllers may add the same index."""
        if name in self._indexes:
            return
        index = self._indexes[name] = Index(name, keys)
        for obj in self.list():
            index.change(None, obj)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], object]:
        """Get every change, beginning with the current objects; the result ends it."""
        self._subscriptions += 1
        number = self._subscriptions
        for obj in self.list():
            subscriber(None, obj)
        self._subscribers[number] = subscriber
        self._listeners = tuple(self._subscribers.values())
        return partial(self._unsubscribe, number)

    def _unsubscribe(self, number: int) -> None:
        self._subscribers.pop(number, None)
        self._listeners = tuple(self._subscribers.values())

    async def wait_synced(self) -> None:
        """Until ``synced``, or until the cluster is disengaged."""
        if not self.synced and self.state is not CacheState.CLOSED:
            event = asyncio.Event()
            self.when_synced(event.set)
            await event.wait()

    def when_synced(self, callback: Callable[[], None]) -> None:
        """Call back once, when ``wait_synced`` would return."""
        if self.synced or self.state is CacheState.CLOSED:
            callback()
        else:
            self._on_synced.append(callback)

    def expects(self, obj: Object) -> bool:
        """Whether the watch will deliver this write: the object matches, or did until now."""
        if self._matches is None or self._matches(obj.metadata.labels):
            return True
        return self.get(obj.name, obj.namespace) is not None

    def has_seen(self, expected: CacheExpectation) -> bool:
        if self.state is CacheState.CLOSED:
            return True
        known = self.get(expected.name, expected.namespace)
        if expected.deleted_uid:
            return (
                known is None
                or known.metadata.uid != expected.deleted_uid
                or known.metadata.deleting
            )
        if expected.newer_than:
            return known is None or _is_newer(known.metadata.resource_version, expected.newer_than)
        wanted = expected.resource_version
        if known is not None and known.metadata.resource_version == wanted:
            return True
        number = revision_of(wanted)
        # Revisions that are not numbers can only be compared for equality.
        return number >= 0 and (
            self.revision >= number
            or (known is not None and revision_of(known.metadata.resource_version) >= number)
        )

    def when_seen(self, expected: CacheExpectation, callback: Callable[[], None]) -> None:
        """Call back once, when the cache has seen this (at once if it has)."""
        if self.has_seen(expected):
            callback()
        else:
            self._awaited.append((expected, callback))

    # From here on: for the reflector and the cluster that own this cache.

    def replace(self, objects: Iterable[Object], resource_version: str) -> None:
        """Replace the whole collection; objects that are not in it are delivered as deleted."""
        self._gone.clear()
        revision = revision_of(resource_version)
        restored = 0 <= revision < self.revision
        listed: set[tuple[str, str]] = set()
        for obj in objects:
            listed.add((obj.namespace, obj.name))
            self._put(obj, even_older=restored)
        for known in self.list():
            if (known.namespace, known.name) in listed:
                continue
            # A live read may have put in what was created after this list was taken.
            if not restored and 0 <= revision < revision_of(known.metadata.resource_version):
                continue
            self._drop(known)
        self._advance(resource_version)
        if not self.synced:
            self.synced = True
            self._notify_synced()

    def apply(self, event: WatchEvent) -> None:
        obj = event.object
        if event.type is EventType.DELETED:
            self._gone.discard(obj.metadata.uid)
            known = self.get(obj.name, obj.namespace)
            if known is not None and not _is_older(obj, known):
                self._drop(known)
        elif event.type is not EventType.BOOKMARK and obj.metadata.uid not in self._gone:
            self._put(obj)
        if obj.metadata.resource_version:
            self._advance(obj.metadata.resource_version)

    def put_live(self, obj: Object) -> None:
        """Put what a live read has found, ahead of the watch."""
        if self._matches is None or self._matches(obj.metadata.labels):
            self._put(obj)
        elif (known := self.get(obj.name, obj.namespace)) is not None:
            self._drop(known)
        self._notify_seen()

    def drop_live(self, name: str, namespace: str) -> None:
        """Drop what a live read has not found."""
        known = self.get(name, namespace)
        if known is not None:
            self._gone.add(known.metadata.uid)
            self._drop(known)
        self._notify_seen()

    def close(self) -> None:
        self.state = CacheState.CLOSED
        self._subscribers.clear()
        self._listeners = ()
        self._notify_synced()
        self._notify_seen()

    def _in(self, namespace: str) -> Objects:
        objects = self._namespaces.get(namespace)
        if objects is None:
            return []
        names = self._sorted.get(namespace)
        if names is None:
            names = self._sorted[namespace] = sorted(objects)
        return [objects[name] for name in names]

    def _put(self, obj: Object, *, even_older: bool = False) -> None:
        metadata = obj.metadata
        objects = self._namespaces.get(metadata.namespace)
        if objects is None:
            objects = self._namespaces[metadata.namespace] = {}
        known = objects.get(metadata.name)
        if known is None:
            self._sorted.pop(metadata.namespace, None)
        elif _is_same(obj, known) or (not even_older and _is_older(obj, known)):
            return
        obj.share(known)
        obj.on_unreadable = self._on_unreadable
        objects[metadata.name] = obj
        self._notify(known, obj)

    def _drop(self, known: Object) -> None:
        objects = self._namespaces[known.namespace]
        del objects[known.name]
        self._sorted.pop(known.namespace, None)
        if not objects:
            del self._namespaces[known.namespace]
        self._notify(known, None)

    def _notify(self, old: Object | None, new: Object | None) -> None:
        self.changes += 1
        self.quarantine.change(old, new)
        for index in self._indexes.values():
            index.change(old, new)
        for subscriber in self._listeners:
            subscriber(old, new)

    def _advance(self, resource_version: str) -> None:
        self.resource_version = resource_version
        self.revision = revision_of(resource_version)
        if self._awaited:
            self._notify_seen()

    def _notify_synced(self) -> None:
        callbacks, self._on_synced = self._on_synced, []
        for callback in callbacks:
            callback()

    def _notify_seen(self) -> None:
        awaited, self._awaited = self._awaited, []
        for expected, callback in awaited:
            if self.has_seen(expected):
                callback()
            else:
                self._awaited.append((expected, callback))


def revision_of(resource_version: str) -> int:
    """A resource version as a number, or -1 when it is not a number."""
    return int(resource_version) if resource_version.isdecimal() else -1


def _is_newer(revision: str, than: str) -> bool:
    """Revisions that are not numbers can only be compared for equality."""
    numbers = revision_of(revision), revision_of(than)
    return numbers[0] > numbers[1] if min(numbers) >= 0 else revision != than


def _is_older(obj: Object, known: Object) -> bool:
    return (
        0
        <= revision_of(obj.metadata.resource_version)
        < revision_of(known.metadata.resource_version)
    )


def _is_same(obj: Object, known: Object) -> bool:
    return (
        obj.metadata.resource_version == known.metadata.resource_version
        and obj.metadata.uid == known.metadata.uid
    )
