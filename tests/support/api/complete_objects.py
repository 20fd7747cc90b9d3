"""An object of any kind with every field of its schema filled in, by the schema's own rules."""

from __future__ import annotations

import re
from typing import Any

from tests.support.api.definitions import Schema

TIME = "2026-05-04T03:02:01Z"
TEXTS = ("a", "A", "v1", "1")
"""One of these fits each pattern we use."""


def complete_object(schema: Schema, *, unknown: bool = False) -> Any:
    """A value with everything the schema knows; with ``unknown``, and a field that it does
    not know in every object."""
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("x-kubernetes-int-or-string"):
        return "1"
    if schema["type"] == "object":
        return _object(schema, unknown)
    if schema["type"] == "array":
        return [complete_object(schema["items"], unknown=unknown)]
    return _plain(schema)


def _object(schema: Schema, unknown: bool) -> dict[str, Any]:
    found = {
        name: complete_object(child, unknown=unknown)
        for name, child in schema.get("properties", {}).items()
    }
    if "additionalProperties" in schema:
        found["key"] = complete_object(schema["additionalProperties"], unknown=unknown)
    elif unknown or schema.get("x-kubernetes-preserve-unknown-fields"):
        found["fromTheFuture"] = {"deep": [1, None, "x"]}
        if not schema.get("properties"):  # may have to be a whole object
            found |= {"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}}
    return found


def _plain(schema: Schema) -> Any:
    match schema["type"], schema.get("format"):
        case "string", "date-time":
            return TIME
        case "string", _:
            return next(text for text in TEXTS if re.search(schema.get("pattern", ""), text))
        case "integer", _:
            return max(7, schema.get("minimum", 0))
        case "boolean", _:
            return True
    raise AssertionError(f"no value for {schema}")
