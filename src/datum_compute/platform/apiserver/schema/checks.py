"""Single checks of a value, each a closure that appends its fault in upstream's words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from datum_compute.api import fields
from datum_compute.platform.apiserver.schema.formats import INT_RANGES, STRING_FORMATS
from datum_compute.platform.apiserver.schema.outcome import Location, Outcome, Place, Walk
from datum_compute.platform.apiserver.schema.patterns import compile_pattern

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
    every = tuple(checks)

    def check(value: Any, loc: Location, out: Outcome) -> None:
        for one in every:
            one(value, loc, out)

    return check


def add_type_error(place: Place, wanted: str, value: Any, loc: Location, out: Outcome) -> None:
    path, found = place.at(loc), TYPE_NAMES[type(value)]
    detail = f'{path} in body must be of type {wanted}: "{found}"'
    out.errors.append(fields.type_invalid(path, found, detail))


def string_checks(schema: Mapping[str, Any], place: Place) -> list[Walk]:
    checks = enum_checks(schema, place)
    if (longest := schema.get("maxLength")) is not None:
        checks.append(_max_length(place, longest))
    if shortest := schema.get("minLength"):
        words = f"should be at least {shortest} chars long"
        checks.append(_invalid(place, lambda value: len(value) < shortest, words))
    if (pattern := schema.get("pattern")) is not None:
        search = compile_pattern(pattern).search
        words = f"should match '{pattern}'"
        checks.append(_invalid(place, lambda value: search(value) is None, words))
    accepts = STRING_FORMATS.get(schema.get("format", ""))
    if accepts is not None:
        checks.append(_format(place, schema["format"], accepts))
    return checks


def number_checks(schema: Mapping[str, Any], place: Place) -> list[Walk]:
    checks = enum_checks(schema, place)
    if (least := schema.get("minimum")) is not None:
        if schema.get("exclusiveMinimum"):
            words = f"should be greater than {plain(least)}"
            checks.append(_invalid(place, lambda value: value <= least, words))
        else:
            words = f"should be greater than or equal to {plain(least)}"
            checks.append(_invalid(place, lambda value: value < least, words))
    if (most := schema.get("maximum")) is not None:
        if schema.get("exclusiveMaximum"):
            words = f"should be less than {plain(most)}"
            checks.append(_invalid(place, lambda value: value >= most, words))
        else:
            words = f"should be less than or equal to {plain(most)}"
            checks.append(_invalid(place, lambda value: value > most, words))
    if step := schema.get("multipleOf"):
        words = f"should be a multiple of {plain(step)}"
        checks.append(_invalid(place, lambda value: not _is_multiple(value, step), words))
    limits = INT_RANGES.get(schema.get("format", ""))
    if limits is not None and schema.get("type") == "integer":
        checks.append(_int_format(place, schema["format"], limits))
    return checks


def enum_checks(schema: Mapping[str, Any], place: Place) -> list[Walk]:
    allowed = schema.get("enum")
    if not allowed:
        return []
    listed = [one if isinstance(one, str) else encode(one) for one in allowed]
    # By canonical text where needed: in Python True equals 1, in JSON it does not.
    keys = frozenset(map(canonical, allowed))
    strings = frozenset(one for one in allowed if isinstance(one, str))

    def check(value: Any, loc: Location, out: Outcome) -> None:
        if type(value) is str:
            if value in strings:
                return
        elif canonical(value) in keys:
            return
        out.errors.append(fields.not_supported(place.at(loc), value, listed))

    return [check]


def size_checks(schema: Mapping[str, Any], place: Place) -> list[Walk]:
    """How many items a list, or how many entries an object may have."""
    checks: list[Walk] = []
    for most in (schema.get("maxItems"), schema.get("maxProperties")):
        if most is not None:
            checks.append(_too_many(place, most))
    for least, what in ((schema.get("minItems"), "items"), (schema.get("minProperties"), None)):
        if least:
            checks.append(_too_few(place, least, what or "properties"))
    return checks


def uniqueness_checks(schema: Mapping[str, Any], place: Place) -> list[Walk]:
    """``x-kubernetes-list-type`` set and map, and ``uniqueItems``."""
    list_type = schema.get("x-kubernetes-list-type")
    if list_type == "map":
        return [_unique_by(place, tuple(schema.get("x-kubernetes-list-map-keys", ())))]
    if list_type == "set":
        return [_unique(place)]
    if schema.get("uniqueItems"):
        words = "shouldn't contain duplicates"
        return [_invalid(place, lambda value: not _all_differ(value), words)]
    return []


def _invalid(place: Place, fails: Fails, words: str) -> Walk:
    def check(value: Any, loc: Location, out: Outcome) -> None:
        if fails(value):
            path = place.at(loc)
            out.errors.append(fields.invalid(path, value, f"{path} in body {words}"))

    return check


def _max_length(place: Place, longest: int) -> Walk:
    def check(value: Any, loc: Location, out: Outcome) -> None:
        if len(value) > longest:
            out.errors.append(fields.too_long(place.at(loc), value, longest))

    return check


def _format(place: Place, name: str, accepts: Callable[[str], bool]) -> Walk:
    def check(value: Any, loc: Location, out: Outcome) -> None:
        if not accepts(value):
            path = place.at(loc)
            detail = f"{path} in body must be of type {name}: {encode(value)}"
            out.errors.append(fields.type_invalid(path, value, detail))

    return check


def _int_format(place: Place, name: str, limits: tuple[int, int]) -> Walk:
    least, most = limits

    def check(value: Any, loc: Location, out: Outcome) -> None:
        if not least <= value <= most:
            path = place.at(loc)
            detail = f"Checked value must be of type integer with format {name} in {path}"
            out.errors.append(fields.invalid(path, value, detail))

    return check


def _too_many(place: Place, most: int) -> Walk:
    def check(value: Any, loc: Location, out: Outcome) -> None:
        if len(value) > most:
            out.errors.append(fields.too_many(place.at(loc), len(value), most))

    return check


def _too_few(place: Place, least: int, what: str) -> Walk:
    def check(value: Any, loc: Location, out: Outcome) -> None:
        if len(value) < least:
            path = place.at(loc)
            detail = f"{path} in body should have at least {least} {what}"
            out.errors.append(fields.invalid(path, len(value), detail))

    return check


def _unique(place: Place) -> Walk:
    entry = place.entry()

    def check(value: Any, loc: Location, out: Outcome) -> None:
        if _all_differ(value):
            return
        seen = set()
        for index, item in enumerate(value):
            key = canonical(item)
            if key in seen:
                out.errors.append(fields.duplicate(entry.at((*loc, index)), item))
            seen.add(key)

    return check


def _unique_by(place: Place, names: tuple[str, ...]) -> Walk:
    entry = place.entry()

    def check(value: Any, loc: Location, out: Outcome) -> None:
        if len(value) < 2:
            return
        seen = set()
        for index, item in enumerate(value):
            if type(item) is not dict:
                continue  # already reported as of the wrong type
            key = tuple([canonical(item.get(name)) for name in names])
            if key in seen:
                shown = {name: item[name] for name in names if name in item}
                out.errors.append(fields.duplicate(entry.at((*loc, index)), shown))
            seen.add(key)

    return check


def _all_differ(items: list[Any]) -> bool:
    return len(items) < 2 or len(set(map(canonical, items))) == len(items)


def _is_multiple(value: float, step: float) -> bool:
    quotient = value / step
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
