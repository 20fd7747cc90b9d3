"""The functions and operators of expressions, each with the types it takes and gives.

Kubernetes' own are in ``kubernetes``. A function gets the budget first if its ``takes_budget``
says so; else a call is charged for the sizes of its arguments before it runs.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from datum_compute.apiserver.cel.syntax import Uint
from datum_compute.apiserver.cel.types import CelType, parse_type
from datum_compute.apiserver.cel.values import (
    Budget,
    CelError,
    Duration,
    Optional,
    Timestamp,
    TypeValue,
    contains,
    equal,
    format_double,
    to_duration,
    to_timestamp,
    type_name,
)
from datum_compute.apiserver.schema.patterns import Pattern

MAX_RESULT = 4 * 1024 * 1024
"""Characters of a text, or items of a list, that an expression may build."""


@dataclass(frozen=True, slots=True)
class Overload:
    params: tuple[CelType, ...]
    result: CelType
    run: Callable[..., Any]
    is_member: bool
    takes_budget: bool


OVERLOADS: dict[str, list[Overload]] = {}


def define(
    name: str,
    types: str,
    run: Callable[..., Any],
    *,
    member: bool = False,
    takes_budget: bool = False,
) -> None:
    """``types`` are those of the arguments, the target first, then ``->`` and the result's."""
    taken, _, given = types.rpartition("->")
    params = tuple(map(parse_type, taken.split()))
    overload = Overload(params, parse_type(given.strip()), run, member, takes_budget)
    OVERLOADS.setdefault(name, []).append(overload)


def define_member(name: str, types: str, run: Callable[..., Any]) -> None:
    define(name, types, run, member=True)


# Arithmetic.


def checked(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise CelError("integer overflow")
    return value


def _unsigned(value: int) -> Uint:
    if not 0 <= value < 2**64:
        raise CelError("unsigned integer overflow")
    return Uint(value)


def _quotient(one: int, other: int) -> int:
    if not other:
        raise CelError("division by zero")
    return abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)


def _remainder(one: int, other: int) -> int:
    if not other:
        raise CelError("modulus by zero")
    return abs(one) % abs(other) * (-1 if one < 0 else 1)


def _ratio(one: float, other: float) -> float:
    if other:
        return one / other
    return float("nan") if not one or one != one else float("inf") * (one if one > 0 else -1)


_INTEGERS: tuple[tuple[str, Callable[[int, int], int]], ...] = (
    ("_+_", operator.add),
    ("_-_", operator.sub),
    ("_*_", operator.mul),
    ("_/_", _quotient),
    ("_%_", _remainder),
)
for _name, _run in _INTEGERS:
    define(_name, "int int -> int", lambda a, b, run=_run: checked(run(a, b)))
    define(_name, "uint uint -> uint", lambda a, b, run=_run: _unsigned(run(a, b)))
for _name, _real in (
    ("_+_", operator.add),
    ("_-_", operator.sub),
    ("_*_", operator.mul),
    ("_/_", _ratio),
):
    define(_name, "double double -> double", _real)
define("-_", "int -> int", lambda a: checked(-a))
define("-_", "double -> double", operator.neg)
define("!_", "bool -> bool", operator.not_)


def _joined(one: Any, other: Any) -> Any:
    if len(one) + len(other) > MAX_RESULT:
        raise CelError("the result is too large")
    return one + other


for _type in ("string", "bytes", "list(A)"):
    define("_+_", f"{_type} {_type} -> {_type}", _joined)
_TIME, _SPAN = "google.protobuf.Timestamp", "google.protobuf.Duration"
define("_+_", f"{_TIME} {_SPAN} -> {_TIME}", lambda a, b: Timestamp(a.nanos + b.nanos))
define("_+_", f"{_SPAN} {_TIME} -> {_TIME}", lambda a, b: Timestamp(a.nanos + b.nanos))
define("_+_", f"{_SPAN} {_SPAN} -> {_SPAN}", lambda a, b: Duration(checked(a.nanos + b.nanos)))
define("_-_", f"{_TIME} {_TIME} -> {_SPAN}", lambda a, b: Duration(checked(a.nanos - b.nanos)))
define("_-_", f"{_TIME} {_SPAN} -> {_TIME}", lambda a, b: Timestamp(a.nanos - b.nanos))
define("_-_", f"{_SPAN} {_SPAN} -> {_SPAN}", lambda a, b: Duration(checked(a.nanos - b.nanos)))

# Comparison.

