"""Applying patches to plain JSON values.

Results share subtrees with their inputs where nothing changed: treat both as immutable
afterwards. Errors have the real server's texts.
"""

from __future__ import annotations

from typing import Any

from datum_compute.apiserver import errors
from datum_compute.apiserver.codec import MAX_BODY, check_depth, decode_json, encode_json

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


def strategic_patch(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """A merge patch that understands the one list our built-ins merge by value.

    Directives (keys with a leading ``$``) order or delete list entries. Only those on
    finalizers mean something here, since no served built-in has another merging list.
    """
    result: dict[str, Any] = merge_patch(target, _without_directives(patch))
    wanted = patch.get("metadata")
    if isinstance(wanted, dict):
        removed = set(wanted.get("$deleteFromPrimitiveList/finalizers") or [])
        added = wanted.get("finalizers") or []
        if removed or added:
            held = (target.get("metadata") or {}).get("finalizers") or []
            merged = [one for one in dict.fromkeys([*held, *added]) if one not in removed]
            result["metadata"] = {**result["metadata"], "finalizers": merged}
    return result


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_directives(v) for k, v in value.items() if not k.startswith("$")}
    return value


_REQUIRED = object()


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise errors.rejected_patch()
    # The leading empty part addresses the document within its wrapper.
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")]


def _position(held: list[Any], part: str, *, end: bool) -> int:
    if end and part == "-":
        return len(held)
    if not part.isascii() or not part.isdigit() or (len(part) > 1 and part[0] == "0"):
        raise errors.rejected_patch()
    if len(part) > len(str(len(held))):  # before int, which refuses thousands of digits
        raise errors.rejected_patch()
    index = int(part)
    if index >= len(held) + end:
        raise errors.rejected_patch()
    return index


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
        if not isinstance(operation, dict):
            raise errors.bad_request("an operation of a JSON patch must be an object")
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
        if action in ("add", "replace", "test") and "value" not in operation:
            raise errors.rejected_patch()
        if action == "add":
            self._add(path, operation["value"])
        elif action == "remove":
            self._remove(path)
        elif action == "replace":
            self._read(path, absent=None)  # the real server adds a field that is not there
            self._set(path, operation["value"])
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
            self._add(path, self._copy(self._read(_pointer(operation.get("from")))))
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


def json_equal(one: Any, other: Any) -> bool:
    """JSON equality: unlike in Python, true is not 1; 1 equals 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(json_equal(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(json_equal, one, other))
    return bool(one == other)
