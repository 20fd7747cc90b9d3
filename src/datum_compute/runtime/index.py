"""Looking objects up by something other than their name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from datum_compute.api.meta import Object

logger = logging.getLogger(__name__)

IndexKeys = Callable[[Object], Iterable[str]]
"""Under which keys an object is found. A function of the object alone."""

Key = tuple[str, str]
"""Namespace and name, the order in which lists are sorted."""


class Index:
    """Which keys lead to which objects; maintained by the cache that owns it."""

    __slots__ = ("_entries", "_keys", "_sorted", "name")

    def __init__(self, name: str, keys: IndexKeys) -> None:
        self.name = name
        self._keys = keys
        self._entries: dict[str, set[Key]] = {}
        self._sorted: dict[str, list[Key]] = {}  # as found, until the entry changes

    def find(self, key: str) -> Sequence[Key]:
        found = self._sorted.get(key)
        if found is None:
            entry = self._entries.get(key)
            if entry is None:
                return ()
            found = self._sorted[key] = sorted(entry)
        return found

    def change(self, old: Object | None, new: Object | None) -> None:
        before = self._keys_of(old) if old is not None else ()
        after = self._keys_of(new) if new is not None else ()
        if before == after:
            return
        if old is not None:
            self._remove((old.namespace, old.name), before)
        if new is not None:
            for key in after:
                self._entries.setdefault(key, set()).add((new.namespace, new.name))
                self._sorted.pop(key, None)

    def _remove(self, where: Key, keys: Iterable[str]) -> None:
        for key in keys:
            found = self._entries.get(key)
            if found is not None:
                found.discard(where)
                self._sorted.pop(key, None)
                if not found:
                    del self._entries[key]

    def _keys_of(self, obj: Object) -> tuple[str, ...]:
        try:
            return tuple(self._keys(obj))
        except Exception:
            # One damaged object must not take down the cache of all others.
            logger.exception(
                "object left out of an index",
                extra={
                    "fields": {"index": self.name, "namespace": obj.namespace, "name": obj.name}
                },
            )
            return ()
