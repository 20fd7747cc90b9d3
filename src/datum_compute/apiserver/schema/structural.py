"""Validation of structural schemas, in which every field is either declared or unknown.

The rules are those of apiextensions v1: a type at every node, nothing but value rules
below ``allOf``, ``anyOf``, ``oneOf`` and ``not`` and only about fields the structure
names, properties or additionalProperties but not both, map-like lists whose keys are
always there, and defaults that the schema itself accepts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any

from datum_compute.api import fields
from datum_compute.api.fields import MAX_ERRORS, FieldError, FieldPath
from datum_compute.apiserver.schema.outcome import SchemaOutcome, SchemaPath, TooManyErrors
from datum_compute.apiserver.schema.patterns import Pattern
from datum_compute.apiserver.schema.walk import compile_node, fresh_copy

JsonSchema = Mapping[str, Any]

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED = (
    "$ref",
    "$schema",
    "additionalItems",
    "definitions",
    "dependencies",
    "id",
    "patternProperties",
)
_ONLY_STRUCTURE = {
    "type": "empty",
    "description": "empty",
    "title": "empty",
    "additionalProperties": "undefined",
    "default": "undefined",
    "nullable": "false",
    "x-kubernetes-embedded-resource": "false",
    "x-kubernetes-int-or-string": "false",
    "x-kubernetes-preserve-unknown-fields": "false",
    "x-kubernetes-list-map-keys": "empty",
    "x-kubernetes-list-type": "undefined",
    "x-kubernetes-map-type": "undefined",
}
"""What may not be in a part of a composite, and what it must be instead."""
_COMPOSITES = ("allOf", "anyOf", "oneOf")


def validate_root(schema: JsonSchema, path: FieldPath) -> list[FieldError]:
    """Every error of an ``openAPIV3Schema``; empty when it can be served."""
    errors: list[FieldError] = []
    if schema.get("nullable"):
        errors.append(
            fields.forbidden(path.child("nullable"), "nullable cannot be true at the root")
        )
    # A schema with keywords that are not supported has no structure that could be judged.
    unsupported = list(islice(_unsupported_faults(schema, path), MAX_ERRORS + 1))
    if unsupported:
        return errors + unsupported
    kind = schema.get("type")
    if not kind:
        errors.append(fields.required(path.child("type"), "must not be empty at the root"))
    elif kind != "object":
        errors.append(fields.invalid(path.child("type"), kind, "must be object at the root"))
    if schema.get("additionalProperties") is not None:
        here = path.child("additionalProperties")
        errors.append(fields.forbidden(here, "must not be used at the root"))
    errors += _metadata_faults(schema, path)
    errors += islice(_node_faults(schema, path, root=True), MAX_ERRORS + 1)
    # Defaults are validated by the schema itself, which must be sound for that.
    return errors or list(islice(_default_faults(schema, path), MAX_ERRORS + 1))


def _unsupported_faults(schema: Any, path: FieldPath) -> Iterator[FieldError]:
    if not isinstance(schema, dict):
        return
    for name in _UNSUPPORTED:
        if name in schema:
            yield fields.forbidden(path.child(name), f"{name} is not supported")
    if isinstance(schema.get("items"), list):
        yield fields.forbidden(
            path.child("items"), "items must be a schema object and not an array"
        )
    for where, part in _parts(schema, path):
        yield from _unsupported_faults(part, where)


def _parts(schema: JsonSchema, path: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
    """All schemas in a schema."""
    for name, child in (schema.get("properties") or {}).items():
        yield path.child("properties").key(name), child
    for name in ("additionalProperties", "items"):
        yield path.child(name), schema.get(name)
    yield from _composite_parts(schema, path)


def _metadata_faults(schema: JsonSchema, path: FieldPath) -> Iterator[FieldError]:
    metadata = (schema.get("properties") or {}).get("metadata")
    if not isinstance(metadata, dict):
        return
    here = path.child("properties").key("metadata")
    others = set(metadata) - {"type", "default", "properties"}
    if others or set(metadata.get("properties") or ()) - {"name", "generateName"}:
        detail = (
            "must not specify anything other than name and generateName, "
            "but metadata is implicitly specified"
        )
        yield fields.forbidden(here, detail)
    if metadata.get("default") is not None:
        yield fields.forbidden(here.child("default"), "must not be set in top-level metadata")


def _node_faults(
    schema: JsonSchema, path: FieldPath, *, root: bool = False
) -> Iterator[FieldError]:
    if not root:
        yield from _type_faults(schema, path)
    yield from _own_faults(schema, path, root=root)
    for name, child in schema.get("properties", {}).items():
        yield from _child_faults(child, path.child("properties").key(name), "object fields")
    if isinstance(additional := schema.get("additionalProperties"), dict):
        yield from _child_faults(additional, path.child("additionalProperties"), "object fields")
    if "items" in schema:
        yield from _child_faults(schema["items"], path.child("items"), "array items")
    for where, part in _composite_parts(schema, path):
        # Only those of the whole object must be about known fields, as in the real server.
        yield from _value_faults(part, schema, where, path, complete=root)


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
    if kind == "null":
        detail = "type cannot be set to null, use nullable as an alternative"
        yield fields.forbidden(path.child("type"), detail)
    if kind != "object" and schema.get("x-kubernetes-embedded-resource"):
        detail = "must be object if x-kubernetes-embedded-resource is true"
        yield _wrong_type(path, kind, detail)


def _wrong_type(path: FieldPath, kind: Any, detail: str) -> FieldError:
    here = path.child("type")
    return fields.invalid(here, kind, detail) if kind else fields.required(here, detail)


def _own_faults(schema: JsonSchema, path: FieldPath, *, root: bool) -> Iterator[FieldError]:
    if schema.get("uniqueItems"):
        yield fields.forbidden(
            path.child("uniqueItems"),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        )
    additional = schema.get("additionalProperties")
    if additional not in (None, True) and schema.get("properties"):
        detail = "additionalProperties and properties are mutual exclusive"
        yield fields.forbidden(path.child("additionalProperties"), detail)
    if schema.get("type") == "array" and "items" not in schema:
        yield fields.required(path.child("items"), "must be specified")
    yield from _pattern_faults(schema, path)
    yield from _extension_faults(schema, path)
    yield from _list_faults(schema, path)
    if root or schema.get("x-kubernetes-embedded-resource"):
        for name in ("apiVersion", "kind"):
            child = (schema.get("properties") or {}).get(name)
            if isinstance(child, dict) and child.get("type") != "string":
                here = path.child("properties").key(name).child("type")
                yield fields.invalid(here, child.get("type") or "", "must be string")


def _extension_faults(schema: JsonSchema, path: FieldPath) -> Iterator[FieldError]:
    keeps = "x-kubernetes-preserve-unknown-fields"
    if schema.get(keeps) is False:
        yield fields.invalid(path.child(keeps), False, "must be true or undefined")
    if schema.get("x-kubernetes-int-or-string"):
        for name in (keeps, "x-kubernetes-embedded-resource"):
            if schema.get(name):
                detail = "must be false if x-kubernetes-int-or-string is true"
                yield fields.invalid(path.child(name), True, detail)
    if schema.get("x-kubernetes-embedded-resource"):
        if not schema.get(keeps) and not schema.get("properties"):
            detail = f"must not be empty if x-kubernetes-embedded-resource is true without {keeps}"
            yield fields.required(path.child("properties"), detail)
        if schema.get("additionalProperties") is not None:
            detail = "must not be used if x-kubernetes-embedded-resource is set"
            yield fields.forbidden(path.child("additionalProperties"), detail)
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is not None and map_type not in ("atomic", "granular"):
        here = path.child("x-kubernetes-map-type")
        yield fields.not_supported(here, map_type, ("atomic", "granular"))
    elif map_type is not None and schema.get("type") != "object":
        detail = "must be object if x-kubernetes-map-type is specified"
        yield _wrong_type(path, schema.get("type"), detail)


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
    here = path.child("x-kubernetes-list-type")
    if schema.get("x-kubernetes-list-map-keys") and list_type != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield (
            fields.invalid(here, list_type, detail) if list_type else fields.required(here, detail)
        )
    if list_type is None:
        return
    items = schema.get("items")
    if list_type not in ("atomic", "set", "map"):
        yield fields.not_supported(here, list_type, ("atomic", "map", "set"))
    elif schema.get("type") != "array":
        detail = "must be array if x-kubernetes-list-type is specified"
        yield _wrong_type(path, schema.get("type"), detail)
    elif list_type == "map":
        yield from _map_key_faults(schema, path)
    elif list_type == "set" and isinstance(items, dict):
        yield from _member_faults(items, path.child("items"))
    if list_type in ("map", "set") and isinstance(items, dict) and items.get("nullable"):
        detail = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        yield fields.forbidden(path.child("items", "nullable"), detail)


def _member_faults(items: JsonSchema, path: FieldPath) -> Iterator[FieldError]:
    """Members of a set are compared whole."""
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    map_type, list_type = (items.get(f"x-kubernetes-{name}-type") for name in ("map", "list"))
    if items.get("type") == "object" and map_type != "atomic":
        yield fields.invalid(path.child("x-kubernetes-map-type"), map_type, detail)
    if items.get("type") == "array" and list_type not in (None, "atomic"):
        yield fields.invalid(path.child("x-kubernetes-list-type"), list_type, detail)


def _map_key_faults(schema: JsonSchema, path: FieldPath) -> Iterator[FieldError]:
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    here = path.child("x-kubernetes-list-map-keys")
    if not keys:
        yield fields.required(here, "must not be empty if x-kubernetes-list-type is map")
    items = schema.get("items")
    if not isinstance(items, dict):
        return
    if items.get("type") != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        yield fields.invalid(path.child("items", "type"), items.get("type") or "", detail)
        return
    if len(set(keys)) < len(keys):
        yield fields.invalid(here, list(keys), "must not contain duplicate entries")
    properties, required = items.get("properties") or {}, set(items.get("required") or ())
    for key in dict.fromkeys(keys):
        place = path.child("items", "properties").key(key)
        child = properties.get(key)
        if not isinstance(child, dict):
            detail = "entries must all be names of item properties"
            yield fields.invalid(here, list(keys), detail)
            continue
        if child.get("type") in ("array", "object"):
            detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield fields.invalid(place.child("type"), child["type"], detail)
        if child.get("nullable"):
            detail = f"{_IS_KEY}, so it cannot be nullable"
            yield fields.forbidden(place.child("nullable"), detail)
        if key not in required and child.get("default") is None:
            detail = f"{_IS_KEY}, so it must have a default or be a required property"
            yield fields.required(place.child("default"), detail)


_IS_KEY = "this property is in x-kubernetes-list-map-keys"


def _composite_parts(schema: JsonSchema, path: FieldPath) -> Iterator[tuple[FieldPath, JsonSchema]]:
    for name in _COMPOSITES:
        for index, part in enumerate(schema.get(name, ())):
            yield path.child(name).index(index), part
    if "not" in schema:
        yield path.child("not"), schema["not"]


def _value_faults(
    part: JsonSchema,
    structure: JsonSchema | None,
    path: FieldPath,
    defined: FieldPath,
    *,
    complete: bool,
) -> Iterator[FieldError]:
    """A part of a composite: no structure, and if ``complete`` only about known fields."""
    structure = structure or {}
    for name, allowed in _ONLY_STRUCTURE.items():
        # The two types of int-or-string may be spelled out, as generators do.
        spelled = name == "type" and bool(structure.get("x-kubernetes-int-or-string"))
        if part.get(name) not in (None, False, "") and not spelled:
            yield fields.forbidden(path.child(name), f"must be {allowed} to be structural")
    yield from _pattern_faults(part, path)
    properties = structure.get("properties") or {}
    is_known = not complete or bool(structure.get("x-kubernetes-preserve-unknown-fields"))
    for name, child in (part.get("properties") or {}).items():
        here, there = path.child("properties").key(name), defined.child("properties").key(name)
        known = properties.get(name)
        if known is None and not is_known:
            yield fields.required(there, f"because it is defined in {here}")
        yield from _value_faults(child, known, here, there, complete=complete)
    if isinstance(items := part.get("items"), dict):
        known, here = structure.get("items"), path.child("items")
        if known is None and complete:
            yield fields.required(defined.child("items"), f"because it is defined in {here}")
        yield from _value_faults(items, known, here, defined.child("items"), complete=complete)
    for where, nested in _composite_parts(part, path):
        yield from _value_faults(nested, structure, where, defined, complete=complete)


def _default_faults(schema: JsonSchema, path: FieldPath) -> Iterator[FieldError]:
    if (default := schema.get("default")) is not None:
        yield from _default_fault(schema, default, path.child("default"))
    for name, child in (schema.get("properties") or {}).items():
        yield from _default_faults(child, path.child("properties").key(name))
    for name in ("additionalProperties", "items"):
        if isinstance(child := schema.get(name), dict):
            yield from _default_faults(child, path.child(name))


def _default_fault(schema: JsonSchema, default: Any, path: FieldPath) -> Iterator[FieldError]:
    found = SchemaOutcome()
    with suppress(TooManyErrors):
        compile_node(_without_defaults(schema), SchemaPath())(fresh_copy(default), (), found)
    if found.unknown:
        yield fields.invalid(path, default, "must not have unknown fields")
    for error in found.errors:
        inner = f".{error.path}" if error.path and error.path[0] != "[" else error.path
        yield replace(error, path=f"{path}{inner}")


def _without_defaults(schema: Any) -> Any:
    """As a default is judged: whole as it is, and a list in it may have an item twice."""
    if not isinstance(schema, dict):
        return schema
    left_out = ("default", "x-kubernetes-list-type")
    bare = {key: value for key, value in schema.items() if key not in left_out}
    if isinstance(properties := schema.get("properties"), dict):
        bare["properties"] = {key: _without_defaults(each) for key, each in properties.items()}
    for name in ("additionalProperties", "items"):
        if name in schema:
            bare[name] = _without_defaults(schema[name])
    return bare
