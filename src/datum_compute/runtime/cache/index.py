"""Looking objects up by something other than their name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from datum_compute.api.meta import Object, Unreadable
from datum_compute.log import get_logger

logger = get_logger(__name__)

IndexKeys = Callable[[Object], Iterable[str]]
"""Returns the keys under which an object is found; a function of the object alone."""

Key = tuple[str, str]
"""Namespace and name, the order in which lists are sorted."""

MAX_REPORTED = 1_000
"""Objects without keys that are remembered, to log each once; a bound on memory."""


class Index:
    """Which keys lead to which objects; maintained by the cache that owns it."""

    __slots__ = ("_entries", "_held", "_keys", "_reported", "_sorted", "failures", "name")

    def __init__(self, name: str, keys: IndexKeys) -> None:
        self.name = name
        self._keys = keys
        self._entries: dict[str, set[Key]] = {}
        self._held: dict[Key, tuple[str, ...]] = {}  # the other way round
        self._sorted: dict[str, list[Key]] = {}  # as found, until the entry changes
        self._reported: dict[Key, None] = {}  # whose keys could not be read
        self.failures = 0
        """How often the keys of an object could not be read."""

    def find(self, key: str) -> Sequence[Key]:
        found = self._sorted.get(key)
        if found is None:
            entry = self._entries.get(key)
            if entry is None:
                return ()
            found = self._sorted[key] = sorted(entry)
        return found

    def change(self, old: Object | None, new: Object | None) -> None:
        known = old if new is None else new
        if known is None:
            return
        where = (known.namespace, known.name)
        before = self._held.get(where, ())
        after = self._keys_of(new) if new is not None else ()
        if before == after:
            return
        self._remove(where, before)
        if after:
            self._held[where] = after
            for key in after:
                self._entries.setdefault(key, set()).add(where)
                self._sorted.pop(key, None)
        else:
            del self._held[where]

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
        except Unreadable:  # quarantined, hence reported
            self.failures += 1
            return ()
        except Exception as error:  # noqa: BLE001  # a key function may raise anything
            # One malformed object must not break the cache for all others.
            self._report((obj.namespace, obj.name), error)
            return ()

    def _report(self, where: Key, error: Exception) -> None:
        """Log once for each object: a malformed one is likely to stay malformed."""
        self.failures += 1
        if where in self._reported or len(self._reported) >= MAX_REPORTED:
            return
        self._reported[where] = None
        logger.error(
            "object left out of an index",
            exc_info=error,
            index=self.name,
            namespace=where[0],
            name=where[1],
        )
