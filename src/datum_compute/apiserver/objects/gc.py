"""Garbage collection, and deletion of the content of namespaces and definitions.

Every change in the store may queue items: dependents whose owners are deleted, owners that wait
for their dependents (foreground) or release them (orphan), namespaces and definitions whose
content is deleted first. Items are processed in order, in slices, after the writes that caused
them. Processing is idempotent and reads the current state, so an item may be queued twice or
without need, and after a restart one scan queues what a crash interrupted.

An owner is the object of that uid on the same plane, in the dependent's namespace or
cluster-scoped. Anything else counts as absent, as upstream.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from datum_compute.apiserver import errors
from datum_compute.apiserver.kinds import builtin_rules
from datum_compute.apiserver.kinds.served_kind import ServedKind
from datum_compute.apiserver.objects import object_meta
from datum_compute.apiserver.objects.lifecycle import DeleteOptions
from datum_compute.apiserver.objects.planes import Plane, PlaneRegistry
from datum_compute.apiserver.storage.protocol import (
    ObjectKey,
    Owner,
    PlaneStore,
    Store,
    StoredObject,
    StoreEvent,
    Table,
)
from datum_compute.log import get_logger

SLICE = 100
"""Objects deleted before other work gets a turn. A guess: some ten milliseconds of work."""

_log = get_logger(__name__)


class _Item(msgspec.Struct, frozen=True, gc=False):
    """An item of the queue."""

    task: str
    """object: delete it if its owners are deleted; owner: finish its deletion (its uid is the
    key); namespace and definition: delete the content; names: serve definitions of the group
    that wait for one."""
    plane: str
    key: tuple[str, ...]


class GarbageCollector:
    """Garbage collection and namespace deletion on all planes."""

    def __init__(self, store: Store, planes: PlaneRegistry) -> None:
        self._store = store
        self._planes = planes
        self._queue: dict[_Item, None] = {}
        self._wake = asyncio.Event()
        store.subscribe(self._on_change)
        store.on_failure(self._wake.set)

    async def wait(self) -> None:
        """Return when an item is queued, or the store is broken."""
        await self._wake.wait()

    async def drain(self) -> None:
        """Process until the queue is empty, yielding to requests in between. Raises StoreBroken."""
        await self._store.wait_durable()
        while self._queue:
            for _ in range(min(SLICE, len(self._queue))):
                item = next(iter(self._queue))
                del self._queue[item]
                self._process(item)
            await self._store.wait_durable()
            await asyncio.sleep(0)
        self._wake.clear()

    def scan(self) -> None:
        """Queue everything that may need work, as after a restart."""
        for plane in self._planes.all():
            for table in plane.store.all_tables():
                for stored in table.in_order(None):
                    self._enqueue(plane.store, table, stored)
            for name in sorted(plane.registry.refused):
                self._add("names", plane.store, (_group_of(name),))

    def _on_change(self, plane: PlaneStore, table: Table, event: StoreEvent) -> None:
        after = event.after
        if event.deleted:
            self._on_removal(plane, table, after)
        elif after.owners or after.deleting:
            before = event.before
            if before is None or before.owners != after.owners or after.deleting:
                self._enqueue(plane, table, after)

    def _on_removal(self, plane: PlaneStore, table: Table, gone: StoredObject) -> None:
        for key in plane.dependents_of(gone.uid):
            self._add("object", plane, key)
        for owner in gone.owners:
            self._add("owner", plane, (owner.uid,))
        if gone.namespace:
            namespace = plane.get((builtin_rules.NAMESPACES, "", gone.namespace))
            if namespace is not None and namespace.deleting:
                self._add("namespace", plane, (gone.namespace,))
        if table.resource == builtin_rules.CRDS:
            self._add("names", plane, (_group_of(gone.name),))
        definition = plane.get((builtin_rules.CRDS, "", table.resource))
        if definition is not None and definition.deleting:
            self._add("definition", plane, (table.resource,))

    def _enqueue(self, plane: PlaneStore, table: Table, stored: StoredObject) -> None:
        key = (table.resource, stored.namespace, stored.name)
        for owner in stored.owners:
            held = _owner_of(plane, stored, owner)
            if held is None or object_meta.FOREGROUND in held.finalizers:
                self._add("object", plane, key)
        if not stored.deleting:
            return
        if object_meta.FOREGROUND in stored.finalizers or object_meta.ORPHAN in stored.finalizers:
            self._add("owner", plane, (stored.uid,))
        if table.resource == builtin_rules.NAMESPACES:
            self._add("namespace", plane, (stored.name,))
        elif table.resource == builtin_rules.CRDS:
            self._add("definition", plane, (stored.name,))

    def _add(self, task: str, plane: PlaneStore, key: tuple[str, ...]) -> None:
        self._queue[_Item(task, plane.name, key)] = None
        self._wake.set()

    def _process(self, item: _Item) -> None:
        plane = self._planes.get(item.plane)
        if plane is None:
            return
        try:
            match item.task:
                case "object":
                    self._collect_object(plane, (item.key[0], item.key[1], item.key[2]))
                case "owner":
                    self._finish_owner(plane, item.key[0])
                case "namespace":
                    self._empty_namespace(plane, item.key[0])
                case "names":
                    self._accept_names(plane, item.key[0])
                case _:
                    self._empty_definition(plane, item.key[0])
        except errors.ApiError as error:
            # The object is as it was; the next change to it, or a restart, queues it again.
            _log.error(
                "garbage collection failed",
                plane=item.plane,
                task=item.task,
                key="/".join(item.key),
                error=error.message,
            )

    def _collect_object(self, plane: Plane, key: ObjectKey) -> None:
        stored = plane.store.get(key)
        kind = plane.registry.any_version(key[0])
        if stored is None or kind is None or stored.deleting or not stored.owners:
            return
        present, waiting = set(), False
        for owner in stored.owners:
            held = _owner_of(plane.store, stored, owner)
            if held is None:
                continue
            if held.deleting and object_meta.FOREGROUND in held.finalizers:
                waiting = True
            else:
                present.add(owner.uid)
        if len(present) == len({owner.uid for owner in stored.owners}):
            return
        if present:
            _keep_owners(plane, kind, stored, present)
        else:
            how = _propagation(plane.store, stored, waiting)
            plane.writer.delete(kind, stored, DeleteOptions(how, uid=stored.uid))

    def _finish_owner(self, plane: Plane, uid: str) -> None:
        key = plane.store.find_by_uid(uid)
        stored = plane.store.get(key) if key else None
        kind = plane.registry.any_version(key[0]) if key else None
        if stored is None or kind is None or not stored.deleting:
            return
        dependents = plane.store.dependents_of(uid)
        if object_meta.ORPHAN in stored.finalizers:
            for each in dependents:
                _orphan(plane, each, uid)
            _drop_finalizer(plane, kind, stored, object_meta.ORPHAN)
        elif object_meta.FOREGROUND in stored.finalizers:
            for each in dependents:
                self._add("object", plane.store, each)
            if not any(_blocks(plane.store, each, uid) for each in dependents):
                _drop_finalizer(plane, kind, stored, object_meta.FOREGROUND)

    def _empty_namespace(self, plane: Plane, name: str) -> None:
        stored = plane.store.get((builtin_rules.NAMESPACES, "", name))
        kind = plane.registry.any_version(builtin_rules.NAMESPACES)
        if stored is None or kind is None or not stored.deleting:
            return
        left = [table for table in plane.store.all_tables() if table.has_objects(name)]
        for table in left:
            self._empty(plane, table, name, ("namespace", name))
        old = plane.writer.read(kind, stored)
        rows = {table.resource: list(table.in_order(name)) for table in left}
        rows = {resource: found for resource, found in rows.items() if found}
        if rows:
            # Said once all that is left waits for finalizers, not after each slice of many.
            if all(row.deleting for found in rows.values() for row in found):
                status = dict(old.get("status") or {})
                held = status.get("conditions") or []
                status["conditions"] = deletion_conditions(held, rows, plane.writer.timestamp())
                new = {**old, "metadata": dict(old["metadata"]), "status": status}
                plane.writer.store_change(kind, stored, old, new)
            return
        spec = dict(old.get("spec") or {})
        spec["finalizers"] = [
            one for one in spec.get("finalizers") or () if one != builtin_rules.NAMESPACE_CLEANUP
        ]
        new = {**old, "metadata": dict(old["metadata"]), "spec": spec}
        plane.writer.store_change(kind, stored, old, new)

    def _empty_definition(self, plane: Plane, name: str) -> None:
        stored = plane.store.get((builtin_rules.CRDS, "", name))
        kind = plane.registry.any_version(builtin_rules.CRDS)
        if stored is None or kind is None or not stored.deleting:
            return
        table = plane.store.table(name)
        if table.has_objects(None):
            self._empty(plane, table, None, ("definition", name))
        else:
            _drop_finalizer(plane, kind, stored, builtin_rules.CRD_CLEANUP)

    def _accept_names(self, plane: Plane, group: str) -> None:
        """Names of the group are free again: definitions that want them are served."""
        kind = plane.registry.builtin(builtin_rules.CRDS)
        for name in sorted(plane.registry.refused):
            stored = plane.store.get((builtin_rules.CRDS, "", name))
            if stored is not None and not stored.deleting and _group_of(name) == group:
                plane.writer.replace(kind, stored, plane.writer.read(kind, stored))

    def _empty(
        self, plane: Plane, table: Table, namespace: str | None, again: tuple[str, str]
    ) -> None:
        """Delete one slice of a table's objects, and queue the item again while there are more."""
        kind = plane.registry.any_version(table.resource)
        if kind is None:
            return
        remaining = [row for row in table.in_order(namespace) if not row.deleting]
        for row in remaining[:SLICE]:
            plane.writer.delete(kind, row, DeleteOptions("Background", uid=row.uid))
        if len(remaining) > SLICE:
            self._add(again[0], plane.store, (again[1],))


