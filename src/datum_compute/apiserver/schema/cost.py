"""Which schemas take long to compile, or make a small object take long to validate.

The numbers are guesses: several times what ordinary definitions have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

MAX_BYTES = 64 * 1024
MAX_PARTS = 50
"""Of allOf, anyOf, oneOf and not: each of them sees every value below it."""
MAX_DEFAULT_BYTES = 1024
"""Each object of a list may get all of them."""
MAX_PATTERN_STEPS = 100_000
"""Of all patterns: a repetition is compiled as often as it may repeat."""
MAX_RULE_CHARACTERS = 8 * 1024
"""Of all rules in CEL: some 30 ms to compile."""

_REPEATS = re.compile(r"\{(?:\d*,)?(\d+)")


def is_costly(source: Mapping[str, Any], text: bytes) -> bool:
    """``text`` is the JSON of ``source``."""
    if len(text) > MAX_BYTES:
        return True
    parts = defaults = steps = rules = 0
    waiting: list[Any] = [source]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            for key in ("allOf", "anyOf", "oneOf"):
                parts += len(node[key]) if isinstance(node.get(key), list) else 0
            parts += "not" in node
            if "default" in node:
                defaults += len(msgspec.json.encode(node["default"]))
            if isinstance(pattern := node.get("pattern"), str):
                steps += len(pattern) * max(map(int, _REPEATS.findall(pattern)), default=1)
            for rule in node.get("x-kubernetes-validations") or ():
                rules += len(str(rule))
            waiting += node.values()
    if rules > MAX_RULE_CHARACTERS:
        return True
    return parts > MAX_PARTS or defaults > MAX_DEFAULT_BYTES or steps > MAX_PATTERN_STEPS
