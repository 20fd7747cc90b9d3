"""Validation of structural schemas, in which every field is either declared or unknown.

The rules are those of apiextensions v1: a type at every node, nothing but value rules
below ``allOf``, ``anyOf``, ``oneOf`` and ``not`` and only about fields the structure
names, properties or additionalProperties but not both, map-like lists whose keys are
always there, and defaults that the schema itself accepts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from datum_compute.api import fields
from datum_compute.api.fields import MAX_ERRORS, FieldError, FieldPath
from datum_compute.apiserver.schema.outcome import SchemaOutcome, SchemaPath, TooManyErrors
from datum_compute.apiserver.schema.patterns import Pattern
from datum_compute.apiserver.schema.walk import compile_node, fresh_copy

JsonSchema = Mapping[str, Any]

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED = ("$ref", "$schema", "id", "definitions", "dependencies", "patternProperties")
_ONLY_STRUCTURE = ("type", "default", "additionalProperties", "nullable", "description", "title")
_COMPOSITES = ("allOf", "anyOf", "oneOf")


def validate_root(schema: JsonSchema, path: FieldPath) -> list[FieldError]:
    """Every error of an ``openAPIV3Schema``; empty when it can be served."""
    errors: list[FieldError] = []
    kind = schema.get("type")
    if not kind:
        errors.append(fields.required(path.child("type"), "must not be empty at the root"))
    elif kind != "object":
        errors.append(fields.invalid(path.child("type"), kind, "must be object at the root"))
    errors += _metadata_faults(schema, path)
    errors += islice(_node_faults(schema, path, root=True), MAX_ERRORS + 1)
    # Defaults are validated by the schema itself, which must be sound for that.
    return errors or list(islice(_default_faults(schema, path, SchemaPath()), MAX_ERRORS + 1))


def _metadata_faults(schema: JsonSchema, path: FieldPath) -> Iterator[FieldError]:
    metadata = schema.get("properties", {}).get("metadata", {})
    for name in sorted(set(metadata.get("properties", {})) - {"name", "generateName"}):
        yield fields.forbidden(
            path.child("properties").key("metadata").child("properties").key(name),
            "must not specify anything other than name and generateName, "
            "but metadata is implicitly specified",
        )


def _node_faults(
    schema: JsonSchema, path: FieldPath, *, root: bool = False
) -> Iterator[FieldError]:
    if not root:
        yield from _type_faults(schema, path)
    yield from _own_faults(schema, path)
    for name, child in schema.get("properties", {}).items():
        yield from _child_faults(child, path.child("properties").key(name), "object fields")
    if isinstance(additional := schema.get("additionalProperties"), dict):
        yield from _child_faults(additional, path.child("additionalProperties"), "object fields")
    if "items" in schema:
        yield from _child_faults(schema["items"], path.child("items"), "array items")
    for where, part in _composite_parts(schema, path):
        yield from _value_faults(part, schema, where, path)


def _child_faults(child: Any, path: FieldPath, what: str) -> Iterator[FieldError]:
    if not isinstance(child, dict):
        yield fields.type_invalid(path, child, "must be a schema")
        return
    if not child.get("type") and not _may_be_untyped(child):
        detail = f"must not be empty for specified {what}"
        yield fields.required(path.child("type"), detail)
    yield from _node_faults(child, path)


def _may_be_untyped(schema: JsonSchema) -> bool:
    return bool(
        schema.get("x-kubernetes-int-or-string")
        or schema.get("x-kubernetes-preserve-unknown-fields")
    )


def _type_faults(schema: JsonSchema, path: FieldPath) -> Iterator[FieldError]:
    kind = schema.get("type")
    if kind and kind not in _TYPES:
        yield fields.not_supported(path.child("type"), kind, _TYPES)
    if kind and schema.get("x-kubernetes-int-or-string"):
        detail = "must be empty if x-kubernetes-int-or-string is true"
        yield fields.invalid(path.child("type"), kind, detail)
    if kind != "object" and schema.get("x-kubernetes-embedded-resource"):
        detail = "must be object if x-kubernetes-embedded-resource is true"
        yield fields.invalid(path.child("type"), kind or "", detail)


def _own_faults(schema: JsonSchema, path: FieldPath) -> Iterator[FieldError]:
    for name in _UNSUPPORTED:
        if name in schema:
            yield fields.forbidden(path.child(name), f"{name} is not supported")
    if schema.get("uniqueItems"):
        yield fields.forbidden(
            path.child("uniqueItems"),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        )
    additional = schema.get("additionalProperties")
    if additional is False:
        detail = "additionalProperties cannot be set to false"
        yield fields.forbidden(path.child("additionalProperties"), detail)
    elif additional is not None and schema.get("properties"):
        detail = "additionalProperties and properties are mutual exclusive"
        yield fields.forbidden(path.child("additionalProperties"), detail)
    if schema.get("type") == "array" and "items" not in schema:
        yield fields.required(path.child("items"), "must be specified")
    yield from _pattern_faults(schema, path)
    yield from _list_faults(schema, path)


def _pattern_faults(schema: JsonSchema, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(pattern := schema.get("pattern"), str):
        return
    try:
        Pattern(pattern)
    except ValueError as error:
        detail = f"must be a valid regular expression, but isn't: {error}"
        yield fields.invalid(path.child("pattern"), pattern, detail)


def _list_faults(schema: JsonSchema, path: FieldPath) -> Iterator[FieldError]:
    list_type = schema.get("x-kubernetes-list-type")
    if list_type is None:
        return
    here = path.child("x-kubernetes-list-type")
    if list_type not in ("atomic", "set", "map"):
        yield fields.not_supported(here, list_type, ("atomic", "set", "map"))
    elif schema.get("type") != "array":
        detail = "must be array if x-kubernetes-list-type is specified"
        yield fields.invalid(path.child("type"), schema.get("type", ""), detail)
    elif list_type == "map":
        yield from _map_key_faults(schema, path)


def _map_key_faults(schema: JsonSchema, path: FieldPath) -> Iterator[FieldError]:
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if not keys:
        detail = "must not be empty if x-kubernetes-list-type is map"
        yield fields.required(path.child("x-kubernetes-list-map-keys"), detail)
    items = schema.get("items")
    if not isinstance(items, dict):
        return
    properties, required = items.get("properties", {}), set(items.get("required", ()))
    for index, key in enumerate(keys):
        if key not in properties:
            here = path.child("x-kubernetes-list-map-keys").index(index)
            detail = "entries must all be names of item properties"
            yield fields.invalid(here, key, detail)
        elif key not in required and "default" not in properties[key]:
            yield fields.required(
                path.child("items", "properties").key(key).child("default"),
                "this property is in x-kubernetes-list-map-keys, so it must have a default "
                "or be a required property",
            )


def _composite_parts(schema: JsonSchema, path: FieldPath) -> Iterator[tuple[FieldPath, JsonSchema]]:
    for name in _COMPOSITES:
        for index, part in enumerate(schema.get(name, ())):
            yield path.child(name).index(index), part
    if "not" in schema:
        yield path.child("not"), schema["not"]


def _value_faults(
    part: JsonSchema, structure: JsonSchema | None, path: FieldPath, defined: FieldPath
) -> Iterator[FieldError]:
    """A part of a composite: no structure, and only about known fields."""
    for name in _ONLY_STRUCTURE:
        # The two types of int-or-string may be spelled out, as generators do.
        spelled = name == "type" and bool((structure or {}).get("x-kubernetes-int-or-string"))
        if name in part and not spelled:
            yield fields.forbidden(path.child(name), "must be empty to be structural")
    yield from _pattern_faults(part, path)
    properties = (structure or {}).get("properties", {})
    for name, child in part.get("properties", {}).items():
        here = path.child("properties").key(name)
        known = properties.get(name)
        if known is None and not (structure or {}).get("x-kubernetes-preserve-unknown-fields"):
            yield fields.required(
                defined.child("properties").key(name), f"because it is defined in {here}"
            )
        yield from _value_faults(child, known, here, defined.child("properties").key(name))
    if isinstance(items := part.get("items"), dict):
        known = (structure or {}).get("items")
        if known is None:
            yield fields.required(
                defined.child("items"), f"because it is defined in {path.child('items')}"
            )
        yield from _value_faults(items, known, path.child("items"), defined.child("items"))
    for where, nested in _composite_parts(part, path):
        yield from _value_faults(nested, structure, where, defined)


def _default_faults(schema: JsonSchema, path: FieldPath, place: SchemaPath) -> Iterator[FieldError]:
    if (default := schema.get("default")) is not None:
        yield from _default_fault(schema, default, path.child("default"), place)
    for name, child in schema.get("properties", {}).items():
        yield from _default_faults(child, path.child("properties").key(name), place.child(name))
    if isinstance(additional := schema.get("additionalProperties"), dict):
        here = path.child("additionalProperties")
        yield from _default_faults(additional, here, place.child("*"))
    if isinstance(items := schema.get("items"), dict):
        yield from _default_faults(items, path.child("items"), place.child("*"))


def _default_fault(
    schema: JsonSchema, default: Any, path: FieldPath, place: SchemaPath
) -> Iterator[FieldError]:
    found = SchemaOutcome()
    with suppress(TooManyErrors):
        compile_node(schema, place)(fresh_copy(default), (), found)
    if found.unknown:
        yield fields.invalid(path, default, "must not have unknown fields")
    for error in found.errors:
        yield fields.invalid(path, default, error.detail or str(error))
