"""When a copy of a spec must be written again, and when it must not.

A copy is compared as JSON values, never as bytes: servers order keys as they like and fill
in defaults. The difference is itself a merge patch, so that a write carries no more than
what it changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.client.protocol import Client
from datum_compute.log import get_logger
from datum_compute.runtime.writes.patch import Values, difference, ensure_metadata, values

log = get_logger(__name__)


class UnkeptChanges:
    """Changes that a server did not keep, by uid of the object they were written to.

    A server with an older schema prunes fields it does not know, and one with other defaults
    adds some. Writing again would not help and would trigger every watcher of the object, so a
    difference that survived a write is left alone until it becomes a different one.
    """

    def __init__(self) -> None:
        self._unkept: dict[str, Values] = {}

    def is_due(self, obj: Object, change: Values) -> bool:
        """Whether a change is worth a write."""
        return bool(change) and change != self._unkept.get(obj.metadata.uid)

    def record(self, obj: Object, left: Values) -> bool:
        """Note the difference that a write left; whether it is a new one."""
        uid = obj.metadata.uid
        if not left:
            self._unkept.pop(uid, None)
            return False
        is_new = self._unkept.get(uid) != left
        self._unkept[uid] = left
        return is_new

    def forget(self, uid: str) -> None:
        self._unkept.pop(uid, None)


class SpecCopies:
    """Decides when the spec of a copy is due. What the server did not keep is logged once."""

    def __init__(self) -> None:
        self._unkept = UnkeptChanges()

    def due_patch(self, copy: Object, wanted: msgspec.Raw | Mapping[str, Any]) -> Values:
        """The merge patch of the spec that is due, or an empty one."""
        if isinstance(wanted, msgspec.Raw) and bytes(copy.spec) == bytes(wanted):
            return {}
        change = difference(values(copy.spec), _as_values(wanted))
        return change if self._unkept.is_due(copy, change) else {}

    def record_write(self, copy: Object, wanted: msgspec.Raw | Mapping[str, Any]) -> None:
        """Compare the server's answer to a write of ``wanted``."""
        left = difference(values(copy.spec), _as_values(wanted))
        if self._unkept.record(copy, left) and _is_missing_something(left):
            log.warning(
                "SchemaSkew: the server did not keep part of a copied spec",
                kind=copy.kind,
                namespace=copy.namespace,
                name=copy.name,
                paths=sorted(left),
            )

    async def ensure(
        self,
        client: Client,
        resource: Resource,
        copy: Object,
        wanted: msgspec.Raw | Mapping[str, Any],
        *,
        labels: Mapping[str, str | None] | None = None,
        annotations: Mapping[str, str | None] | None = None,
    ) -> Object:
        """The copy with this spec and these entries, in one write if anything is due."""
        change = self.due_patch(copy, wanted)
        written = await ensure_metadata(
            client, resource, copy, labels=labels, annotations=annotations, spec=change
        )
        if change:
            self.record_write(written, wanted)
        return written

    def forget(self, uid: str) -> None:
        self._unkept.forget(uid)


def _is_missing_something(left: Mapping[str, Any]) -> bool:
    """Whether something that was written is missing; a field the server added is no loss."""
    return any(
        _is_missing_something(value) if isinstance(value, Mapping) else value is not None
        for value in left.values()
    )


def _as_values(wanted: msgspec.Raw | Mapping[str, Any]) -> Mapping[str, Any]:
    return values(wanted) if isinstance(wanted, msgspec.Raw) else wanted


def is_subset(source: Any, target: Any) -> bool:
    """Whether ``target`` (JSON values) holds everything ``source`` does, and perhaps defaults
    besides. Lists are compared item by item: a list with more items is a different one."""
    # A loop that compares texts itself: every reconcile of an Instance compares its claim.
    if isinstance(source, dict):
        if not isinstance(target, dict):
            return not source and target is None
        for key, value in source.items():
            present = target.get(key)
            if (value != present) if type(value) is str else not is_subset(value, present):
                return False
        return True
    if isinstance(source, list):
        if not isinstance(target, list) or len(source) != len(target):
            return not source and target is None
        return all(is_subset(mine, theirs) for mine, theirs in zip(source, target, strict=True))
    # True == 1 in Python, but not in JSON.
    return source == target and isinstance(source, bool) == isinstance(target, bool)


def restoring_patch(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> Values:
    """The merge patch that puts back what ``present`` lacks or changes of ``wanted``; what is
    beside it is left alone."""
    return {} if is_subset(wanted, present) else difference(present, {**present, **wanted})
