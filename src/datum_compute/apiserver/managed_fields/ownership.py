"""What a write does to the entries of an object, and server-side apply.

A write that is not an apply gives its manager the fields that it changes; all others lose them,
and what is removed, nobody owns. An apply states the fields that its manager wants to own, and
nothing else: it merges them into the object, removes those that its manager owned before, no
longer states and shares with nobody, and conflicts with whoever owns what it would change.

Everything here is a function of its arguments.
"""

from __future__ import annotations

from typing import Any

import msgspec

from datum_compute.apiserver import errors
from datum_compute.apiserver.codec import decode_json, encode_json
from datum_compute.apiserver.managed_fields import entries, sets, values
from datum_compute.apiserver.managed_fields.entries import APPLY, UPDATE, pack, unpack
from datum_compute.apiserver.managed_fields.sets import FieldSet
from datum_compute.apiserver.managed_fields.types import FieldType
from datum_compute.apiserver.storage.protocol import Managed, ManagedEntry

MAX_UPDATERS = 10
"""Entries of writes that are not applies; the oldest beyond it are joined, as upstream."""
MAX_ENTRIES = 1000
"""Of one object. A guess: hundreds of times what objects have."""
_ANCIENT = "ancient-changes"
_BEFORE_APPLY = "before-first-apply"
_KUBECTL = "kubectl"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_LAST_APPLIED = 256 * 1024


class FieldWriter(msgspec.Struct, frozen=True, gc=False):
    """Who writes, and how."""

    manager: str
    api_version: str
    operation: str = UPDATE
    subresource: str = ""
    shown_version: str = ""
    """That of all others, in the words of a conflict."""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        version = "" if self.operation == APPLY else self.api_version
        return self.manager, self.operation, version, self.subresource

    def entry(self, fields: FieldSet, time: int | None) -> ManagedEntry:
        return ManagedEntry(
            self.manager, self.operation, self.api_version, self.subresource, time, pack(fields)
        )


def update(
    managed: Managed,
    by: FieldWriter,
    old: dict[str, Any],
    new: dict[str, Any],
    type_: FieldType,
    now: int,
) -> Managed:
    """The entries after a write that is not an apply; the very ``managed`` if nothing changes."""
    changed, removed = values.compare(old, new, type_)
    if not changed and not removed:
        return managed
    if not managed:
        return (by.entry(changed, now),) if changed else ()
    found: list[ManagedEntry] = []
    own: FieldSet = {}
    for entry in managed:
        fields = unpack(entry.fields)
        kept = sets.difference(fields, removed) if removed else fields
        if entries.identity(entry) == by.identity:
            if changed:
                own = kept
                continue
        elif changed:
            kept = sets.difference(kept, changed)
        if kept is fields:
            found.append(entry)
        elif kept:
            found.append(msgspec.structs.replace(entry, fields=pack(kept)))
    if changed:
        found.append(by.entry(sets.union(own, changed), now))
    return entries.in_order(_capped(found))


def _capped(found: list[ManagedEntry]) -> list[ManagedEntry]:
    """The oldest updates of a version become one entry while there are too many."""
    updates = [each for each in found if each.operation == UPDATE]
    excess = len(updates) - MAX_UPDATERS
    if excess <= 0:
        return found
    updates.sort(key=lambda each: (each.time or 0, each.manager))
    joined: dict[str, ManagedEntry] = {}
    gone: set[int] = set()
    for entry in updates:
        first = joined.get(entry.api_version)
        if first is None:
            joined[entry.api_version] = entry
            continue
        both = pack(sets.union(unpack(first.fields), unpack(entry.fields)))
        gone |= {id(first), id(entry)}
        version = entry.api_version
        joined[version] = ManagedEntry(_ANCIENT, UPDATE, version, "", entry.time, both)
        excess -= 1
        if excess <= 0:
            break
    kept = [each for each in found if id(each) not in gone]
    return kept + [each for each in joined.values() if each.manager == _ANCIENT]


def apply(
    live: dict[str, Any],
    config: dict[str, Any],
    managed: Managed,
    by: FieldWriter,
    type_: FieldType,
    now: int,
    *,
    force: bool,
    changes_more: bool = False,
) -> tuple[dict[str, Any], Managed]:
    """The object and its entries after an apply. The result shares with ``live`` and ``config``.
    ``changes_more``: the client asks for changes that cannot be made here; they count for the
    time of its entry, as upstream. Raises 409 for conflicts, and 400 for a config whose
    lists cannot be merged."""
    wanted = values.applied_set(_typeless(config), type_)
    if len(managed) >= MAX_ENTRIES:
        raise errors.ApiError(
            413, "RequestEntityTooLarge", f"the object has {len(managed)} field managers"
        )
    merged = values.merge(live, config, type_)
    packed = pack(wanted)
    own = next((each for each in managed if entries.identity(each) == by.identity), None)
    others = [each for each in managed if each is not own]
    if own is not None and own.fields != packed:
        last = unpack(own.fields)
        claimed = wanted
        if sets.difference(last, wanted):
            for each in others:
                claimed = sets.union(claimed, unpack(each.fields))
            merged = _prune(merged, last, claimed, type_)
    changed, removed = values.compare(live, merged, type_)
    if changed or removed:
        others = _take_over(others, live, changed, removed, by, type_, force=force)
    if by.manager == _KUBECTL:
        merged = _with_last_applied(merged, config)
    found = list(others)
    if wanted:
        is_change = changes_more or bool(changed or removed)
        time = now if is_change else own.time if own is not None else None
        found.append(ManagedEntry(*by.identity[:2], by.api_version, by.subresource, time, packed))
    return merged, entries.in_order(found)


