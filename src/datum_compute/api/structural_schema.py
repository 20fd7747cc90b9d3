"""From a typed kind to the schema a server enforces for it.

The struct is the only source. An annotation beside each field holds what the type cannot:
its meaning, whether a writer must give it, its bounds, the default the server fills in.
``required`` here binds writers; a view always has a Python default, so that an object of
an older schema, or a half-filled one, still decodes.

The result is *structural* in the sense of apiextensions/v1: no references, no unions, every
level typed.
"""

from __future__ import annotations

import types
import typing
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Union

import msgspec

_REQUIRED = "x-required"
"""Marks a field for its parent's ``required`` list; never leaves this module."""

QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)

Quantity = Annotated[int | str, msgspec.Meta(extra_json_schema={"pattern": QUANTITY_PATTERN})]
"""An amount as Kubernetes writes it: ``2``, ``500m``, ``4Gi``."""


def described(text: str, *, required: bool = False, **keywords: Any) -> msgspec.Meta:
    """What a field means, and the JSON Schema keywords its type does not imply.

    ``list_type``, ``list_keys`` and ``map_type`` are the ``x-kubernetes`` extensions;
    ``rules`` for CEL validations. Everything else is a keyword as the schema spells it. Bounds of
    numbers hold for views too: a stored object may be older than its schema, or not checked.
    """
    extra = {_EXTENSIONS.get(key, key): value for key, value in keywords.items()}
    if required:
        extra[_REQUIRED] = True
    return msgspec.Meta(
        description=text,
        extra_json_schema=extra,
        ge=keywords.get("minimum"),
        le=keywords.get("maximum"),
    )


_EXTENSIONS = {
    "list_type": "x-kubernetes-list-type",
    "list_keys": "x-kubernetes-list-map-keys",
    "map_type": "x-kubernetes-map-type",
    "rules": "x-kubernetes-validations",
    "embedded": "x-kubernetes-embedded-resource",
}

_SCALARS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int32"},
    float: {"type": "number"},
    datetime: {"type": "string", "format": "date-time"},
    msgspec.Raw: {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}


def schema_of(annotation: Any) -> dict[str, Any]:
    """The structural schema of a struct, or of any annotation a struct's field may have."""
    schema, _ = _schema(annotation)
    return schema


def content_of(annotation: Any) -> Any:
    """The type under an annotation's notes and optionality."""
    return _unwrap(annotation)[0]


def _schema(annotation: Any) -> tuple[dict[str, Any], bool]:
    """The schema, and whether the field that has it must be given."""
    inner, notes = _unwrap(annotation)
    schema: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for note in notes:
        if note.description:
            schema["description"] = note.description
        extra |= note.extra_json_schema or {}
    required = bool(extra.pop(_REQUIRED, False))
    return {**schema, **_shape(inner), **extra}, required


def _unwrap(annotation: Any) -> tuple[Any, list[msgspec.Meta]]:
    """Peel annotations and optionality off, outermost note last so that it wins."""
    notes: list[msgspec.Meta] = []
    while True:
        if typing.get_origin(annotation) is Annotated:
            found = [note for note in annotation.__metadata__ if isinstance(note, msgspec.Meta)]
            notes = found + notes
            annotation = annotation.__origin__
            continue
        members = _union_members(annotation)
        if members and type(None) in members and len(members) > 1:
            rest = tuple(member for member in members if member is not type(None))
            annotation = rest[0] if len(rest) == 1 else Union[rest]  # noqa: UP007
            continue
        return annotation, notes


def _union_members(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) in (Union, types.UnionType):
        return typing.get_args(annotation)
    return ()


def _shape(inner: Any) -> dict[str, Any]:
    if inner in _SCALARS:
        return dict(_SCALARS[inner])
    if set(_union_members(inner)) == {int, str}:
        return {"x-kubernetes-int-or-string": True}
    origin, arguments = typing.get_origin(inner), typing.get_args(inner)
    if origin is tuple:
        return {"type": "array", "items": schema_of(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
        return _object(inner)
    raise TypeError(f"no structural schema for {inner!r}")


@cache
def _fields(struct: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    # Annotations are text until they are resolved, and Condition alone is resolved often.
    return msgspec.structs.fields(struct)


def _object(struct: type[msgspec.Struct]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    for field in _fields(struct):
        schema, must = _schema(field.type)
        if "description" not in schema:
            raise TypeError(f"{struct.__name__}.{field.name} has no description")
        properties[field.encode_name] = schema
        if must:
            required.append(field.encode_name)
    shape: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        shape["required"] = required
    return shape
