"""Unknown fields of a workload, and which known ones they may be misspellings of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]


def unknown_fields(document: Mapping[str, Any]) -> list[str]:
    """Each with its path and what is allowed there."""
    return list(_unknown(document, _workload(), ""))


def _unknown(value: Any, schema: Schema, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for i, each in enumerate(value):
            yield from _unknown(each, schema.get("items") or {}, f"{path}[{i}]")
    known = schema.get("properties")
    if not isinstance(value, Mapping) or known is None:
        return  # a map of any keys, or a value that is validated elsewhere
    for key, each in value.items():
        place = f"{path}.{key}" if path else key
        if key in known:
            yield from _unknown(each, known[key], place)
        else:
            yield _describe(place, key, schema)


def _describe(path: str, name: str, schema: Schema) -> str:
    import difflib

    known = list(schema.get("properties") or ())
    nearest = difflib.get_close_matches(name, known, n=1)
    if nearest:
        return f"{path}: unknown field; did you mean {nearest[0]}?"
    allowed = f"; known here: {', '.join(known)}" if known else ""
    return f"{path}: unknown field{allowed}"


def _workload() -> Schema:
    from datum_compute.api.compute.v1alpha import WorkloadSpec
    from datum_compute.api.structural_schema import schema_of

    # Metadata and status are not checked: a server may know more fields than this program.
    spec = schema_of(WorkloadSpec)
    return {
        "properties": {"apiVersion": {}, "kind": {}, "metadata": {}, "spec": spec, "status": {}}
    }