def untracked(
    managed: Managed,
    live: dict[str, Any],
    by: FieldWriter,
    type_: FieldType,
    empty: dict[str, Any],
    now: int,
) -> Managed:
    """The entries that an apply begins with: of an object that has none, one for all it has more
    than an ``empty`` one."""
    if managed:
        return managed
    fields, _ = values.compare(empty, _typeless(live), type_)
    if not fields:
        return ()
    before = FieldWriter(_BEFORE_APPLY, by.api_version)
    return (before.entry(fields, now),)


def _typeless(obj: dict[str, Any]) -> dict[str, Any]:
    """The parts of an object that can be owned, or hold what can be."""
    return {
        key: value
        for key, value in obj.items()
        if key not in ("apiVersion", "kind") and (value or key != "metadata")
    }


def _prune(
    merged: dict[str, Any], last: FieldSet, claimed: FieldSet, type_: FieldType
) -> dict[str, Any]:
    """``merged`` without what its manager stated last and nobody states now. A named field goes
    with its content; what was never stated keeps the places it is in."""
    everything = _all_of(merged, type_)
    stated = values.with_named_places(last, type_)
    left = _all_of(values.remove(merged, stated, type_), type_)
    kept = sets.union(left, values.with_named_places(claimed, type_))
    rest = values.remove(merged, sets.difference(everything, kept), type_)
    gone = sets.difference(everything, _all_of(rest, type_))
    # Metadata itself stays: the object's name is there.
    removed = sets.difference(sets.intersection(gone, stated), {"f:metadata": sets.LEAF})
    pruned: dict[str, Any] = values.remove(merged, removed, type_)
    return pruned


def _all_of(value: dict[str, Any], type_: FieldType) -> FieldSet:
    return values.with_named_places(values.held_set(value, type_), type_)


def _take_over(
    others: list[ManagedEntry],
    live: dict[str, Any],
    changed: FieldSet,
    removed: FieldSet,
    by: FieldWriter,
    type_: FieldType,
    *,
    force: bool,
) -> list[ManagedEntry]:
    """The entries of others without what changes. Raises 409 where that needs force."""
    conflicts: list[tuple[ManagedEntry, FieldSet]] = []
    found: list[ManagedEntry] = []
    for entry in others:
        fields = unpack(entry.fields)
        kept = sets.difference(fields, changed) if changed else fields
        if kept is not fields:
            conflicts.append((entry, sets.intersection(fields, changed)))
        kept = sets.difference(kept, removed) if removed else kept
        if kept is fields:
            found.append(entry)
        elif kept:
            found.append(msgspec.structs.replace(entry, fields=pack(kept)))
    if conflicts and not force:
        if by.manager == _KUBECTL:
            conflicts = _not_of_kubectl(conflicts, live, type_)
        if conflicts:
            raise _conflict(conflicts, by.shown_version)
    return found


def _not_of_kubectl(
    conflicts: list[tuple[ManagedEntry, FieldSet]], live: dict[str, Any], type_: FieldType
) -> list[tuple[ManagedEntry, FieldSet]]:
    """The conflicts about fields that are not as kubectl last applied them on the client's side:
    about those kubectl conflicts with itself."""
    text = (live["metadata"].get("annotations") or {}).get(_LAST_APPLIED)
    try:
        last = decode_json(text.encode()) if text else None
        if not isinstance(last, dict):
            return conflicts
        wanted = values.applied_set(_typeless(last), type_)
    except (msgspec.DecodeError, RecursionError, errors.ApiError):
        return conflicts
    changed, removed = values.compare(last, live, type_)
    allowed = sets.difference(sets.difference(wanted, changed), removed)
    left = [(entry, sets.difference(fields, allowed)) for entry, fields in conflicts]
    return [(entry, fields) for entry, fields in left if fields]


def _with_last_applied(merged: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    """An object that kubectl has applied on the client's side stays usable that way."""
    annotations = merged["metadata"].get("annotations") or {}
    if not isinstance(annotations, dict) or not annotations.get(_LAST_APPLIED):
        return merged
    metadata = dict(config.get("metadata") or {})
    given = metadata.get("annotations")
    if isinstance(given, dict) and _LAST_APPLIED in given:
        metadata["annotations"] = {k: v for k, v in given.items() if k != _LAST_APPLIED}
    text = encode_json({**config, "metadata": metadata}).decode() + "\n"
    if len(text) > _MAX_LAST_APPLIED:
        text = ""
    if annotations[_LAST_APPLIED] == text:
        return merged
    annotations = {**annotations, _LAST_APPLIED: text}
    return {**merged, "metadata": {**merged["metadata"], "annotations": annotations}}


def _conflict(
    conflicts: list[tuple[ManagedEntry, FieldSet]], shown_version: str
) -> errors.ApiError:
    conflicts = sorted(conflicts, key=lambda each: entries.identity(each[0]))
    listed = [
        (_name(entry, shown_version or entry.api_version), list(sets.paths(fields)))
        for entry, fields in conflicts
    ]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {name}", "field": path}
        for name, paths in listed
        for path in paths
    ]
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = [
            line
            for name, paths in listed
            for line in (f"conflicts with {name}:", *(f"- {path}" for path in paths))
        ]
        message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    return errors.ApiError(409, "Conflict", message, {"causes": causes})


def _name(entry: ManagedEntry, version: str) -> str:
    name = encode_json(entry.manager).decode()
    if entry.subresource:
        name += f" with subresource {encode_json(entry.subresource).decode()}"
    return f"{name} using {version}" if entry.operation == UPDATE else name
