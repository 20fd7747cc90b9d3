"""Objects that cannot be read in full, set aside so that others go on.

An object whose content is not what its kind says is found by whoever first asks for its typed
view: an index, a predicate, a mapping or a reconcile. Its cache then quarantines it. That is
logged and recorded as an Event once for each problem, and counted for as long as it lasts: an
object is released by a version that can be read, or by its deletion.

What follows for those who ask is the same everywhere. A status that cannot be read counts as
none. A spec that cannot be read raises ``Unreadable``: :func:`readable` and :func:`views` leave
such objects out of a list, a watch maps what it still can, and a reconcile that needs this very
object ends until something changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from datum_compute.api.meta import Object, Unreadable
from datum_compute.log import get_logger

logger = get_logger(__name__)

V = TypeVar("V")

Key = tuple[str, str]
"""Namespace and name."""


class _Entry(NamedTuple):
    uid: str
    problem: str
    view: type


class UnreadableObjects:
    """The objects of one cache that cannot be read in full."""

    def __init__(self) -> None:
        self._entries: dict[Key, _Entry] = {}
        self.on_added: Callable[[Object], None] | None = None
        """Called once for each problem, with the object, whose ``problem`` it is."""

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, obj: Object, view: type) -> None:
        key, entry = (obj.namespace, obj.name), _Entry(obj.metadata.uid, obj.problem, view)
        if self._entries.get(key) == entry:
            return
        self._entries[key] = entry
        logger.warning(
            "object quarantined",
            kind=obj.kind,
            namespace=obj.namespace,
            name=obj.name,
            problem=obj.problem[:300],
        )
        if self.on_added is not None:
            self.on_added(obj)

    def change(self, old: Object | None, new: Object | None) -> None:
        """Look at the next version of an object: to be called with every change."""
        known = old or new
        if not self._entries or known is None:
            return
        key = (known.namespace, known.name)
        entry = self._entries.get(key)
        if entry is None:
            return
        if new is not None and new.metadata.uid == entry.uid:
            readable((new,), entry.view)
            if new.problem:
                return
        del self._entries[key]
        logger.info("object released from quarantine", namespace=key[0], name=key[1])


def readable(objects: Iterable[Object], kind: type) -> list[Object]:
    """Those whose view of this kind can be read; the others are quarantined."""
    found = []
    for obj in objects:
        try:
            obj.view(kind)
        except Unreadable:
            continue
        found.append(obj)
    return found


def views(objects: Iterable[Object], kind: type[V]) -> list[V]:
    """The views of those that can be read; the others are quarantined."""
    return [obj.view(kind) for obj in readable(objects, kind)]