_NUMBERS = ("int", "uint", "double")
_ORDERED = (*_NUMBERS, "bool", "string", "bytes", _TIME, _SPAN)
for _name, _compare in (
    ("_<_", operator.lt),
    ("_<=_", operator.le),
    ("_>_", operator.gt),
    ("_>=_", operator.ge),
):
    for _type in _ORDERED:
        define(_name, f"{_type} {_type} -> bool", _compare)
    for _type in _NUMBERS:
        for _other in _NUMBERS:
            if _type != _other:
                define(_name, f"{_type} {_other} -> bool", _compare)
define("_==_", "A A -> bool", lambda budget, a, b: equal(a, b, budget), takes_budget=True)
define("_!=_", "A A -> bool", lambda budget, a, b: not equal(a, b, budget), takes_budget=True)


def _is_key(budget: Budget, key: Any, entries: dict[Any, Any]) -> bool:
    return any(equal(key, one, budget) for one in entries) if type(key) is float else key in entries


define("@in", "A list(A) -> bool", lambda budget, a, b: contains(b, a, budget), takes_budget=True)
define("@in", "K map(K,V) -> bool", _is_key, takes_budget=True)


def _index(items: list[Any], at: int) -> Any:
    if not 0 <= at < len(items):
        raise CelError(f"index out of bounds: {at}")
    return items[int(at)]


def _entry(entries: dict[Any, Any], key: Any) -> Any:
    try:
        return entries[key]
    except KeyError:
        raise CelError(f"no such key: {key}") from None


def _try(find: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Optional]:
    def run(holder: Any, key: Any) -> Optional:
        if isinstance(holder, Optional):
            if not holder.held:
                return holder
            (holder,) = holder.held
        try:
            return Optional((find(holder, key),))
        except CelError:
            return Optional()

    return run


for _holder, _key, _find in (("list(A)", "int", _index), ("map(K,A)", "K", _entry)):
    define("_[_]", f"{_holder} {_key} -> A", _find)
    define("_[?_]", f"{_holder} {_key} -> optional_type(A)", _try(_find))
    define("_[?_]", f"optional_type({_holder}) {_key} -> optional_type(A)", _try(_find))

# Conversions.


def _to_int(value: Any) -> int:
    if isinstance(value, Timestamp):
        return value.nanos // 10**9
    if isinstance(value, float) and not -(2**63) < value < 2**63:
        raise CelError("integer overflow")
    try:
        if isinstance(value, str) and not re.fullmatch(r"[-+]?[0-9]+", value):
            raise ValueError
        return checked(int(value))
    except ValueError:
        raise CelError(f"type conversion error from 'string' to 'int': {value}") from None


def _to_double(value: Any) -> float:
    try:
        return float(value)
    except ValueError:
        raise CelError(f"type conversion error from 'string' to 'double': {value}") from None


def _to_bool(text: str) -> bool:
    known = {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}
    if text.lower() not in known or text not in (text.lower(), text.upper(), text.title()):
        raise CelError("type conversion error from 'string' to 'bool'")
    return known[text.lower()]


