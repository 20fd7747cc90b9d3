"""Single checks of a value, each a closure that appends an error with upstream's text."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from math import inf, isfinite
from typing import Any

from datum_compute.api import fields
from datum_compute.apiserver.schema.formats import INT_RANGES, STRING_FORMATS
from datum_compute.apiserver.schema.outcome import PathKeys, SchemaOutcome, SchemaPath, Walk
from datum_compute.apiserver.schema.patterns import Pattern

TYPE_NAMES: dict[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
    type(None): "null",
}

Fails = Callable[[Any], bool]


def combine(checks: list[Walk]) -> Walk | None:
    """All of them in order as one, or None where there is nothing to check."""
    if len(checks) < 2:
        return checks[0] if checks else None
    parts = tuple(checks)

    def check(value: Any, loc: PathKeys, out: SchemaOutcome) -> None:
        for part in parts:
            part(value, loc, out)

    return check


def add_type_error(
    place: SchemaPath, wanted: str, value: Any, loc: PathKeys, out: SchemaOutcome
) -> None:
    path, found = place.at(loc), TYPE_NAMES[type(value)]
    detail = f'{path} in body must be of type {wanted}: "{found}"'
    out.add(fields.type_invalid(path, found, detail))


def string_checks(schema: Mapping[str, Any], place: SchemaPath) -> list[Walk]:
    checks = enum_checks(schema, place)
    if "maxLength" in schema or schema.get("minLength"):
        checks.append(_length(place, schema.get("minLength", 0), schema.get("maxLength")))
    if (pattern := schema.get("pattern")) is not None:
        checks.append(_pattern(place, pattern))
    accepts = STRING_FORMATS.get(schema.get("format", ""))
    if accepts is not None:
        checks.append(_format(place, schema["format"], accepts))
    if "pattern" in schema or accepts is not None:
        return [_remembered(combine(checks))]
    return checks


def _remembered(closely: Walk | None) -> Walk:
    """The same check, which looks at a short text once: names and the like are in many objects,
    and a pattern takes ten times as long as finding them."""
    assert closely is not None
    number = next(_numbers)

    def check(value: Any, loc: PathKeys, out: SchemaOutcome) -> None:
        if (number, value) in _passed:
            return
        before = len(out.errors)
        closely(value, loc, out)
        if len(value) <= _REMEMBERED_LENGTH and len(out.errors) == before:
            if len(_passed) >= _REMEMBERED_TEXTS:
                _passed.clear()
            _passed.add((number, value))

    return check


_numbers = count()
_passed: set[tuple[int, str]] = set()
"""The numbers of checks, and texts that have passed them."""
_REMEMBERED_LENGTH = 64
_REMEMBERED_TEXTS = 8192
"""Of all schemas together: at most two megabytes."""


def number_checks(schema: Mapping[str, Any], place: SchemaPath) -> list[Walk]:
    checks = enum_checks(schema, place)
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None or most is not None:
        above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
        checks.append(_range(place, _Bound(least, bool(above)), _Bound(most, bool(below))))
    if step := schema.get("multipleOf"):
        text = f"should be a multiple of {plain(step)}"
        checks.append(_invalid(place, lambda value: not _is_multiple(value, step), text))
    limits = INT_RANGES.get(schema.get("format", ""))
    if limits is not None and schema.get("type") == "integer":
        checks.append(_int_format(place, schema["format"], limits))
    return checks


def enum_checks(schema: Mapping[str, Any], place: SchemaPath) -> list[Walk]:
    allowed = schema.get("enum")
    if not allowed:
        return []
    listed = [one if isinstance(one, str) else encode(one) for one in allowed]
    # By canonical text where needed: in Python True equals 1, in JSON it does not.
    keys = frozenset(map(canonical, allowed))
    strings = frozenset(one for one in allowed if isinstance(one, str))

    def check(value: Any, loc: PathKeys, out: SchemaOutcome) -> None:
        if type(value) is str:
            if value in strings:
                return
        elif canonical(value) in keys:
            return
        out.add(fields.not_supported(place.at(loc), value, listed))

    return [check]


def size_checks(schema: Mapping[str, Any], place: SchemaPath) -> list[Walk]:
    """How many items a list, or how many entries an object may have."""
    checks: list[Walk] = []
    for most in (schema.get("maxItems"), schema.get("maxProperties")):
        if most is not None:
            checks.append(_too_many(place, most))
    for least, what in ((schema.get("minItems"), "items"), (schema.get("minProperties"), None)):
        if least:
            checks.append(_too_few(place, least, what or "properties"))
    return checks


def uniqueness_checks(schema: Mapping[str, Any], place: SchemaPath) -> list[Walk]:
    """``x-kubernetes-list-type`` set and map, and ``uniqueItems``."""
    list_type = schema.get("x-kubernetes-list-type")
    if list_type == "map":
        return [_unique_by(place, tuple(schema.get("x-kubernetes-list-map-keys", ())))]
    if list_type == "set":
        return [_unique(place)]
    if schema.get("uniqueItems"):
        text = "shouldn't contain duplicates"
        return [_invalid(place, lambda value: not _all_differ(value), text)]
    return []


def _invalid(place: SchemaPath, fails: Fails, text: str) -> Walk:
    def check(value: Any, loc: PathKeys, out: SchemaOutcome) -> None:
        if fails(value):
            path = place.at(loc)
            out.add(fields.invalid(path, value, f"{path} in body {text}"))

    return check


def _length(place: SchemaPath, shortest: int, longest: int | None) -> Walk:
    most = sys.maxsize if longest is None else longest

    def check(value: Any, loc: PathKeys, out: SchemaOutcome) -> None:
        if shortest <= len(value) <= most:
            return
        path = place.at(loc)
        if len(value) > most:
            out.add(fields.too_long(path, value, most))
        else:
            detail = f"{path} in body should be at least {shortest} chars long"
            out.add(fields.invalid(path, value, detail))

    return check


def _pattern(place: SchemaPath, pattern: str) -> Walk:
    matches = Pattern(pattern).matches

    def check(value: Any, loc: PathKeys, out: SchemaOutcome) -> None:
        if not matches(value):
            path = place.at(loc)
            out.add(fields.invalid(path, value, f"{path} in body should match '{pattern}'"))

    return check


@dataclass(frozen=True, slots=True)
class _Bound:
    value: float | None
    exclusive: bool


def _range(place: SchemaPath, lower: _Bound, upper: _Bound) -> Walk:
    least = -inf if lower.value is None else lower.value
    most = inf if upper.value is None else upper.value
    not_least = lower.exclusive and lower.value is not None
    not_most = upper.exclusive and upper.value is not None
    at_least = f"should be greater than {'' if not_least else 'or equal to '}{plain(least)}"
    at_most = f"should be less than {'' if not_most else 'or equal to '}{plain(most)}"

    def check(value: Any, loc: PathKeys, out: SchemaOutcome) -> None:
        if least < value < most:
            return
        path = place.at(loc)
        if value < least or (not_least and value == least):
            out.add(fields.invalid(path, value, f"{path} in body {at_least}"))
        if value > most or (not_most and value == most):
            out.add(fields.invalid(path, value, f"{path} in body {at_most}"))

    return check


def _format(place: SchemaPath, name: str, accepts: Callable[[str], bool]) -> Walk:
    def check(value: Any, loc: PathKeys, out: SchemaOutcome) -> None:
        if not accepts(value):
            path = place.at(loc)
            detail = f"{path} in body must be of type {name}: {encode(value)}"
            out.add(fields.type_invalid(path, value, detail))

    return check


def _int_format(place: SchemaPath, name: str, limits: tuple[int, int]) -> Walk:
    least, most = limits

    def check(value: Any, loc: PathKeys, out: SchemaOutcome) -> None:
        if not least <= value <= most:
            path = place.at(loc)
            detail = f"Checked value must be of type integer with format {name} in {path}"
            out.add(fields.invalid(path, value, detail))

    return check


def _too_many(place: SchemaPath, most: int) -> Walk:
    def check(value: Any, loc: PathKeys, out: SchemaOutcome) -> None:
        if len(value) > most:
            out.add(fields.too_many(place.at(loc), len(value), most))

    return check


def _too_few(place: SchemaPath, least: int, what: str) -> Walk:
    def check(value: Any, loc: PathKeys, out: SchemaOutcome) -> None:
        if len(value) < least:
            path = place.at(loc)
            detail = f"{path} in body should have at least {least} {what}"
            out.add(fields.invalid(path, len(value), detail))

    return check


def _unique(place: SchemaPath) -> Walk:
    entry = place.entry()

    def check(value: Any, loc: PathKeys, out: SchemaOutcome) -> None:
        if _all_differ(value):
            return
        seen = set()
        for index, item in enumerate(value):
            key = canonical(item)
            if key in seen:
                out.add(fields.duplicate(entry.at((*loc, index)), item))
            seen.add(key)

    return check


def _unique_by(place: SchemaPath, names: tuple[str, ...]) -> Walk:
    entry = place.entry()
    only = names[0] if len(names) == 1 else None

    def check(value: Any, loc: PathKeys, out: SchemaOutcome) -> None:
        if len(value) < 2 or (only is not None and _differ_in(value, only)):
            return
        seen = set()
        for index, item in enumerate(value):
            if type(item) is not dict:
                continue  # already reported as of the wrong type
            key = tuple([canonical(item.get(name)) for name in names])
            if key in seen:
                keys = {name: item[name] for name in names if name in item}
                out.add(fields.duplicate(entry.at((*loc, index)), keys))
            seen.add(key)

    return check


def _differ_in(items: list[Any], name: str) -> bool:
    """Whether all items differ in this one text; False where a full comparison must decide."""
    try:
        texts = {item[name] for item in items}
    except (KeyError, TypeError):
        return False
    return len(texts) == len(items) and all(type(text) is str for text in texts)


def _all_differ(items: list[Any]) -> bool:
    return len(items) < 2 or len(set(map(canonical, items))) == len(items)


def _is_multiple(value: float, step: float) -> bool:
    try:
        quotient = value / step
    except OverflowError:  # an integer beyond every float
        return False
    if not isfinite(quotient):
        return False
    return abs(quotient - round(quotient)) < 1e-9


def canonical(value: Any) -> Any:
    """Hashable, and equal exactly for values that JSON calls equal."""
    kind = type(value)
    if kind is str or kind is int or kind is float:
        return value
    if kind is bool or value is None:
        return (value,)  # apart from 0 and 1
    # Numbers of equal value may be spelled 1 and 1.0; a container keeps them apart, which
    # only matters to lists of objects that are compared whole.
    return ("json", json.dumps(value, sort_keys=True, separators=(",", ":")))


def plain(number: float) -> str:
    """As Go prints a float: no decimals where there are none."""
    if isinstance(number, float) and number.is_integer() and abs(number) < 1e21:
        return str(int(number))
    return str(number)


def encode(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
