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
from datum_compute.log import get_logger
from datum_compute.runtime.writes.patch import Values, difference, values

log = get_logger(__name__)


class SpecCopies:
    """Decides when the spec of a copy is due, and remembers what did not stick.

    A server with an older schema prunes fields it does not know, and one with other
    defaults adds some. Writing again would not help, and would wake everybody who watches
    the copy; so a difference that survived our write is reported once and then left alone
    until it becomes a different one.
    """

    def __init__(self) -> None:
        self._stuck: dict[str, Values] = {}

    def change(self, copy: Object, wanted: msgspec.Raw | Mapping[str, Any]) -> Values:
        """The merge patch of the spec that is due, or an empty one."""
        if isinstance(wanted, msgspec.Raw) and bytes(copy.spec) == bytes(wanted):
            return {}
        change = difference(values(copy.spec), _as_values(wanted))
        return {} if change == self._stuck.get(copy.metadata.uid) else change

    def written(self, copy: Object, wanted: msgspec.Raw | Mapping[str, Any]) -> None:
        """Look at the server's answer to a write of ``wanted``."""
        left = difference(values(copy.spec), _as_values(wanted))
        if not left:
            self._stuck.pop(copy.metadata.uid, None)
        elif self._stuck.get(copy.metadata.uid) != left:
            self._stuck[copy.metadata.uid] = left
            if _is_missing_something(left):
                log.warning(
                    "SchemaSkew: the server did not keep part of a copied spec",
                    kind=copy.kind,
                    namespace=copy.namespace,
                    name=copy.name,
                    paths=sorted(left),
                )

    def forget(self, uid: str) -> None:
        self._stuck.pop(uid, None)


def _is_missing_something(left: Mapping[str, Any]) -> bool:
    """Whether something we wrote is not there; what a server added is nobody's loss."""
    return any(
        _is_missing_something(value) if isinstance(value, Mapping) else value is not None
        for value in left.values()
    )


def _as_values(wanted: msgspec.Raw | Mapping[str, Any]) -> Mapping[str, Any]:
    return values(wanted) if isinstance(wanted, msgspec.Raw) else wanted
