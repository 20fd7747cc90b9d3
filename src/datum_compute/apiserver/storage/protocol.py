"""What the API server may use of its storage: records, and three protocols.

A :class:`Store` keeps planes and users. A :class:`PlaneStore` keeps one plane's objects under
one sequence of revisions. A :class:`Table` gives one resource's objects of one plane.

The life of a write: the caller reads the current state, decides, and calls
:meth:`PlaneStore.put` or :meth:`PlaneStore.remove` without any ``await`` in between. The change
is visible at once, under the plane's next revision, and the next write of the same tick builds
on it. All writes of a tick are committed together, on the next turn of the loop: all of them
or none. Then :meth:`Store.wait_durable` returns to its callers and sinks get the events in the
order of their revisions.

So the visible state may be ahead of the disk by one batch: **nothing computed from it may
leave the process before** :meth:`Store.wait_durable` **has returned**, reads included. When a
commit fails, the visible state is wrong for good: every further call raises
:class:`StoreBroken`, and the store must be opened again. When it fails only because the disk is
full, it is tried again until there is room; until then writing raises :class:`StoreFull`, and so
does waiting for what is not on disk.

Fault points: ``store.before-commit`` and ``store.after-commit`` around the commit of a batch,
``store.before-compaction`` and ``store.after-compaction`` around that of a compaction step,
``store.before-user`` and ``store.after-user`` around that of a user.

A version is read from the file only when it is proved to be what was written: an engine keeps
a checksum with every record, and enough beside them to notice that records are missing. What
cannot be proved is never served: opening raises :class:`StoreDamaged`, and reading an old
version raises :class:`HistoryDamaged`.

``tests/conformance/storage`` checks an engine against this contract.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from datum_compute.env import Environment

HISTORY_SECONDS = 300
"""How long a watch may be resumed: as long as etcd's customary compaction interval."""

RECENT_SECONDS = 30
"""History older than this is kept only while it is smaller than the current objects, or than
``SMALL_HISTORY_BYTES``: so a file that was written much stays in proportion to its content."""

SMALL_HISTORY_BYTES = 256 * 1024

KEPT_BYTES = 64 * 1024
"""Of a current object that is kept in memory; a larger one is read from the disk when it is asked
for. A guess: nearly all objects are smaller, and five hundred of 1 MB are not half a gigabyte."""

HISTORY_BYTES = 64 * 1024 * 1024
"""The history of all planes together is never larger for long, however young it is. A guess:
about 60,000 changes of small objects."""


class StoreBroken(Exception):
    """A commit failed: the visible state is not what the disk holds. Open the store again."""


class StoreFull(Exception):
    """The disk is full. What is visible and not on disk yet is written when there is room."""


class StoreRefused(Exception):
    """The stored file is of no use to this program; the message names it and says why."""


class HistoryDamaged(Exception):
    """A version that only the history has is damaged; the message names it. The current objects
    are not affected."""


class ObjectDamaged(HistoryDamaged):
    """A current object is damaged, one that is not kept in memory."""


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a stored file. What is not known is empty."""

    plane: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    problem: str
    remedy: str
    """What a repair does about it."""

    @property
    def subject(self) -> str:
        """What is damaged, in words: plane, resource (without its group) and object as far as they
        are known."""
        named = f"{self.namespace}/{self.name}" if self.namespace else self.name
        resource = self.resource.partition(".")[0]
        parts = (f"plane {self.plane}" if self.plane else "", resource, named)
        return " ".join(part for part in parts if part)

    def __str__(self) -> str:
        return f"{self.subject}: {self.problem}" if self.subject else self.problem


class StoreDamaged(StoreRefused):
    """The stored file is not what was written. Nothing of it was used."""

    def __init__(self, path: str, damages: Sequence[Damage]) -> None:
        self.damages = tuple(damages)
        shown = "; ".join(str(each) for each in self.damages[:NAMED_DAMAGES])
        more = len(self.damages) - NAMED_DAMAGES
        super().__init__(f"{path} is damaged: {shown}" + (f"; and {more} more" if more > 0 else ""))


NAMED_DAMAGES = 3
"""How many the message of :class:`StoreDamaged` names."""


ObjectKey = tuple[str, str, str]
"""Resource, namespace, name."""


class StoredUser(msgspec.Struct, frozen=True):
    """A user who presents a token."""

    name: str
    groups: tuple[str, ...]


class Owner(msgspec.Struct, frozen=True, gc=False):
    """An owner reference."""

    uid: str
    api_version: str
    kind: str
    name: str
    blocks: bool
    """blockOwnerDeletion: a foreground deletion of the owner waits for this dependent."""


class ManagedEntry(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An entry of ``managedFields``: what one manager owns of an object."""

    manager: str
    operation: str
    api_version: str
    subresource: str
    time: int | None
    """Seconds since 1970."""
    fields: bytes
    """``FieldsV1``, as JSON."""


