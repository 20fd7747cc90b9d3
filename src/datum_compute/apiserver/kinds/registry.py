"""Which kinds one plane serves: its built-ins, and what its definitions add.

A definition is served from the moment it is stored, before its writer gets a response.
Compiled definitions are shared by content, so a hundred planes with the same definitions hold
one set of compiled schemas.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from datum_compute.api.fields import FieldError
from datum_compute.apiserver.codec import decode_json, encode_json
from datum_compute.apiserver.kinds.served_kind import CrdInvalid, ServedKind, from_crd


class KindRegistry:
    """The served kinds of one plane."""

    def __init__(self, builtins: Iterable[ServedKind]) -> None:
        self.terminating: set[str] = set()
        """Group resources whose definition is being deleted: nothing new may be created."""
        self._by_path: dict[tuple[str, str, str], ServedKind] = {}
        self._by_definition: dict[str, list[ServedKind]] = {}
        for kind in builtins:
            self._add(kind)
        self.generation = 0
        """Incremented by each change, for caches of documents built from the kinds."""

    def find(self, group: str, version: str, plural: str) -> ServedKind | None:
        return self._by_path.get((group, version, plural))

    def any_version(self, group_resource: str) -> ServedKind | None:
        """Some version of this resource, for work that is the same in all of them."""
        plural, _, group = group_resource.partition(".")
        for key, kind in self._by_path.items():
            if key[0] == group and key[2] == plural:
                return kind
        return None

    def builtin(self, group_resource: str) -> ServedKind:
        """A kind that every plane serves."""
        kind = self.any_version(group_resource)
        assert kind is not None, f"every plane serves {group_resource}"
        return kind

    def kinds(self) -> list[ServedKind]:
        return list(self._by_path.values())

    def define(self, definition: dict[str, Any]) -> None:
        """Serve a stored definition, instead of its previous version."""
        name = definition["metadata"]["name"]
        # An older release stored definitions of built-in kinds; those never replace them.
        if (known := self.any_version(name)) is not None and known.builtin:
            return
        kinds = compiled_kinds(definition)
        if "deletionTimestamp" in definition["metadata"]:
            self.terminating.add(name)
        else:
            self.terminating.discard(name)
        held = self._by_definition.get(name, [])
        if len(held) == len(kinds) and all(map(lambda a, b: a is b, held, kinds)):
            return
        self._drop(name)
        self._by_definition[name] = kinds
        for kind in kinds:
            self._add(kind)
        self.generation += 1

    def undefine(self, name: str) -> None:
        self.terminating.discard(name)
        self._drop(name)
        self.generation += 1

    def _add(self, kind: ServedKind) -> None:
        resource = kind.resource
        self._by_path[resource.group, resource.version, resource.plural] = kind

    def _drop(self, name: str) -> None:
        for kind in self._by_definition.pop(name, []):
            resource = kind.resource
            del self._by_path[resource.group, resource.version, resource.plural]


def compiled_kinds(definition: dict[str, Any]) -> list[ServedKind]:
    """Raises :class:`CrdInvalid`. Equal definitions give the very same kinds."""
    content = {"metadata": {"name": definition["metadata"]["name"]}, "spec": definition.get("spec")}
    return _compile(encode_json(content))


@lru_cache(maxsize=512)
def _compile(content: bytes) -> list[ServedKind]:
    return from_crd(decode_json(content))


def establish(definition: dict[str, Any], now: str) -> list[FieldError]:
    """Check a definition and write the status of one that is served."""
    try:
        compiled_kinds(definition)
    except CrdInvalid as error:
        return error.errors
    spec = definition["spec"]
    held = definition.get("status") or {}
    versions = [one["name"] for one in spec["versions"] if one.get("storage")]
    stored = list(dict.fromkeys([*(held.get("storedVersions") or []), *versions]))
    definition["status"] = {
        "conditions": _conditions(held.get("conditions") or [], now),
        "acceptedNames": spec["names"],
        "storedVersions": stored,
    }
    return []


_ESTABLISHED = (
    ("NamesAccepted", "NoConflicts", "no conflicts found"),
    ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
)


def _conditions(held: list[dict[str, Any]], now: str) -> list[dict[str, Any]]:
    present = {one["type"] for one in held}
    added = [
        {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": now,
        }
        for kind, reason, message in _ESTABLISHED
        if kind not in present
    ]
    return [*held, *added]
