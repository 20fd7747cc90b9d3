"""Fields of a workload that nobody knows, and what was probably meant by them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

_STEP = re.compile(r"\.?([^.\[\]]+)|\[\d+\]")


def unknown_fields(document: Mapping[str, Any]) -> list[str]:
    """Each with its path and what is allowed there."""
    return list(_unknown(document, _workload(), ""))


def describe_unknown_field(path: str) -> str:
    """What to say of a field that a server does not know."""
    parent, _, name = path.rpartition(".")
    schema = _workload()
    for step in _STEP.finditer(parent):
        inner = (schema.get("properties") or {}).get(step[1]) if step[1] else schema.get("items")
        schema = inner or {}
    return _said(path, name, schema)


def _unknown(value: Any, schema: Schema, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for i, each in enumerate(value):
            yield from _unknown(each, schema.get("items") or {}, f"{path}[{i}]")
    known = schema.get("properties")
    if not isinstance(value, Mapping) or known is None:
        return  # a map of any keys, or a value that is judged elsewhere
    for key, each in value.items():
        place = f"{path}.{key}" if path else key
        if key in known:
            yield from _unknown(each, known[key], place)
        else:
            yield _said(place, key, schema)


def _said(path: str, name: str, schema: Schema) -> str:
    import difflib

    known = list(schema.get("properties") or ())
    nearest = difflib.get_close_matches(name, known, n=1)
    if nearest:
        return f"{path}: unknown field; did you mean {nearest[0]}?"
    allowed = f"; there are {', '.join(known)}" if known else ""
    return f"{path}: unknown field{allowed}"


def _workload() -> Schema:
    from datum_compute.api.compute.v1alpha import WorkloadSpec
    from datum_compute.api.structural_schema import schema_of

    # A server keeps more in metadata and status than a person would write.
    spec = schema_of(WorkloadSpec)
    return {
        "properties": {"apiVersion": {}, "kind": {}, "metadata": {}, "spec": spec, "status": {}}
    }
