"""Whether a copy on another plane still says what its source says.

The target may know more than the source: its server fills in defaults. So a copy is
current when everything the source says stands in the target. Lists are compared item by
item: a list with more items says something else.
"""

from __future__ import annotations

from typing import Any


def is_subset(source: Any, target: Any) -> bool:
    """Whether ``target`` (JSON values) holds everything ``source`` does."""
    if isinstance(source, dict):
        if not isinstance(target, dict):
            return not source and target is None
        return all(is_subset(value, target.get(key)) for key, value in source.items())
    if isinstance(source, list):
        if not isinstance(target, list) or len(source) != len(target):
            return not source and target is None
        return all(is_subset(mine, theirs) for mine, theirs in zip(source, target, strict=True))
    # True == 1 in Python, but not in JSON.
    return source == target and isinstance(source, bool) == isinstance(target, bool)
