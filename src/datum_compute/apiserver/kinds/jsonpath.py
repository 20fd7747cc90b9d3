"""The part of JSONPath that printer columns and selectable fields are written in.

``.spec.replicas``, ``.status.conditions[?(@.type=="Ready")].status``, ``.items[0]``,
``.list[*].name``, ``.metadata.labels.app\\.kubernetes\\.io/name``, ``['a.b']``. Compiled once per
text; a path that matches nothing gives no results.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import takewhile
from typing import Any

Find = Callable[[Any], list[Any]]
"""Values found in an object, in document order. ``Any`` is whatever JSON holds."""

_Step = Callable[[Any], Iterable[Any]]

_TOKEN = re.compile(
    r"""\.(?P<field>(?:\\.|[^.\[\]\\])+)
      | \[\s*(?P<index>-?\d+)\s*\]
      | \[\s*'(?P<single>(?:\\.|[^'\\])*)'\s*\]
      | \[\s*"(?P<double>(?:\\.|[^"\\])*)"\s*\]
      | (?P<every>\[\s*\*\s*\]|\.\*)
      | \[\?\(\s*@(?P<path>\.[^=!<>\s]+)\s*(?P<op>==|!=)\s*
          (?P<operand>'[^']*'|"[^"]*"|true|false|-?\d+)\s*\)\]
    """,
    re.VERBOSE,
)


@lru_cache(maxsize=1024)
def compile_path(text: str) -> Find:
    """Raises ValueError, with the position, on a path outside this subset."""
    path = text.strip()
    if path.startswith("{") and path.endswith("}"):
        path = path[1:-1].strip()
    path = path.removeprefix("$")
    if path and path[0] not in ".[":
        path = f".{path}"
    tokens = list(_tokens(path, text))
    if not tokens:
        raise ValueError(f"no path in {text!r}")
    names = [_name(token) for token in takewhile(_is_field, tokens)]
    return _finder(tuple(names), tuple(map(_step, tokens[len(names) :])))


def _finder(names: tuple[str, ...], steps: tuple[_Step, ...]) -> Find:
    """Leading field names, most of a path, are followed without building lists."""

    def find(obj: Any) -> list[Any]:
        for name in names:
            if not isinstance(obj, dict) or name not in obj:
                return []
            obj = obj[name]
        found = [obj]
        for step in steps:
            found = [value for one in found for value in step(one)]
        return found

    return find


def _tokens(path: str, text: str) -> Iterator[re.Match[str]]:
    position = 0
    while position < len(path):
        token = _TOKEN.match(path, position)
        if token is None:
            raise ValueError(f"unsupported syntax at {path[position:]!r} in {text!r}")
        yield token
        position = token.end()


def _is_field(token: re.Match[str]) -> bool:
    return token["every"] is None and token["index"] is None and token["path"] is None


def _name(token: re.Match[str]) -> str:
    name = token["field"] or token["single"] or token["double"] or ""
    return re.sub(r"\\(.)", r"\1", name)


def _step(token: re.Match[str]) -> _Step:
    if token["every"] is not None:
        return _every
    if token["index"] is not None:
        return _item(int(token["index"]))
    if token["path"] is not None:
        return _matching(token["path"], token["op"], _operand(token["operand"]))
    return _field(_name(token))


def _field(name: str) -> _Step:
    return lambda value: (value[name],) if isinstance(value, dict) and name in value else ()


def _item(index: int) -> _Step:
    def step(value: Any) -> Iterable[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            return (value[index],)
        return ()

    return step


def _every(value: Any) -> Iterable[Any]:
    if isinstance(value, list):
        return value
    return value.values() if isinstance(value, dict) else ()


def _matching(path: str, operator: str, operand: Any) -> _Step:
    wanted = operator == "=="
    tokens = list(_tokens(path, path))
    if len(tokens) == 1 and _is_field(tokens[0]):
        return _matching_field(_name(tokens[0]), operand, wanted=wanted)
    find = compile_path(path)

    def step(value: Any) -> Iterable[Any]:
        if not isinstance(value, list):
            return ()
        return [one for one in value if any((got == operand) == wanted for got in find(one))]

    return step


def _matching_field(name: str, operand: Any, *, wanted: bool) -> _Step:
    """The same for a path of one field, the usual filter: a table has several in each row, and they
    took two thirds of the time of a long table."""

    def step(value: Any) -> Iterable[Any]:
        if not isinstance(value, list):
            return ()
        return [
            one
            for one in value
            if isinstance(one, dict) and name in one and (one[name] == operand) == wanted
        ]

    return step


def _operand(text: str) -> Any:
    if text[0] in "'\"":
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    return int(text)