Managed = tuple[ManagedEntry, ...]


class StoredObject(msgspec.Struct, gc=False):
    """One version of one object: its bytes, and what the server itself must know of it."""

    handle: int
    """The engine finds the bytes by it; opaque to callers."""
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
    """Empty where they are not kept in memory, as those of a superseded version or of a large
    object: then :meth:`PlaneStore.value` has them."""
    validated_by: object | None = None
    """The schema that validated this version as a whole, metadata included; None where that is
    not known, as after the store was opened."""
    size: int = 0
    """Of the bytes and of the sets of fields, wherever they are."""
    managed: Managed = ()
    """Kept in memory where ``raw`` is; :meth:`PlaneStore.content` has them in any case."""


class EncodedObject(msgspec.Struct, frozen=True, gc=False):
    """An object that was encoded before its revision was known."""

    raw: bytes
    mark: bytes
    """Stands in ``raw``, once, in place of the resourceVersion."""
    managed: Managed = ()


class StoreEvent(msgspec.Struct, frozen=True, gc=False):
    """One change of one object."""

    revision: int
    before: StoredObject | None
    after: StoredObject
    """Of a deletion: the last state, with the revision of the deletion."""
    deleted: bool
    time: int
    """Milliseconds since 1970."""


class Sink(Protocol):
    """A receiver of a table's committed events."""

    def offer(self, event: StoreEvent, shared: dict[Any, bytes]) -> None:
        """Take an event. ``shared`` is a cache for what the event's sinks have encoded."""
        ...

    def end(self) -> None:
        """The table, the plane or the server is shutting down. Removes itself."""
        ...


class Table(Protocol):
    """All objects of one resource on one plane."""

    @property
    def resource(self) -> str: ...

    def get(self, namespace: str, name: str) -> StoredObject | None: ...

    def in_order(self, namespace: str | None) -> Iterator[StoredObject]:
        """Current objects by namespace and name; None means every namespace."""
        ...

    def has_objects(self, namespace: str | None) -> bool: ...

    def since(self, revision: int) -> Sequence[StoreEvent]:
        """Events after this revision, oldest first. The caller checked that it is kept."""
        ...

    def snapshot(self, revision: int) -> Iterator[StoredObject]:
        """The objects as they were at ``revision``, in order. The caller checked that it is
        kept."""
        ...

    def add_sink(self, sink: Sink) -> None:
        """Offer it every event committed from now on."""
        ...

    def remove_sink(self, sink: Sink) -> None:
        """Does nothing for a sink that is not there."""
        ...

    def end_sinks(self) -> None: ...


class PlaneStore(Protocol):
    """One plane's objects. A request gets that of its plane only, so it reaches no other."""

    @property
    def name(self) -> str: ...

    @property
    def revision(self) -> int:
        """Of the latest change, committed or not."""
        ...

    @property
    def committed(self) -> int:
        """Of the latest change that is on disk and delivered."""
        ...

    @property
    def compacted(self) -> int:
        """History up to this revision is gone."""
        ...

    def table(self, resource: str) -> Table:
        """The table of this resource, empty if there are no objects of it."""
        ...

    def all_tables(self) -> Sequence[Table]:
        """Every table that was ever used, in a fixed order."""
        ...

    def get(self, key: ObjectKey) -> StoredObject | None: ...

    def value(self, stored: StoredObject) -> bytes:
        """As :meth:`Store.value`."""
        ...

    def content(self, stored: StoredObject) -> tuple[bytes, Managed]:
        """As :meth:`Store.content`."""
        ...

    def find_by_uid(self, uid: str) -> ObjectKey | None: ...

    def dependents_of(self, uid: str) -> Sequence[ObjectKey]:
        """The objects that name this uid as an owner, whether that exists or not, oldest reference
        first."""
        ...

    def put(
        self,
        resource: str,
        obj: dict[str, Any] | EncodedObject,
        before: StoredObject | None,
        *,
        validated_by: object | None = None,
        managed: Managed | None = None,
    ) -> StoredObject:
        """Store ``obj`` as the version after ``before`` and set its resourceVersion. Checks
        nothing. Without ``managed`` it has the entries of ``before``."""
        ...

    def remove(
        self, resource: str, obj: dict[str, Any] | EncodedObject, before: StoredObject
    ) -> StoredObject:
        """Delete; ``obj`` is the last state and gets the revision of the deletion."""
        ...

    def end_watches(self) -> None: ...


