"""Kubeconfigs as tools write them, parsed without a YAML library.

Importing that library takes longer than the rest of a short command. kubectl, cloud tools and this
program use little of YAML: mappings and lists in block form, one key or entry per line,
values on the same line. That subset is parsed here, exactly as YAML defines it; for anything
else the result is None, and the caller uses the library.
"""

from __future__ import annotations

import json
import re
from typing import Any

_KEY = re.compile(r"([A-Za-z][A-Za-z0-9_.-]*):(?: +(.*))?")
_TEXT = re.compile(r"[A-Za-z/][A-Za-z0-9_./@+=-]*(?::[A-Za-z0-9_./@+=-]+)*")
"""Plain scalars that cannot be a number, a time or an indicator of YAML."""
_WORDS = {"true": True, "false": False, "null": None}
_MEANT = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""Scalars that are not strings, in some spelling or version of YAML."""


class _Unusual(Exception):
    """More than this subset."""


YamlLine = tuple[int, str]
"""Its indentation and its text."""


def parse_plain_yaml(text: str) -> dict[str, Any] | None:
    """The mapping in ``text``; None if it needs a YAML library."""
    try:
        lines = _lines(text)
        value, end = _block(lines, 0, 0)
    except (_Unusual, RecursionError):
        return None
    return value if end == len(lines) and isinstance(value, dict) else None


def _lines(text: str) -> list[YamlLine]:
    if not text.isascii() or "\t" in text or "\r" in text or "\0" in text:
        raise _Unusual
    found = []
    for line in text.split("\n"):
        content = line.strip(" ")
        if content and not content.startswith("#"):
            found.append((len(line) - len(line.lstrip(" ")), content))
    return found


def _block(lines: list[YamlLine], at: int, least: int) -> tuple[Any, int]:
    """The mapping or list that begins at a line, and the line after it."""
    if at == len(lines) or lines[at][0] < least:
        return None, at
    if lines[at][1].startswith("- "):
        return _list(lines, at)
    return _mapping(lines, at)


def _mapping(lines: list[YamlLine], at: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    indent = lines[at][0]
    while at < len(lines) and lines[at][0] == indent and not lines[at][1].startswith("- "):
        matched = _KEY.fullmatch(lines[at][1])
        if matched is None:
            raise _Unusual
        key, content = matched.groups()
        if key in found or key.lower() in _MEANT:
            raise _Unusual
        at += 1
        if content:
            found[key] = _scalar(content)
        else:
            # A list may be indented as far as the key it belongs to.
            is_list = at < len(lines) and lines[at][1].startswith("- ")
            found[key], at = _block(lines, at, indent if is_list else indent + 1)
    if at < len(lines) and lines[at][0] > indent:
        raise _Unusual
    return found, at


def _list(lines: list[YamlLine], at: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    indent = lines[at][0]
    while at < len(lines) and lines[at][0] == indent and lines[at][1].startswith("- "):
        content = lines[at][1][2:]
        inner = content.lstrip(" ")
        if _KEY.fullmatch(inner) is None:
            found.append(_scalar(inner))
            at += 1
            continue
        # A mapping whose first key follows the dash.
        lines[at] = (indent + 2 + len(content) - len(inner), inner)
        value, at = _mapping(lines, at)
        found.append(value)
    if at < len(lines) and lines[at][0] > indent:
        raise _Unusual
    return found, at


def _scalar(content: str) -> Any:
    if content in _WORDS:
        return _WORDS[content]
    if content in ("{}", "[]"):
        return {} if content == "{}" else []
    if content.startswith('"'):
        return _quoted(content)
    if _TEXT.fullmatch(content) is None or content.lower() in _MEANT:
        raise _Unusual
    return content


def _quoted(content: str) -> str:
    """A string in double quotes. Unicode escapes and escaped slashes are left to the library."""
    try:
        value = json.loads(content)
    except ValueError:
        raise _Unusual from None
    if not isinstance(value, str) or "\\u" in content or "\\/" in content:
        raise _Unusual
    return value