def to_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format_double(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None
    return str(value)


for _type in ("int", "uint", "double", "string", _TIME):
    define("int", f"{_type} -> int", _to_int)
for _type in ("int", "uint", "double", "string"):
    define("uint", f"{_type} -> uint", lambda value: _unsigned(_to_int(value)))
    define("double", f"{_type} -> double", _to_double)
for _type in (*_ORDERED, "net.IP", "net.CIDR"):
    define("string", f"{_type} -> string", to_text)
define("bool", "bool -> bool", bool)
define("bool", "string -> bool", _to_bool)
define("bytes", "bytes -> bytes", bytes)
define("bytes", "string -> bytes", str.encode)
define("duration", "string -> google.protobuf.Duration", to_duration)
define("duration", f"{_SPAN} -> {_SPAN}", lambda value: value)
define("timestamp", "string -> google.protobuf.Timestamp", to_timestamp)
define("timestamp", "int -> google.protobuf.Timestamp", lambda value: Timestamp(value * 10**9))
define("timestamp", f"{_TIME} -> {_TIME}", lambda value: value)
define("dyn", "A -> dyn", lambda value: value)
define("type", "A -> type(A)", lambda value: TypeValue(type_name(value)))

# Sizes and texts. A size counts code points, as Python does.

for _type in ("string", "bytes", "list(A)", "map(K,V)"):
    define("size", f"{_type} -> int", len)
    define_member("size", f"{_type} -> int", len)


@lru_cache(maxsize=256)
def pattern(text: str) -> Pattern:
    try:
        return Pattern(text)
    except ValueError as error:
        raise CelError(str(error)) from None


def _matches(text: str, expression: str) -> bool:
    return pattern(expression).matches(text)


define("matches", "string string -> bool", _matches)
define_member("matches", "string string -> bool", _matches)
define_member("find", "string string -> string", lambda text, one: pattern(one).find(text))
define_member("findAll", "string string -> list(string)", lambda t, one: pattern(one).find_all(t))
define_member(
    "findAll",
    "string string int -> list(string)",
    lambda text, one, most: pattern(one).find_all(text)[: most if most >= 0 else None],
)
define_member("startsWith", "string string -> bool", str.startswith)
define_member("endsWith", "string string -> bool", str.endswith)
define_member("contains", "string string -> bool", lambda text, part: part in text)


def _within(text: str, at: int) -> int:
    if not 0 <= at <= len(text):
        raise CelError(f"index out of range: {at}")
    return at


def _substring(text: str, start: int, end: int) -> str:
    if _within(text, start) > _within(text, end):
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    return text[start:end]


_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_UPPER = {value: key for key, value in _LOWER.items()}
define_member("lowerAscii", "string -> string", lambda text: text.translate(_LOWER))
define_member("upperAscii", "string -> string", lambda text: text.translate(_UPPER))
define_member("trim", "string -> string", str.strip)
define_member("charAt", "string int -> string", lambda text, at: text[_within(text, at) :][:1])
define_member("substring", "string int -> string", lambda text, at: text[_within(text, at) :])
define_member("substring", "string int int -> string", _substring)
define_member("indexOf", "string string -> int", str.find)
define_member("indexOf", "string string int -> int", lambda t, p, at: t.find(p, _within(t, at)))
define_member("lastIndexOf", "string string -> int", str.rfind)
define_member(
    "lastIndexOf",
    "string string int -> int",
    lambda text, part, at: text.rfind(part, 0, _within(text, at) + len(part)),
)


def _replace(text: str, old: str, new: str, most: int = -1) -> str:
    times = text.count(old) if most < 0 else min(most, text.count(old))
    if len(text) + times * len(new) > MAX_RESULT:
        raise CelError("the result is too large")
    return text.replace(old, new, times)


def _split(text: str, separator: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    if not separator:
        parts = list(text)
        return parts if most < 0 else [*parts[: most - 1], "".join(parts[most - 1 :])]
    return text.split(separator, most - 1 if most > 0 else -1)


def _join(parts: list[str], separator: str = "") -> str:
    if sum(map(len, parts)) + len(separator) * len(parts) > MAX_RESULT:
        raise CelError("the result is too large")
    return separator.join(parts)


define_member("replace", "string string string -> string", _replace)
define_member("replace", "string string string int -> string", _replace)
define_member("split", "string string -> list(string)", _split)
define_member("split", "string string int -> list(string)", _split)
define_member("join", "list(string) -> string", _join)
define_member("join", "list(string) string -> string", _join)
_QUOTES = str.maketrans({**{c: repr(c)[1:-1] for c in "\n\r\t\\"}, '"': '\\"'})
define("strings.quote", "string -> string", lambda text: f'"{text.translate(_QUOTES)}"')

_CLAUSE = re.compile(r"%(?:\.(\d{1,2}))?(.)", re.DOTALL)


def _format(text: str, values: list[Any]) -> str:
    rest = list(values)

    def put(found: re.Match[str]) -> str:
        digits, verb = found.groups()
        if verb == "%":
            return "%"
        if not rest:
            raise CelError(f"index {len(values)} out of range")
        value = rest.pop(0)
        kind = type_name(value)
        if verb == "s":
            return _shown(value)
        if verb in "fe" and kind in _NUMBERS:
            return f"{float(value):.{digits or 6}{verb}}"
        if verb in "dboxX" and kind in ("int", "uint", "bool") and (kind != "bool" or verb == "b"):
            return f"{value:{verb}}"
        if verb in "xX" and kind in ("string", "bytes"):
            shown = str((value.encode() if kind == "string" else value).hex())
            return shown.upper() if verb == "X" else shown
        raise CelError(f"error during formatting: unsupported clause %{verb} for type {kind}")

    return _CLAUSE.sub(put, text)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_shown(k)}: {_shown(v)}' for k, v in sorted(value.items()))}}}"
    return (
        "null" if value is None else value.name if isinstance(value, TypeValue) else to_text(value)
    )


define_member("format", "string list(dyn) -> string", _format)

# Lists and sets.


def _zero(kind: str) -> Any:
    return {"uint": Uint(0), "double": 0.0, _SPAN: Duration(0)}.get(kind, 0)


def _sum(kind: str) -> Callable[[list[Any]], Any]:
    def run(items: list[Any]) -> Any:
        if kind == _SPAN:
            return Duration(checked(sum(one.nanos for one in items)))
        total = sum(items, _zero(kind))
        return total if kind == "double" else checked(total)

    return run


def _extreme(name: str, find: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def run(items: list[Any]) -> Any:
        if not items:
            raise CelError(f"{name} called on empty list")
        return find(items)

    return run


for _type in _ORDERED:
    define_member(
        "isSorted", f"list({_type}) -> bool", lambda items: all(a <= b for a, b in pairwise(items))
    )
    define_member("min", f"list({_type}) -> {_type}", _extreme("min", min))
    define_member("max", f"list({_type}) -> {_type}", _extreme("max", max))
for _type in (*_NUMBERS, _SPAN):
    define_member("sum", f"list({_type}) -> {_type}", _sum(_type))


def _position(budget: Budget, items: list[Any], value: Any, order: int = 1) -> int:
    budget.charge(len(items))
    places = range(len(items))[::order]
    return next((at for at in places if equal(items[at], value, budget)), -1)


define("indexOf", "list(A) A -> int", _position, member=True, takes_budget=True)
define(
    "lastIndexOf",
    "list(A) A -> int",
    lambda budget, items, value: _position(budget, items, value, -1),
    member=True,
    takes_budget=True,
)


def _has_all(budget: Budget, items: list[Any], wanted: list[Any]) -> bool:
    return all(contains(items, one, budget) for one in wanted)


_LISTS = "list(A) list(A) -> bool"
define("sets.contains", _LISTS, _has_all, takes_budget=True)
define(
    "sets.equivalent",
    _LISTS,
    lambda budget, a, b: _has_all(budget, a, b) and _has_all(budget, b, a),
    takes_budget=True,
)
define(
    "sets.intersects",
    _LISTS,
    lambda budget, a, b: any(contains(a, one, budget) for one in b),
    takes_budget=True,
)

# Times.


def _zone(name: str) -> Callable[[Timestamp], timedelta]:
    if found := re.fullmatch(r"([+-]?)(\d\d):(\d\d)", name):
        sign = -1 if found[1] == "-" else 1
        return lambda _: sign * timedelta(hours=int(found[2]), minutes=int(found[3]))
    try:
        zone = ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise CelError(f"unknown time zone {name}") from None
    return lambda time: zone.utcoffset(time.at(timedelta())) or timedelta()


_PARTS: tuple[tuple[str, Callable[[Any], int]], ...] = (
    ("getFullYear", lambda t: t.year),
    ("getMonth", lambda t: t.month - 1),
    ("getDayOfYear", lambda t: t.timetuple().tm_yday - 1),
    ("getDayOfMonth", lambda t: t.day - 1),
    ("getDate", lambda t: t.day),
    ("getDayOfWeek", lambda t: t.isoweekday() % 7),
    ("getHours", lambda t: t.hour),
    ("getMinutes", lambda t: t.minute),
    ("getSeconds", lambda t: t.second),
    ("getMilliseconds", lambda t: t.microsecond // 1000),
)
for _name, _part in _PARTS:
    define_member(_name, f"{_TIME} -> int", lambda time, part=_part: part(time.at(timedelta())))
    define_member(
        _name,
        f"{_TIME} string -> int",
        lambda time, zone, part=_part: part(time.at(_zone(zone)(time))),
    )
for _name, _unit in (("Hours", 3600 * 10**9), ("Minutes", 60 * 10**9), ("Seconds", 10**9)):
    define_member(
        f"get{_name}", f"{_SPAN} -> int", lambda span, unit=_unit: _quotient(span.nanos, unit)
    )
define_member(
    "getMilliseconds", f"{_SPAN} -> int", lambda span: _quotient(span.nanos, 10**6) % 1000
)

# Optional values.


def _value(optional: Optional) -> Any:
    if not optional.held:
        raise CelError("optional.none() dereference")
    return optional.held[0]


_ZEROS: tuple[Any, ...] = (0, 0.0, "", b"", [], {}, None, False, Duration(0))
_MAYBE = "optional_type(A)"
define("optional.none", f"-> {_MAYBE}", Optional)
define("optional.of", f"A -> {_MAYBE}", lambda value: Optional((value,)))
define(
    "optional.ofNonZeroValue",
    f"A -> {_MAYBE}",
    lambda value: Optional() if value in _ZEROS else Optional((value,)),
)
define_member("hasValue", f"{_MAYBE} -> bool", lambda optional: bool(optional.held))
define_member("value", f"{_MAYBE} -> A", _value)
define_member("or", f"{_MAYBE} {_MAYBE} -> {_MAYBE}", lambda a, b: a if a.held else b)
define_member("orValue", f"{_MAYBE} A -> A", lambda a, b: a.held[0] if a.held else b)
