"""Applying patches to plain JSON values.

Results share subtrees with their inputs where nothing changed: treat both as immutable
afterwards. Errors have the real server's texts.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any

from datum_compute.api.fields import MAX_TEXT
from datum_compute.apiserver import errors
from datum_compute.apiserver.codec import (
    MAX_BODY,
    check_depth,
    decode_json,
    encode_json,
    json_equal,
)

MAX_OPERATIONS = 10_000
"""Of one JSON patch: the real server's limit."""

MAX_COPIED = MAX_BODY
"""Bytes that all copies of one JSON patch may add, as upstream: each copy can double what is
there, so a few dozen would fill any memory."""

MAX_SHIFTED = 50_000_000
"""List items that inserting and removing before them may move, in sum: well under 100 ms. A guess:
10,000 operations at the front of a list of 5,000 items."""


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386, without touching ``target``."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merge_patch(result.get(key), value)
        else:
            result[key] = value
    return result


_MERGED_LISTS = {
    ("metadata", "finalizers"): "",
    ("metadata", "ownerReferences"): "uid",
    ("secrets",): "name",
    ("status", "conditions"): "type",
}
"""Lists of built-in kinds that a strategic patch merges, with the field that tells their items
apart; none for a list of texts. Any other list is replaced."""


def strategic_patch(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """A merge patch that merges some lists and obeys directives, the keys with a leading ``$``."""
    return _merge_strategic(target, patch, ())


def _merge_strategic(held: Any, patch: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    match patch.get("$patch"):
        case "replace":
            return {key: value for key, value in patch.items() if key != "$patch"}
        case "delete":
            return {}
        case None | "merge":
            pass
        case other:
            raise errors.bad_request(f"Unknown patch type found: {other}")
    result: dict[str, Any] = dict(held) if isinstance(held, dict) else {}
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            if key in result or "$patch" not in value:  # a directive for nothing does nothing
                result[key] = _merge_strategic(result.get(key), value, (*path, key))
        elif isinstance(value, list) and (*path, key) in _MERGED_LISTS:
            before = result.get(key)
            field = _MERGED_LISTS[*path, key]
            merged = _merge_list(before, value, (*path, key))
            result[key] = _in_order(merged, value, before, field)
        else:
            result[key] = value
    for key, value in patch.items():
        directive, _, name = key.partition("/")
        if directive == "$deleteFromPrimitiveList":
            removed = set(_texts(value, key))
            result[name] = [one for one in _texts(result.get(name), name) if one not in removed]
        elif directive == "$setElementOrder" and (*path, name) in _MERGED_LISTS:
            before = held.get(name) if isinstance(held, dict) else None
            result[name] = _in_order(result.get(name), value, before, _MERGED_LISTS[*path, name])
        elif directive == "$retainKeys":
            retained = set(_texts(value, key))
            result = {name: value for name, value in result.items() if name in retained}
    return result


def _merge_list(held: Any, patch: list[Any], path: tuple[str, ...]) -> list[Any]:
    """Items of the patch replace or join those with the same key; new ones are appended."""
    field = _MERGED_LISTS[path]
    held = held if isinstance(held, list) else []
    if not field:
        return list(dict.fromkeys([*_texts(held, path[-1]), *_texts(patch, path[-1])]))
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if not isinstance(item, dict) or "$patch" not in item]
    merged = {_key_of(item, field): item for item in held}
    for item in patch:
        key = _key_of(item, field)
        if item.get("$patch") == "delete":
            merged.pop(key, None)
        else:
            merged[key] = _merge_strategic(merged.get(key), item, (*path, "*"))
    return list(merged.values())


def _in_order(items: Any, order: Any, before: Any, field: str) -> list[Any]:
    """The items that ``order`` names in that order, and the others in the order that they had
    ``before``; of two that were both there before, the earlier one comes first."""
    items = items if isinstance(items, list) else []
    by_key = {_key_of(item, field): item for item in items}
    ordered = dict.fromkeys(_key_of(one, field) for one in order or () if _is_item(one))
    named = deque(key for key in ordered if key in by_key)
    others = deque(key for key in by_key if key not in ordered)
    place = {_key_of(item, field): index for index, item in enumerate(before or ())}
    found: list[str] = []
    while named and others:
        first, other = place.get(named[0]), place.get(others[0])
        is_later = first is not None and other is not None and other < first
        found.append((others if is_later else named).popleft())
    return [by_key[key] for key in (*found, *named, *others)]


def _is_item(value: Any) -> bool:
    return not isinstance(value, dict) or "$patch" not in value


def _key_of(item: Any, field: str) -> str:
    key = item if not field else item.get(field) if isinstance(item, dict) else None
    if not isinstance(key, str):
        found = str(item)[:MAX_TEXT]
        raise errors.bad_request(f"map: {found} does not contain declared merge key: {field}")
    return key


def _texts(value: Any, name: str) -> list[str]:
    items = value if isinstance(value, list) else []
    if not all(isinstance(one, str) for one in items):
        raise errors.bad_request(f"{name} of a strategic merge patch must be a list of strings")
    return items


_REQUIRED = object()
_INDEX = re.compile("[-+]?[0-9]{1,9}").fullmatch


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise errors.rejected_patch()
    # The leading empty part addresses the document within its wrapper.
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")]


def _position(held: list[Any], part: str, *, end: bool) -> int:
    if end and part == "-":
        return len(held)
    # As the real server reads it: with a sign too, where one below 0 counts from the end.
    if not _INDEX(part):
        raise errors.rejected_patch()
    index, size = int(part), len(held) + end
    if index >= size or index < -size:
        raise errors.rejected_patch()
    return index + size if index < 0 else index


def json_patch(target: Any, operations: Any) -> Any:
    """RFC 6902, all or nothing; ``target`` is left as it is."""
    if not isinstance(operations, list):
        raise errors.bad_request("a JSON patch must be a list of operations")
    if len(operations) > MAX_OPERATIONS:
        message = (
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS},"
            f" got {len(operations)}"
        )
        raise errors.ApiError(413, "RequestEntityTooLarge", message)
    document = _Document(target)
    for operation in operations:
        if operation is None:
            raise errors.rejected_patch()
        if not isinstance(operation, dict):
            raise errors.bad_request("an operation of a JSON patch must be an object")
        for key in ("op", "path", "from"):
            if not isinstance(operation.get(key), str | None):
                raise errors.bad_request(f"error decoding patch: {key} of an operation is no text")
        document.apply(operation)
    result = document.root[""]
    if isinstance(result, dict):  # each operation may have put its value deeper
        check_depth(result)
    return result