_FINE = (
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources are discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All group versions are parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content is deleted, and may wait for finalizers",
    ),
)


def deletion_conditions(
    held: Sequence[Mapping[str, Any]], rows: Mapping[str, Sequence[StoredObject]], now: str
) -> list[dict[str, Any]]:
    """The conditions of a namespace whose remaining content waits for finalizers."""
    finalizers = Counter(one for found in rows.values() for row in found for one in row.finalizers)
    content = ", ".join(f"{name} has {len(rows[name])} resource instances" for name in sorted(rows))
    waiting = ", ".join(f"{one} in {count} resource instances" for one, count in finalizers.items())
    states = [(kind, "False", reason, message) for kind, reason, message in _FINE]
    states += [
        (
            "NamespaceContentRemaining",
            "True",
            "SomeResourcesRemain",
            f"Some resources are remaining: {content}",
        ),
        (
            "NamespaceFinalizersRemaining",
            "True",
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {waiting}",
        ),
    ]
    before = {(each["type"], each["status"]): each["lastTransitionTime"] for each in held}
    return [
        {
            "type": kind,
            "status": status,
            "lastTransitionTime": before.get((kind, status), now),
            "reason": reason,
            "message": message,
        }
        for kind, status, reason, message in states
    ]


def _group_of(definition: str) -> str:
    return definition.partition(".")[2]


