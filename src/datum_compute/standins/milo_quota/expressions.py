"""The subset of CEL that grant policies need: fields of the trigger, strings and equality.

``trigger.metadata.name``, ``trigger.metadata.labels["tier"]``, ``'text'``, ``a == b`` and
``a != b``, joined by ``&&``. In a template ``{{ }}`` holds one of these. Everything else is
an :class:`ExpressionError`. A missing field is empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_TEXT = r"'[^'\\]*'|\"[^\"\\]*\""
_FIELD = rf"trigger(?:\.[A-Za-z_]\w*|\[(?:{_TEXT})\])+"
_OPERAND = re.compile(rf"\s*(?:(?P<field>{_FIELD})|(?P<text>{_TEXT}))\s*")
_STEP = re.compile(rf"\.([A-Za-z_]\w*)|\[({_TEXT})\]")
_COMPARISON = re.compile(r"==|!=")
_HOLE = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)


class ExpressionError(Exception):
    """The expression is outside the supported subset."""


def evaluate(expression: str, trigger: Mapping[str, Any]) -> str:
    """The value of an expression as text."""
    match = _OPERAND.fullmatch(expression)
    if match is None:
        raise ExpressionError(
            f'"{expression}" is not supported: expected a field of trigger, or a string'
        )
    if text := match["text"]:
        return text[1:-1]
    value: Any = trigger
    for name, key in _STEP.findall(match["field"]):
        value = value.get(name or key[1:-1]) if isinstance(value, Mapping) else None
    return "" if value is None else str(value)


def holds(expression: str, trigger: Mapping[str, Any]) -> bool:
    """Whether a condition is met."""
    answers = [_is_equal(part, trigger) for part in expression.split("&&")]
    return all(answers)


def _is_equal(expression: str, trigger: Mapping[str, Any]) -> bool:
    sides = _COMPARISON.split(expression)
    if len(sides) != 2:
        raise ExpressionError(f'"{expression.strip()}" is not supported: expected a == b or a != b')
    left, right = (evaluate(side, trigger) for side in sides)
    return (left == right) == ("==" in _COMPARISON.findall(expression))


def render(template: str, trigger: Mapping[str, Any]) -> str:
    """A template with its ``{{ }}`` evaluated."""
    return _HOLE.sub(lambda hole: evaluate(hole[1], trigger), template)