class _Document:
    """The state between the operations of one patch."""

    def __init__(self, target: Any) -> None:
        self.root: dict[str, Any] = {"": target}
        self._owned: dict[int, Any] = {}
        """Containers made by this patch, by id: each is copied once, however many operations
        change it. Held here so that no id is used again."""
        self._copied = self._shifted = 0

    def apply(self, operation: dict[str, Any]) -> None:
        action = operation.get("op")
        path = _pointer(operation.get("path"))
        if action == "test" and "value" not in operation:
            raise errors.rejected_patch()
        if action == "add":
            if len(path) == 1:
                raise errors.rejected_patch()
            self._add(path, operation.get("value"))
        elif action == "remove":
            self._remove(path)
        elif action == "replace":
            self._read(path, absent=None)  # the real server adds a field that is not there
            self._set(path, operation.get("value"))
        elif action == "test":
            if not json_equal(self._read(path, absent=None), operation["value"]):
                raise errors.rejected_patch()
        elif action == "move":
            source = _pointer(operation.get("from"))
            value = self._read(source)
            if path[: len(source)] == source and path != source:
                raise errors.rejected_patch()
            self._remove(source)
            self._add(path, value)
        elif action == "copy":
            source = _pointer(operation.get("from"))
            self._add(path, self._copy(self._read(source, absent=None)))
        else:
            raise errors.rejected_patch()

    def _copy(self, value: Any) -> Any:
        try:
            raw = encode_json(value)
        except RecursionError as error:
            raise errors.rejected_patch() from error
        self._copied += len(raw)
        if self._copied > MAX_COPIED:
            raise errors.rejected_patch()
        # Its own containers: a later operation may change one of the two.
        return decode_json(raw) if isinstance(value, dict | list) else value

    def _read(self, path: list[str], absent: Any = _REQUIRED) -> Any:
        value: Any = self.root
        last = len(path) - 1
        for depth, part in enumerate(path):
            if isinstance(value, dict) and part in value:
                value = value[part]
            elif isinstance(value, list):
                value = value[_position(value, part, end=False)]
            elif absent is not _REQUIRED and isinstance(value, dict) and depth == last:
                return absent
            else:
                raise errors.rejected_patch()
        return value

    def _own(self, path: list[str]) -> Any:
        """The container of the path's last part, copied all the way down so it may be changed."""
        held: Any = self.root
        for part in path[:-1]:
            if isinstance(held, dict) and part in held:
                key: Any = part
            elif isinstance(held, list):
                key = _position(held, part, end=False)
            else:
                raise errors.rejected_patch()
            inner = held[key]
            if not isinstance(inner, dict | list):
                raise errors.rejected_patch()
            if id(inner) not in self._owned:
                inner = held[key] = inner.copy()
                self._owned[id(inner)] = inner
            held = inner
        return held

    def _add(self, path: list[str], value: Any) -> None:
        held = self._own(path)
        if isinstance(held, list):
            index = _position(held, path[-1], end=True)
            self._shift(held, index)
            held.insert(index, value)
        else:
            held[path[-1]] = value

    def _set(self, path: list[str], value: Any) -> None:
        held = self._own(path)
        if isinstance(held, list):
            held[_position(held, path[-1], end=False)] = value
        else:
            held[path[-1]] = value

    def _remove(self, path: list[str]) -> None:
        held = self._own(path)
        if isinstance(held, list):
            index = _position(held, path[-1], end=False)
            self._shift(held, index)
            del held[index]
        elif path[-1] in held and len(path) > 1:
            del held[path[-1]]
        else:
            raise errors.rejected_patch()

    def _shift(self, held: list[Any], index: int) -> None:
        self._shifted += len(held) - index
        if self._shifted > MAX_SHIFTED:
            message = "The operations of the JSON patch move too many items of long lists"
            raise errors.ApiError(413, "RequestEntityTooLarge", message)