def _owner_of(plane: PlaneStore, dependent: StoredObject, owner: Owner) -> StoredObject | None:
    key = plane.find_by_uid(owner.uid)
    if key is None or (key[1] and key[1] != dependent.namespace):
        return None
    return plane.get(key)


def _propagation(plane: PlaneStore, stored: StoredObject, waiting: bool) -> str:
    """How to delete a dependent: as its own finalizers say, else so that its owner can wait."""
    if object_meta.ORPHAN in stored.finalizers:
        return "Orphan"
    if object_meta.FOREGROUND in stored.finalizers or (waiting and plane.dependents_of(stored.uid)):
        return "Foreground"
    return "Background"


def _blocks(plane: PlaneStore, key: ObjectKey, uid: str) -> bool:
    stored = plane.get(key)
    return stored is not None and any(o.uid == uid and o.blocks for o in stored.owners)


def _orphan(plane: Plane, key: ObjectKey, uid: str) -> None:
    stored = plane.store.get(key)
    kind = plane.registry.any_version(key[0])
    if stored is not None and kind is not None:
        _keep_owners(plane, kind, stored, {o.uid for o in stored.owners if o.uid != uid})


def _keep_owners(plane: Plane, kind: ServedKind, stored: StoredObject, kept: set[str]) -> None:
    old = plane.writer.read(kind, stored)
    metadata = dict(old["metadata"])
    references = [one for one in metadata["ownerReferences"] if one["uid"] in kept]
    _set_list(metadata, "ownerReferences", references)
    plane.writer.store_change(kind, stored, old, {**old, "metadata": metadata})


def _drop_finalizer(plane: Plane, kind: ServedKind, stored: StoredObject, finalizer: str) -> None:
    old = plane.writer.read(kind, stored)
    metadata = dict(old["metadata"])
    _set_list(metadata, "finalizers", [f for f in stored.finalizers if f != finalizer])
    plane.writer.store_change(kind, stored, old, {**old, "metadata": metadata})


def _set_list(metadata: dict[str, Any], key: str, values: list[Any]) -> None:
    if values:
        metadata[key] = values
    else:
        metadata.pop(key, None)
