"""Types of expressions, and those that schemas declare.

A type that comes from a schema also knows what the schema says of its values: their fields, how
large they can be, how lists are compared, and how JSON is turned into a value of the type.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import Any

from datum_compute.apiserver.cel import values
from datum_compute.apiserver.cel.syntax import RESERVED

MAX_REQUEST = 3 * 1024 * 1024
"""Bytes of the largest request: it bounds what a schema does not."""
UNBOUNDED = 2**63

Convert = Callable[[Any], Any]
Fields = Mapping[str, tuple[str, "CelType"]]
"""By name in expressions: the name in JSON, and the type."""


@dataclass(frozen=True, slots=True)
class CelType:
    name: str
    params: tuple[CelType, ...] = ()
    identity: int = 0
    """Of an object type: two with equal fields are two types."""
    fields: Fields | None = field(default=None, compare=False, repr=False)
    list_type: str = field(default="", compare=False, repr=False)
    keys: tuple[str, ...] = field(default=(), compare=False, repr=False)
    max_size: int = field(default=1, compare=False, repr=False)
    min_json: int = field(default=1, compare=False, repr=False)
    """Bytes of the shortest JSON."""
    convert: Convert | None = field(default=None, compare=False, repr=False)
    """None: JSON values are used as they are."""

    def __str__(self) -> str:
        params = ", ".join(map(str, self.params))
        return f"{self.name}({params})" if params else self.name

    @property
    def item(self) -> CelType:
        """Of a list or optional its entries, of a map its values."""
        return self.params[-1] if self.params else DYN


DYN = CelType("dyn", max_size=MAX_REQUEST)
BOOL, INT, DOUBLE = CelType("bool", min_json=4), CelType("int"), CelType("double")
STRING = CelType("string", max_size=UNBOUNDED, min_json=2)
BYTES = CelType("bytes", max_size=UNBOUNDED, min_json=2)
NULL = CelType("null_type")
_KEY = CelType("string", max_size=0, min_json=2)
"""A key of a map, whose length the real server does not count."""

_VARIABLES = frozenset("ABKV")


@lru_cache(maxsize=1024)
def parse_type(text: str) -> CelType:
    """``list(A)``, ``map(string,dyn)``: a single capital stands for any type."""
    known = {"dyn": DYN, "string": STRING, "bytes": BYTES, "bool": BOOL}.get(text)
    if known is not None:
        return known
    name, _, rest = text.partition("(")
    params, depth, start = [], 0, 0
    inner = rest[:-1]
    for at, mark in enumerate(f"{inner}," if inner else ""):
        depth += (mark == "(") - (mark == ")")
        if mark == "," and not depth:
            params.append(parse_type(inner[start:at]))
            start = at + 1
    size = UNBOUNDED if name in ("list", "map") else 1
    return CelType(name, tuple(params), max_size=size)


def list_of(item: CelType, size: int = UNBOUNDED) -> CelType:
    return CelType("list", (item,), max_size=size)


Bound = dict[str, CelType]

TIME_TYPES = ("google.protobuf.Timestamp", "google.protobuf.Duration")
FIXED_SIZE = frozenset(("bool", "int", "uint", "double", *TIME_TYPES))
SCALARS = FIXED_SIZE | {"string", "bytes"}
OPAQUE_TYPES = (
    "kubernetes.URL",
    "kubernetes.Quantity",
    "kubernetes.NamedFormat",
    "net.IP",
    "net.CIDR",
)
_NULLABLE = frozenset(("object", "optional_type", "null_type", *TIME_TYPES, *OPAQUE_TYPES))


def accepts(wanted: CelType, given: CelType, bound: Bound) -> bool:
    """Whether a value of ``given`` fits, with what ``bound`` says of the variables; it may gain."""
    if wanted.name in _VARIABLES:
        held = bound.get(wanted.name)
        if held is None or held == DYN:
            bound[wanted.name] = given
            return True
        if held == NULL and given.name in _NULLABLE:
            bound[wanted.name] = given
        return accepts(held, given, bound) or (held.name == "null_type" and given.name in _NULLABLE)
    if DYN in (wanted, given):
        return True
    if given == NULL:
        return wanted.name in _NULLABLE
    if (wanted.name, wanted.identity) != (given.name, given.identity):
        return False
    return len(wanted.params) == len(given.params) and all(
        accepts(one, other, bound) for one, other in zip(wanted.params, given.params, strict=True)
    )


def substitute(kind: CelType, bound: Bound) -> CelType:
    if kind.name in _VARIABLES:
        return bound.get(kind.name, DYN)
    if not kind.params:
        return kind
    return CelType(
        kind.name, tuple(substitute(one, bound) for one in kind.params), max_size=kind.max_size
    )


_UNSAFE = re.compile(r"__|[-./]")
_ESCAPES = {"__": "__underscores__", "-": "__dash__", ".": "__dot__", "/": "__slash__"}


def escape(name: str) -> str | None:
    """The name of a field in expressions; None if it has none."""
    if name in RESERVED:
        return f"__{name}__"
    if not re.fullmatch(r"[A-Za-z_./-][A-Za-z0-9_./-]*", name):
        return None
    return _UNSAFE.sub(lambda found: _ESCAPES[found[0]], name)


_identities = count(1)
_META = {"type": "object", "properties": {n: {"type": "string"} for n in ("name", "generateName")}}


def declare(schema: Mapping[str, Any], *, is_resource: bool = False) -> CelType | None:
    """The type of a schema's values; None for values that expressions do not see."""
    if schema.get("x-kubernetes-int-or-string"):
        return DYN
    match schema.get("type"):
        case "object":
            return _declare_object(schema, is_resource or _is_embedded(schema))
        case "array":
            return _declare_list(schema)
        case "string":
            return _declare_string(schema)
        case "integer":
            return INT
        case "number":
            return CelType("double", convert=_to_double)
        case "boolean":
            return BOOL
    return None


