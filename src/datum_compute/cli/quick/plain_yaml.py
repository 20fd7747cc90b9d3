"""Kubeconfigs as tools write them, read without a YAML library.

Loading that library takes longer than the rest of a short command. What kubectl, cloud tools
and we ourselves write uses little of YAML: mappings and lists in block form, one key or entry
a line, values on the same line. That much is read here, and exactly as YAML means it; for
everything else the answer is None, and the library is asked.
"""

from __future__ import annotations

import json
import re
from typing import Any

_KEY = re.compile(r"([A-Za-z][A-Za-z0-9_.-]*):(?: +(.*))?")
_TEXT = re.compile(r"[A-Za-z/][A-Za-z0-9_./@+=-]*(?::[A-Za-z0-9_./@+=-]+)*")
"""Plain words that begin like no number, no time and no sign of YAML's."""
_WORDS = {"true": True, "false": False, "null": None}
_MEANT = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""Words that are not texts, in some spelling or version of YAML."""


class _Unusual(Exception):
    """More than is read here."""


YamlLine = tuple[int, str]
"""How far it is indented, and what it says."""


def parse_plain_yaml(text: str) -> dict[str, Any] | None:
    """The mapping in ``text``; None where it takes a YAML library to read."""
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
            # A list may stand as far left as the key it belongs to.
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
    """In double quotes; escapes are JSON's, save one that only JSON pairs up."""
    try:
        value = json.loads(content)
    except ValueError:
        raise _Unusual from None
    if not isinstance(value, str) or "\\u" in content or "\\/" in content:
        raise _Unusual
    return value
