"""Applying patches to plain JSON values.

Results share subtrees with their inputs where nothing changed: treat both as immutable
afterwards. Errors have the real server's texts.
"""

from __future__ import annotations

from typing import Any

from datum_compute.apiserver import errors
from datum_compute.apiserver.codec import MAX_BODY, check_depth, encode_json

MAX_OPERATIONS = 10_000
"""Of one JSON patch: the real server's limit."""

MAX_COPIED = MAX_BODY
"""Bytes that all copies of one JSON patch may add, as upstream: each copy can double what is
there, so a few dozen would fill any memory."""


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
        removed = wanted.get("$deleteFromPrimitiveList/finalizers") or []
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
    root = {"": target}
    copied = 0
    for operation in operations:
        if not isinstance(operation, dict):
            raise errors.bad_request("an operation of a JSON patch must be an object")
        copied += _operate(root, operation)
        if copied > MAX_COPIED:
            raise errors.rejected_patch()
    result = root[""]
    if isinstance(result, dict):  # each operation may have put its value deeper
        check_depth(result)
    return result


def _operate(root: dict[str, Any], operation: dict[str, Any]) -> int:
    """Apply one operation. Returns how many bytes it copied."""
    action = operation.get("op")
    path = _pointer(operation.get("path"))
    if action in ("add", "replace", "test") and "value" not in operation:
        raise errors.rejected_patch()
    if action == "add":
        _add(root, path, operation["value"])
    elif action == "remove":
        _remove(root, path)
    elif action == "replace":
        _read(root, path, absent=None)  # the real server adds a field that is not there
        _set(root, path, operation["value"])
    elif action == "test":
        if not json_equal(_read(root, path, absent=None), operation["value"]):
            raise errors.rejected_patch()
    elif action in ("move", "copy"):
        source = _pointer(operation.get("from"))
        value = _read(root, source)
        if action == "move":
            if path[: len(source)] == source and path != source:
                raise errors.rejected_patch()
            _remove(root, source)
        _add(root, path, value)
        return len(encode_json(value)) if action == "copy" else 0
    else:
        raise errors.rejected_patch()
    return 0


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
    index = int(part)
    if index >= len(held) + end:
        raise errors.rejected_patch()
    return index


def _read(root: dict[str, Any], path: list[str], absent: Any = _REQUIRED) -> Any:
    value: Any = root
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


def _own(root: dict[str, Any], path: list[str]) -> Any:
    """The container of the path's last part, copied all the way down so it may be changed."""
    held: Any = root
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
        inner = held[key] = inner.copy()
        held = inner
    return held


def _add(root: dict[str, Any], path: list[str], value: Any) -> None:
    held = _own(root, path)
    if isinstance(held, list):
        held.insert(_position(held, path[-1], end=True), value)
    else:
        held[path[-1]] = value


def _set(root: dict[str, Any], path: list[str], value: Any) -> None:
    held = _own(root, path)
    if isinstance(held, list):
        held[_position(held, path[-1], end=False)] = value
    else:
        held[path[-1]] = value


def _remove(root: dict[str, Any], path: list[str]) -> None:
    held = _own(root, path)
    if isinstance(held, list):
        del held[_position(held, path[-1], end=False)]
    elif path[-1] in held and len(path) > 1:
        del held[path[-1]]
    else:
        raise errors.rejected_patch()


def json_equal(one: Any, other: Any) -> bool:
    """JSON equality: unlike in Python, true is not 1; 1 equals 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(json_equal(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(json_equal, one, other))
    return bool(one == other)