def _is_embedded(schema: Mapping[str, Any]) -> bool:
    return bool(schema.get("x-kubernetes-embedded-resource"))


def _declare_object(schema: Mapping[str, Any], is_resource: bool) -> CelType | None:
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        item = declare(additional)
        if item is None:
            return None
        size = schema.get("maxProperties", (MAX_REQUEST - 2) // (item.min_json + 6))
        convert = item.convert and _of_entries(item.convert)
        return CelType("map", (_KEY, item), max_size=size, min_json=2, convert=convert)
    properties = dict(schema.get("properties") or {})
    if is_resource:
        text = {"type": "string"}
        properties |= {"kind": text, "apiVersion": text}
        own = (properties.get("metadata") or {}).get("properties") or {}
        properties["metadata"] = {**_META, "properties": {**_META["properties"], **own}}  # type: ignore[dict-item]
    found: dict[str, tuple[str, CelType]] = {}
    converts: dict[str, Convert] = {}
    smallest, required = 2, schema.get("required") or ()
    for name, child in properties.items():
        kind = declare(child)
        if kind is None:
            continue
        if escaped := escape(name):
            found[escaped] = name, kind
        if name in RESERVED:  # it needs no escape behind a dot
            found[name] = name, kind
        if kind.convert:
            converts[name] = kind.convert
        if name in required and "default" not in child:
            smallest += len(name) + kind.min_json + 4
    return CelType(
        "object",
        identity=next(_identities),
        fields=found,
        min_json=smallest,
        convert=_of_fields(converts) if converts else None,
    )


def _declare_list(schema: Mapping[str, Any]) -> CelType | None:
    item = declare(schema.get("items") or {})
    if item is None:
        return None
    return CelType(
        "list",
        (item,),
        list_type=schema.get("x-kubernetes-list-type") or "atomic",
        keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()),
        max_size=schema.get("maxItems", (MAX_REQUEST - 2) // (item.min_json + 1)),
        min_json=2,
        convert=item.convert and _of_items(item.convert),
    )


def _declare_string(schema: Mapping[str, Any]) -> CelType:
    longest = schema.get("maxLength")
    match schema.get("format"):
        case "byte":
            size = MAX_REQUEST if longest is None else longest
            return CelType("bytes", max_size=size, min_json=2, convert=_to_bytes)
        case "duration":
            name, smallest, convert = "google.protobuf.Duration", 3, _of_text(values.to_duration)
        case "date" | "date-time" as form:
            smallest = 12 if form == "date" else 21
            name, convert = "google.protobuf.Timestamp", _of_text(values.to_timestamp)
        case _:
            size = MAX_REQUEST if longest is None else 4 * longest
            if longest is None and schema.get("enum"):
                size = max(len(str(one)) for one in schema["enum"])
            return CelType("string", max_size=size, min_json=2)
    return CelType(name, max_size=32, min_json=smallest, convert=convert)


# From JSON to values. What is not of the type stays as it is: the schema reports it.


def _to_double(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _to_bytes(value: Any) -> Any:
    with suppress(ValueError):
        return base64.b64decode(value) if isinstance(value, str) else value
    return value


def _of_text(convert: Callable[[str], Any]) -> Convert:
    def apply(value: Any) -> Any:
        with suppress(values.CelError):
            return convert(value) if isinstance(value, str) else value
        return value

    return apply


def _of_items(convert: Convert) -> Convert:
    return lambda value: [convert(one) for one in value] if isinstance(value, list) else value


def _of_entries(convert: Convert) -> Convert:
    def apply(value: Any) -> Any:
        return {k: convert(v) for k, v in value.items()} if isinstance(value, dict) else value

    return apply


def _of_fields(converts: Mapping[str, Convert]) -> Convert:
    def apply(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        found = {name: f(value[name]) for name, f in converts.items() if name in value}
        return {**value, **found} if found else value

    return apply
