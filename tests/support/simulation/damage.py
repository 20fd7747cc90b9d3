"""Objects that no server would accept, written past it into its store.

An older release, another writer with another schema or a restored backup leaves such objects.
Metadata has the right form, whatever its texts: a server decodes that itself, and shows nothing of
an object otherwise. No part is missing as a whole: where a schema requires it, a server refuses
every write to the object.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from functools import cache
from random import Random
from typing import Any, NamedTuple

import msgspec

from datum_compute.api import karmada
from datum_compute.api.crds import all_crds
from datum_compute.api.kinds import KINDS
from datum_compute.api.meta import Object, Unreadable
from datum_compute.api.scheme import Resource
from datum_compute.apiserver.schema import Schema, compiled
from datum_compute.apiserver.storage.protocol import Store, StoredObject
from datum_compute.log import fields_of

Wire = dict[str, Any]
Change = Callable[[Wire], Any]
VIEWS = {each.resource: each.view for each in KINDS}

ODD_VALUES: tuple[Any, ...] = (
    *(None, True, 7.0, 1.5, -1, 10**9, 2**63, -(2**70), 1e300),
    *("", "7", "12Qx", "x" * 5_000, "\u0000\U0001f600", "9" * 25),
    *(
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "2026-02-30T10:00:00Z",
        "2026-01-01T10:00:00",
    ),
    *([], [None], [[]], {}, {"a": {"b": []}}),
)
ODD_TEXTS = tuple(each for each in ODD_VALUES if isinstance(each, str))
ODD_NAMES = ("{}-odd", "{}-99999999999999999999", "{}-" + "x" * 240)
REMOVED_SHARE = 0.1

_PERMANENT_IDS = {
    karmada.RESOURCE_BINDINGS: (karmada.LABEL_BINDING_ID,),
    karmada.WORKS: (karmada.LABEL_WORK_ID, karmada.LABEL_BINDING_ID),
}
"""Labels by which Karmada knows an object, and of a Work its binding: no two share a value."""
_REPORTS = ("object quarantined", "reconcile failed", "hub Instance cannot be projected")


class Damaged(NamedTuple):
    plane: str
    resource: Resource
    namespace: str
    name: str
    uid: str
    original: Wire | None
    """What it was; None for a copy beside the original."""
    valid: bool
    """Whether its schema accepts it."""
    unreadable: bool
    """Whether a client cannot read all of it."""

    def __str__(self) -> str:
        return f"{self.plane} {self.resource.plural} {self.name}"


def stored_objects(store: Store, plane: str, resource: Resource) -> list[StoredObject]:
    return list(store.planes[plane].table(resource.group_resource).in_order(None))


def damage(
    store: Store, plane: str, resource: Resource, stored: StoredObject, change: Change
) -> Damaged:
    """Change a stored object in place."""
    obj = msgspec.json.decode(stored.raw)
    change(obj)
    put = store.planes[plane].put(resource.group_resource, obj, stored)
    return _damaged(plane, resource, put, msgspec.json.decode(stored.raw))


def add_damaged_copy(
    store: Store,
    plane: str,
    resource: Resource,
    stored: StoredObject,
    change: Change,
    name: str,
    uid: str,
) -> Damaged:
    """Store a changed copy beside an object."""
    obj = msgspec.json.decode(stored.raw)
    change(obj)
    obj["metadata"] |= {"name": name, "uid": uid}
    for label in _PERMANENT_IDS.get(resource, ()):
        obj["metadata"].setdefault("labels", {})[label] = uid
    put = store.planes[plane].put(resource.group_resource, obj, None)
    return _damaged(plane, resource, put, None)


def _damaged(plane: str, resource: Resource, put: StoredObject, original: Wire | None) -> Damaged:
    valid = not _schemas()[resource.group_resource].process(msgspec.json.decode(put.raw)).errors
    bad = is_unreadable(put, resource)
    return Damaged(plane, resource, put.namespace, put.name, put.uid, original, valid, bad)


def is_unreadable(stored: StoredObject, resource: Resource) -> bool:
    found = Object.from_wire(stored.raw)
    with suppress(Unreadable):
        found.view(VIEWS[resource])
    return bool(found.problem)


@cache
def _schemas() -> dict[str, Schema]:
    return {
        each["metadata"]["name"]: compiled(each["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
        for each in all_crds()
    }


def random_damage(chance: Random) -> Change:
    """Give one to three places of an object another value, or remove them."""

    def change(obj: Wire) -> None:
        for _ in range(chance.choice((1, 1, 2, 3))):
            holder, key = chance.choice(list(_places(obj)))
            metadata = any(holder is each for each in _metadata(obj))
            # A null is no value: the part would be missing.
            values = ODD_VALUES[1:] if holder is obj else ODD_VALUES
            if metadata:  # a server accepts no write to an object with an empty owner
                values = tuple(each for each in ODD_TEXTS if each)
            value = deepcopy(chance.choice(values))
            if not metadata and holder is not obj and chance.random() < REMOVED_SHARE:
                del holder[key]
            else:
                holder[key] = value

    return change


def _places(obj: Wire) -> Iterator[tuple[Any, Any]]:
    for part in ("spec", "status", "data"):
        if part in obj:
            yield obj, part
            yield from _inner(obj[part])
    yield from ((holder, key) for holder in _metadata(obj) for key in _texts(holder))


def _metadata(obj: Wire) -> list[Wire]:
    """Parts whose values are texts."""
    metadata = obj["metadata"]
    texts = (metadata.get("labels") or {}, metadata.get("annotations") or {})
    return [*texts, *(metadata.get("ownerReferences") or [])]


def _texts(holder: Wire) -> list[str]:
    return [key for key, value in holder.items() if isinstance(value, str)]


def _inner(value: Any) -> Iterator[tuple[Any, Any]]:
    keys: Any = ()
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = range(len(value))
    for key in keys:
        yield value, key
        yield from _inner(value[key])


class Reports(logging.Handler):
    """Which objects the log reports, and which errors are mistakes of our code: those that are no
    answer of a server."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.names: set[str] = set()
        self.mistakes: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        fields = fields_of(record)
        if record.getMessage().startswith(_REPORTS):
            self.names.add(str(fields.get("name") or fields.get("hub_instance")))
        if record.exc_info and record.exc_info[1] is not None:
            where = fields.get("controller") or fields.get("index") or ""
            self.mistakes.add(f"{record.getMessage()} {where}: {record.exc_info[1]!r}")

    def __enter__(self) -> Reports:
        logging.getLogger("datum_compute").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("datum_compute").removeHandler(self)