Listener = Callable[[PlaneStore, Table, StoreEvent], None]
"""Called with each change as it becomes visible, before it is committed; may write more."""


class Store(Protocol):
    """All planes and users of one server."""

    @property
    def planes(self) -> Mapping[str, PlaneStore]: ...

    @property
    def users(self) -> Mapping[bytes, StoredUser]:
        """By the hash of the token; another mapping after any change."""
        ...

    def subscribe(self, listener: Listener) -> None: ...

    def on_failure(self, callback: Callable[[], None]) -> None:
        """Call back once a commit has failed."""
        ...

    def open_plane(self, name: str) -> PlaneStore:
        """The plane of this name, created if need be. A plane created again starts above every
        revision that it or an earlier store under this name has had."""
        ...

    def drop_plane(self, name: str) -> None:
        """Delete a plane with all its objects, and end its watches."""
        ...

    def add_user(self, name: str, groups: Sequence[str], token_hash: bytes) -> None:
        """Durable on return. A user of this name before loses its token."""
        ...

    def remove_user(self, name: str) -> None:
        """Durable on return. Its token is unknown from then on."""
        ...

    @property
    def is_durable(self) -> bool:
        """Whether all that is visible now is on disk, so that nobody need wait."""
        ...

    async def wait_durable(self) -> None:
        """Return when all that is visible now is on disk. Raises StoreBroken if never, and
        StoreFull if not before there is room."""
        ...

    async def wait_for_room(self) -> None:
        """Return when the disk is not full any more. Raises StoreBroken."""
        ...

    def value(self, stored: StoredObject) -> bytes:
        """The bytes of any version that the history still has, without ``managedFields``. Raises
        HistoryDamaged."""
        ...

    def content(self, stored: StoredObject) -> tuple[bytes, Managed]:
        """The same, and the entries of its ``managedFields``."""
        ...

    def compact_step(self) -> bool:
        """Drop some of the history that is too old or too large, and return some of the free
        space to the file system. True while there is more."""
        ...

    def close(self) -> None:
        """Close the file. What was not committed is lost, as in a crash."""
        ...


class Engine(Protocol):
    """What the module of an engine offers, besides the stores it opens. It keeps everything in
    files at the path of the store, and at that path followed by a dash and a name of its own."""

    def open_store(self, env: Environment, path: str) -> Store:
        """The store at a path, created where nothing was ever stored. Raises StoreRefused."""
        ...

    def exists(self, path: str) -> bool:
        """Whether anything was ever stored at this path."""
        ...

    def check(self, path: str, *, is_backup: bool = False) -> list[Damage]:
        """Everything that is wrong with the file, or with a backup. Changes nothing, and may run
        beside an open store. Raises StoreRefused for a file that cannot be judged."""
        ...

    def repair(self, env: Environment, path: str, keep_in: str) -> list[Damage]:
        """Copy the files as they are to the new directory ``keep_in``, then remedy every damage,
        and return them. The store is not open. Each damaged object goes back to its last version
        that can be proved, or is dropped; every other one stays. Raises StoreRefused."""
        ...

    def back_up(self, path: str, target: str) -> None:
        """Write the committed state to one new file; may run beside an open store. Raises
        StoreDamaged rather than copying damage, and FileExistsError."""
        ...

    def restore(self, env: Environment, path: str, source: str) -> None:
        """Replace the state at ``path`` by that of a backup, all or nothing, under revisions
        above every earlier one. The store is not open. Raises StoreRefused for a backup that is
        damaged or none."""
        ...
