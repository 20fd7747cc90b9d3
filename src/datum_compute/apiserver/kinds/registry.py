"""Which kinds one plane serves: its built-ins, and what its definitions add.

A definition is served from the moment it is stored, before its writer gets a response, unless
another one of its group has a name that it wants.
Compiled definitions are shared by content, so a hundred planes with the same definitions hold
one set of compiled schemas, for as long as one of them serves it.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from datum_compute.api.fields import FieldError
from datum_compute.apiserver.cel import rules
from datum_compute.apiserver.codec import decode_json, encode_json
from datum_compute.apiserver.kinds import definitions
from datum_compute.apiserver.kinds.served_kind import ServedKind, from_crd


class KindRegistry:
    """The served kinds of one plane."""

    def __init__(self, builtins: Iterable[ServedKind]) -> None:
        self.terminating: set[str] = set()
        """Group resources whose definition is being deleted: nothing new may be created."""
        self.refused: set[str] = set()
        """Definitions that want a name which another one has."""
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

    def serves(self, definition: str) -> bool:
        """Whether the definition of this name gives kinds."""
        return bool(self._by_definition.get(definition)) and definition not in self.refused

    def kinds(self) -> list[ServedKind]:
        return list(self._by_path.values())

    def define(self, raw: bytes) -> None:
        """Serve a stored definition, instead of its previous version."""
        stored = _decode_stored(raw)
        definition: dict[str, Any] = {"metadata": stored.metadata, "status": stored.status}
        name = stored.metadata["name"]
        # An older release stored definitions of built-in kinds; those never replace them.
        if (known := self.any_version(name)) is not None and known.builtin:
            return
        kinds = _compile(name, bytes(stored.spec)) if _is_served(definition) else []
        if "deletionTimestamp" in definition["metadata"]:
            self.terminating.add(name)
        else:
            self.terminating.discard(name)
        if _is_refused(definition):
            self.refused.add(name)
        else:
            self.refused.discard(name)
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
        self.refused.discard(name)
        self._drop(name)
        self.generation += 1

    def _add(self, kind: ServedKind) -> None:
        resource = kind.resource
        self._by_path[resource.group, resource.version, resource.plural] = kind

    def _drop(self, name: str) -> None:
        for kind in self._by_definition.pop(name, []):
            resource = kind.resource
            del self._by_path[resource.group, resource.version, resource.plural]


class _Stored(msgspec.Struct):
    """A stored definition. Its spec may be large, and is decoded only where it is not known."""

    metadata: dict[str, Any] = {}
    spec: msgspec.Raw = msgspec.Raw(b"null")
    status: dict[str, Any] | None = None


_decode_stored = msgspec.json.Decoder(_Stored).decode


class _Kinds(list[ServedKind]):
    """What a definition gives; unlike a plain list it can be referred to weakly."""


_served: WeakValueDictionary[bytes, _Kinds] = WeakValueDictionary()
"""By the digest of the definition."""


def _compile(name: str, spec: bytes) -> list[ServedKind]:
    """Of a valid definition. Equal definitions that are served give the very same kinds."""
    digest = _digest(name, spec)
    kinds = _served.get(digest)
    if kinds is None:
        kinds = _Kinds(from_crd({"metadata": {"name": name}, "spec": decode_json(spec)}))
        _served[digest] = kinds
    return kinds


def _digest(name: str, spec: bytes) -> bytes:
    return hashlib.sha256(b"%b\0%b" % (name.encode(), spec)).digest()


_MOST_REMEMBERED = 1024
"""A guess: far more than the definitions of all types of planes together."""

Check = Callable[[str, bytes], list[FieldError]]


def _remember_valid(check: Check) -> Check:
    """Remembers, by digest alone, which definitions have no fault: every new plane is given the
    same ones."""
    valid: OrderedDict[bytes, None] = OrderedDict()  # the last used ones last

    def call(name: str, spec: bytes) -> list[FieldError]:
        digest = _digest(name, spec)
        if digest not in valid and (faults := check(name, spec)):
            return faults
        valid[digest] = None
        valid.move_to_end(digest)
        if len(valid) > _MOST_REMEMBERED:
            valid.popitem(last=False)
        return []

    return call


@_remember_valid
def find_faults(name: str, spec: bytes) -> list[FieldError]:
    """Why a definition cannot be served."""
    crd = {"metadata": {"name": name}, "spec": decode_json(spec)}
    return definitions.validate_definition(crd)


@_remember_valid
def _rule_faults(name: str, spec: bytes) -> list[FieldError]:
    """Only of what is written: a stored definition whose rules an older release did not compile
    is served, and its objects are refused until the rules are corrected."""
    found: list[FieldError] = []
    for version, path in definitions.places(decode_json(spec), "schema"):
        schema = version["schema"]["openAPIV3Schema"]
        found += rules.find_faults(schema, path.child("openAPIV3Schema"))
    return found


def stored_faults(raw: bytes) -> list[FieldError]:
    stored = _decode_stored(raw)
    return find_faults(stored.metadata["name"], bytes(stored.spec))


def accepted_names(raw: bytes) -> dict[str, Any]:
    """Of a stored definition."""
    status = _decode_stored(raw).status or {}
    return status.get("acceptedNames") or {}


def only_names(raw: bytes) -> bytes:
    """A stored definition with nothing but its accepted names."""
    return encode_json({"status": {"acceptedNames": accepted_names(raw)}})


def establish(
    definition: dict[str, Any], now: str, others: Iterable[Mapping[str, Any]] = ()
) -> list[FieldError]:
    """Check a definition and write its status. ``others`` are the accepted names of the group's
    other definitions; one that wants a name of theirs is stored, and not served until it is
    free."""
    name, content = definition["metadata"].get("name", ""), encode_json(definition.get("spec"))
    if faults := find_faults(name, content) or _rule_faults(name, content):
        return faults
    spec = definition["spec"]
    held = definition.get("status") or {}
    versions = [one["name"] for one in spec["versions"] if one.get("storage")]
    stored = list(dict.fromkeys([*(held.get("storedVersions") or []), *versions]))
    accepted, reason, message = _accept(spec["names"], held.get("acceptedNames") or {}, others)
    conditions = held.get("conditions") or []
    states: list[tuple[str, ...]]
    if reason:
        states = [("NamesAccepted", "False", reason, message)]
        if not _is_true(conditions, "Established"):
            states.append(("Established", "False", "NotAccepted", "not all names are accepted"))
    else:
        states = [(kind, "True", *rest) for kind, *rest in _ESTABLISHED]
    definition["status"] = {
        "conditions": _conditions(conditions, states, now),
        "acceptedNames": accepted,
        "storedVersions": stored,
    }
    return []


_ESTABLISHED = (
    ("NamesAccepted", "NoConflicts", "no conflicts found"),
    ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
)

_NAMES = (
    ("plural", "PluralConflict"),
    ("singular", "SingularConflict"),
    ("shortNames", "ShortNamesConflict"),
    ("kind", "KindConflict"),
    ("listKind", "ListKindConflict"),
)
"""Each field of the names and the reason of its conflict. The last one counts, as in the real
server."""
_OF_KINDS = ("kind", "listKind")


def _accept(
    wanted: Mapping[str, Any], held: Mapping[str, Any], others: Iterable[Mapping[str, Any]]
) -> tuple[dict[str, Any], str, str]:
    """The names that are accepted, and reason and message of a conflict, empty for none."""
    taken: dict[bool, set[str]] = {True: set(), False: set()}
    for each in others:
        for field, _ in _NAMES:
            taken[field in _OF_KINDS].update(_listed(each.get(field)))
    accepted, reason, message = dict(wanted), "", ""
    for field, conflict in _NAMES:
        own = _listed(held.get(field))
        used = [
            name
            for name in _listed(wanted.get(field))
            if name not in own and name in taken[field in _OF_KINDS]
        ]
        if used:
            reason, message = conflict, ", ".join(f'"{name}" is already in use' for name in used)
            accepted.pop(field)
            if field in held:
                accepted[field] = held[field]
    return accepted, reason, message


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) and value else list(value or ())


def _is_true(conditions: list[dict[str, Any]], type: str) -> bool:
    return any(one["type"] == type and one["status"] == "True" for one in conditions)


def _is_served(definition: Mapping[str, Any]) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or []
    return not _is_refused(definition) or _is_true(conditions, "Established")


def _is_refused(definition: Mapping[str, Any]) -> bool:
    """Whether a name it wants was taken by another definition when it was stored."""
    conditions = (definition.get("status") or {}).get("conditions") or []
    return any(one["type"] == "NamesAccepted" and one["status"] == "False" for one in conditions)


def _conditions(
    held: list[dict[str, Any]], states: Iterable[tuple[str, ...]], now: str
) -> list[dict[str, Any]]:
    """Those held, with the given ones in their place; a time is that of a change."""
    found = {one["type"]: one for one in held}
    for type, status, reason, message in states:
        before = found.get(type)
        since = before["lastTransitionTime"] if before and before["status"] == status else now
        found[type] = {
            "type": type,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": since,
        }
    return list(found.values())
