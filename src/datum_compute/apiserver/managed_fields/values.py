"""Values and their types: the set of a value, the difference of two, merging, and removing.

All of it takes time in proportion to the values: each is visited once, and lists are matched by
their keys. Results share what is the same with their arguments, which are never changed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import msgspec

from datum_compute.apiserver import errors
from datum_compute.apiserver.codec import json_equal
from datum_compute.apiserver.managed_fields.sets import (
    ITSELF,
    LEAF,
    FieldSet,
    is_member,
    with_itself,
)
from datum_compute.apiserver.managed_fields.types import SCALAR, FieldType

_ABSENT = object()
_APPLIED, _HELD, _WRITTEN = range(3)
"""What a set is built for."""
_encode = msgspec.json.Encoder().encode


def applied_set(config: dict[str, Any], type_: FieldType) -> FieldSet:
    """The fields that a client wants to own by applying ``config``. Raises 400 for a list in which
    a key occurs twice or is missing."""
    return _map_set(config, type_, _APPLIED) or {}


def held_set(value: dict[str, Any], type_: FieldType) -> FieldSet:
    """The same of an object that is stored, whose lists are taken as they are."""
    return _map_set(value, type_, _HELD) or {}


def written_set(value: Any, type_: FieldType) -> FieldSet:
    """The fields that come with a value where there was none: itself, and all below."""
    if type(value) is dict and value and not type_.is_atomic:
        return _map_set(value, type_, _WRITTEN, {ITSELF: LEAF}) or LEAF
    if type(value) is list and value and type_.merges:
        return _list_set(value, type_, _WRITTEN, {ITSELF: LEAF}) or LEAF
    return LEAF


def _map_set(
    value: dict[str, Any], type_: FieldType, purpose: int, out: FieldSet | None = None
) -> FieldSet | None:
    """None where nothing is in the set; a leaf where ``out`` has nothing but the place itself."""
    out = {} if out is None else out
    is_written = purpose == _WRITTEN
    named, leaves, element, is_open = type_.fields, type_.leaves, type_.element, type_.is_open
    for key, one in value.items():
        leaf = leaves.get(key)
        if leaf is not None and type(one) is not dict:
            out[leaf] = LEAF
            continue
        found = named.get(key)
        if found is not None:
            label, child = found
            owns = is_written
        elif element is None:
            continue
        else:
            label, child, owns = f"f:{key}", element, is_written or not is_open
        kind = type(one)
        if kind is dict:
            if one and not child.is_atomic:
                start = {ITSELF: LEAF} if owns else None
                below = _map_set(one, child, purpose, start)
                if below is None:
                    continue
            else:
                below = LEAF
        elif kind is list and child.merges:
            start = {ITSELF: LEAF} if owns else None
            below = _list_set(one, child, purpose, start)
            if below is None:
                continue
        else:
            below = LEAF
        out[label] = below
    if not out:
        return None
    return LEAF if len(out) == 1 and ITSELF in out else out


def _list_set(
    items: list[Any], type_: FieldType, purpose: int, out: FieldSet | None = None
) -> FieldSet | None:
    out = {} if out is None else out
    item_type = type_.item or SCALAR
    for item in items:
        try:
            label = label_of(item, type_)
        except ValueError as error:
            if purpose != _APPLIED:
                continue  # an old object, from before the list had this type
            raise errors.bad_request(f"the list cannot be applied: {error}") from error
        if label in out and purpose == _APPLIED:
            raise errors.bad_request(
                f"the list cannot be applied: it has {label[2:][:200]} more than once"
            )
        if type(item) is dict and item and not item_type.is_atomic:
            out[label] = _map_set(item, item_type, purpose, {ITSELF: LEAF}) or LEAF
        else:
            out[label] = LEAF
    if not out:
        return None
    return LEAF if len(out) == 1 and ITSELF in out else out


def label_of(item: Any, type_: FieldType) -> str:
    """Raises ValueError for an item without a key of its own."""
    keys = type_.keys
    if not keys:
        return f"v:{_encode(item).decode()}"
    if len(keys) == 1:
        key = keys[0]
        return f'k:{{"{key}":{_encode(_key_value(item, key, type_)).decode()}}}'
    return f"k:{_encode({key: _key_value(item, key, type_) for key in sorted(keys)}).decode()}"


def _key_value(item: Any, key: str, type_: FieldType) -> Any:
    if type(item) is not dict:
        raise ValueError("an item is not an object")
    found = item.get(key)
    if found is None:
        found = type_.defaults.get(key)
    if found is None or isinstance(found, dict | list):
        raise ValueError(f"an item has no {key}")
    return found


def _identity(item: Any, type_: FieldType) -> Hashable:
    """As :func:`label_of`, faster; only for comparing."""
    keys = type_.keys
    if not keys:
        if isinstance(item, dict | list):
            return label_of(item, type_)
        return item if type(item) is not bool else (bool, item)
    if len(keys) == 1:
        return _key_value(item, keys[0], type_)  # type: ignore[no-any-return]
    return tuple(_key_value(item, key, type_) for key in keys)


def _indexed(items: list[Any], type_: FieldType) -> dict[Hashable, Any]:
    out: dict[Hashable, Any] = {}
    for item in items:
        try:
            out[_identity(item, type_)] = item
        except ValueError:
            continue
    return out


def compare(
    old: dict[str, Any], new: dict[str, Any], type_: FieldType
) -> tuple[FieldSet, FieldSet]:
    """The fields that were added or changed, and those that were removed."""
    changed: FieldSet = {}
    removed: FieldSet = {}
    _compare_maps(old, new, type_, changed, removed)
    return changed, removed


def _compare_maps(
    old: dict[str, Any],
    new: dict[str, Any],
    type_: FieldType,
    changed: FieldSet,
    removed: FieldSet,
) -> None:
    named, element = type_.fields, type_.element
    for key, value in new.items():
        held = old.get(key, _ABSENT)
        if held is value:
            continue
        found = named.get(key)
        if found is not None:
            _compare(found[0], held, value, found[1], changed, removed)
        elif element is not None:
            _compare(f"f:{key}", held, value, element, changed, removed)
    for key, held in old.items():
        if key not in new and (gone := type_.child(key)) is not None:
            removed[gone[0]] = written_set(held, gone[1])


def _compare(
    label: str, held: Any, value: Any, type_: FieldType, changed: FieldSet, removed: FieldSet
) -> None:
    if held is _ABSENT:
        changed[label] = written_set(value, type_)
        return
    kind, held_kind = type(value), type(held)
    if kind is dict and held_kind is dict:
        if type_.is_atomic or not (value or held):
            if not json_equal(held, value):
                changed[label] = LEAF
            return
        below: tuple[FieldSet, FieldSet] = {}, {}
        _compare_maps(held, value, type_, *below)
    elif kind is list and held_kind is list:
        if not type_.merges or not (value or held):
            if not json_equal(held, value):
                changed[label] = LEAF
            return
        below = {}, {}
        _compare_lists(held, value, type_, *below)
    else:
        if kind is held_kind or not (kind in (dict, list) or held_kind in (dict, list)):
            if not json_equal(held, value):
                changed[label] = LEAF
            return
        # Of another type: what was below is gone, and the place itself has changed.
        gone = {key: each for key, each in written_set(held, type_).items() if key != ITSELF}
        below = with_itself(written_set(value, type_)), gone
        changed[label] = below[0]
        if gone:
            removed[label] = gone
        return
    if below[0]:
        changed[label] = below[0]
    if below[1]:
        removed[label] = below[1]


def _compare_lists(
    old: list[Any], new: list[Any], type_: FieldType, changed: FieldSet, removed: FieldSet
) -> None:
    before, after = _indexed(old, type_), _indexed(new, type_)
    item_type = type_.item or SCALAR
    for identity, item in after.items():
        held = before.get(identity, _ABSENT)
        if held is item:
            continue
        if held is _ABSENT:
            changed[label_of(item, type_)] = written_set(item, item_type)
        elif type_.keys:
            _compare(label_of(item, type_), held, item, item_type, changed, removed)
    for identity, held in before.items():
        if identity not in after:
            removed[label_of(held, type_)] = written_set(held, item_type)


def merge(live: Any, config: Any, type_: FieldType) -> Any:
    """``live`` with what ``config`` says; the very ``live`` where that is the same."""
    if live is config:
        return live
    if type(live) is dict and live and not type_.is_atomic:
        if config is None:
            return live
        if type(config) is dict:
            return _merge_maps(live, config, type_)
    elif type(live) is list and live and type_.merges:
        if config is None:
            return live
        if type(config) is list:
            return _merge_lists(live, config, type_)
    return live if json_equal(live, config) else config


def _merge_maps(live: dict[str, Any], config: dict[str, Any], type_: FieldType) -> dict[str, Any]:
    out = live
    for key, wanted in config.items():
        held = live.get(key, _ABSENT)
        if held is _ABSENT:
            new = wanted
        elif type(held) is type(wanted) is str:
            if held == wanted:
                continue
            new = wanted
        else:
            found = type_.child(key)
            new = merge(held, wanted, found[1] if found is not None else SCALAR)
            if new is held:
                continue
        if out is live:
            out = dict(live)
        out[key] = new
    return out


def _merge_lists(live: list[Any], config: list[Any], type_: FieldType) -> list[Any]:
    held, wanted = _indexed(live, type_), _indexed(config, type_)
    item_type = type_.item or SCALAR
    out = [
        merge(held[each], wanted[each], item_type)
        if each in held and each in wanted
        else held.get(each, wanted.get(each))
        for each in _merged_order(list(held), list(wanted), held, wanted)
    ]
    if len(out) == len(live) and all(map(_is_same, out, live)):
        return live
    return out


def _is_same(one: Any, other: Any) -> bool:
    return one is other or (not isinstance(one, dict | list) and json_equal(one, other))


def _merged_order(
    live: list[Hashable],
    config: list[Hashable],
    in_live: dict[Hashable, Any],
    in_config: dict[Hashable, Any],
) -> Iterator[Hashable]:
    """Items of the config in its order; others where they were, before the next shared item."""
    shared = iter([each for each in config if each in in_live])
    awaited = next(shared, _ABSENT)
    at = 0
    for each in config:
        # Before an item of the config come the live ones that stand before the next shared item.
        while at < len(live) and (live[at] not in in_config or live[at] != awaited):
            if live[at] not in in_config:
                yield live[at]
            at += 1
        yield each
        if each == awaited:
            if at < len(live) and live[at] == each:
                at += 1
            awaited = next(shared, _ABSENT)
    yield from (each for each in live[at:] if each not in in_config)


def remove(value: Any, gone: FieldSet, type_: FieldType) -> Any:
    """``value`` without the fields and items in ``gone``. What is owned as one stays as it is: only
    an older schema had anything below it."""
    if type(value) is dict and not type_.is_atomic:
        return _remove_from_map(value, gone, type_)
    if type(value) is list and type_.merges:
        return _remove_from_list(value, gone, type_)
    return value


def _remove_from_map(value: dict[str, Any], gone: FieldSet, type_: FieldType) -> dict[str, Any]:
    out = value
    for label, below in gone.items():
        key = label[2:]
        if not label.startswith("f:") or key not in value:
            continue
        found = type_.child(key)
        if found is None:
            continue
        if out is value:
            out = dict(value)
        if is_member(below):
            del out[key]
        else:
            out[key] = remove(value[key], below, found[1])
    return out


def _remove_from_list(items: list[Any], gone: FieldSet, type_: FieldType) -> list[Any]:
    out: list[Any] = []
    for item in items:
        try:
            below = gone.get(label_of(item, type_))
        except ValueError:
            below = None
        if below is None:
            out.append(item)
        elif not is_member(below):
            out.append(remove(item, below, type_.item or SCALAR))
    return out


def with_named_places(fields: FieldSet, type_: FieldType) -> FieldSet:
    """``fields`` with every named field that has a member below it: a field goes when all that is
    in it goes, an item or an entry of a map does not."""
    out: FieldSet = {}
    for label, below in fields.items():
        if not below or label == ITSELF:
            out[label] = below
            continue
        child, is_named = _below(label, type_)
        deeper = with_named_places(below, child)
        out[label] = with_itself(deeper) if is_named else deeper
    return out


def _below(label: str, type_: FieldType) -> tuple[FieldType, bool]:
    if not label.startswith("f:"):
        return type_.item or SCALAR, False
    found = type_.child(label[2:])
    return (found[1], found[2]) if found is not None else (SCALAR, False)
