"""Values of expressions. Most are those of JSON; here are the others, and how values compare."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from datum_compute.apiserver.cel.syntax import Uint


class CelError(Exception):
    """The expression has no value here, such as for a missing key. Logic may absorb it."""


NO_OVERLOAD = "no such overload"
"""The text of the error where the types of values do not fit."""


class OverBudget(Exception):
    """The evaluation needs more steps than it may take. Nothing absorbs it."""


class Budget:
    """The steps that are left."""

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def charge(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise OverBudget


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    nanos: int
    """Since 1970."""

    def at(self, zone: timedelta) -> datetime:
        return _EPOCH + timedelta(microseconds=self.nanos // 1000) + zone

    def __str__(self) -> str:
        whole = self.at(timedelta()).replace(microsecond=0, tzinfo=None).isoformat()
        rest = self.nanos % 10**9
        return f"{whole}.{rest:09}".rstrip("0") + "Z" if rest else f"{whole}Z"


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    nanos: int

    def __str__(self) -> str:
        return f"{format_double(self.nanos / 10**9)}s"


@dataclass(frozen=True, slots=True)
class Optional:
    """``held`` is a tuple of the value; empty for none."""

    held: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class TypeValue:
    name: str


@dataclass(frozen=True, slots=True)
class Quantity:
    amount: Decimal


class Url(NamedTuple):
    scheme: str
    host: str
    hostname: str
    port: str
    path: str
    query: str


@dataclass(frozen=True, slots=True)
class NamedFormat:
    name: str
    validate: Callable[[str], list[str]]


IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
CIDR = ipaddress.IPv4Interface | ipaddress.IPv6Interface

_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    dict: "map",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    Optional: "optional_type",
    TypeValue: "type",
    Quantity: "kubernetes.Quantity",
    Url: "kubernetes.URL",
    NamedFormat: "kubernetes.NamedFormat",
    ipaddress.IPv4Address: "net.IP",
    ipaddress.IPv6Address: "net.IP",
    ipaddress.IPv4Interface: "net.CIDR",
    ipaddress.IPv6Interface: "net.CIDR",
}
_NUMBERS = (int, float, Uint)
_ENTRY_STEPS = 4
"""For an entry that is compared: measured, as a step is some 40 ns."""


def type_name(value: Any) -> str:
    return _NAMES[type(value)]


def equal(one: Any, other: Any, budget: Budget) -> bool:
    """Numbers are equal across their types; else values of two types differ."""
    kind = type(one)
    if kind is not type(other):
        return kind in _NUMBERS and type(other) in _NUMBERS and bool(one == other)
    if kind is list:
        budget.charge(_ENTRY_STEPS * len(one))
        return len(one) == len(other) and all(
            equal(a, b, budget) for a, b in zip(one, other, strict=True)
        )
    if kind is dict:
        budget.charge(_ENTRY_STEPS * len(one))
        return len(one) == len(other) and all(
            key in other and equal(value, other[key], budget) for key, value in one.items()
        )
    return bool(one == other)


def contains(items: list[Any], value: Any, budget: Budget) -> bool:
    budget.charge(len(items))
    return any(equal(one, value, budget) for one in items)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d\d:\d\d))?", re.ASCII
)
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h|d|w)", re.ASCII)
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9}
_UNITS |= {"m": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9, "w": 7 * 86400 * 10**9}


def to_timestamp(text: str) -> Timestamp:
    found = _TIMESTAMP.fullmatch(text)
    try:
        if found is None:
            raise ValueError(text)
        day, time, fraction, zone = found.groups()
        zone = "+00:00" if zone in (None, "Z", "z") else zone
        moment = datetime.fromisoformat(f"{day}T{time or '00:00:00'}{zone}")
    except ValueError:
        raise CelError(f"type conversion error from 'string' to 'timestamp': {text}") from None
    seconds = (moment - _EPOCH) // timedelta(seconds=1)
    return Timestamp(seconds * 10**9 + int((fraction or "0").ljust(9, "0")))


def to_duration(text: str) -> Duration:
    sign, rest = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    parts = _PART.findall(rest)
    if rest != "0" and (not parts or "".join(map("".join, parts)) != rest):
        raise CelError(f"type conversion error from 'string' to 'duration': {text}")
    return Duration(sign * int(sum(Decimal(number) * _UNITS[unit] for number, unit in parts)))


def format_double(value: float) -> str:
    """The shortest form, with an exponent for the very large and small."""
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else ("+Inf" if value > 0 else "-Inf")
    mantissa, _, exponent = f"{Decimal(repr(value)).normalize():e}".partition("e")
    power = int(exponent)
    if -4 <= power < 21:
        text = f"{Decimal(repr(value)).normalize():f}"
        return text if text != "-0" else "0"
    return f"{mantissa}e{power:+03d}"
