"""Our definitions, flattened to paths, for comparing them with what was published."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from datum_compute.api.crds import all_crds
from datum_compute.api.kinds import KINDS, Kind

PUBLISHED = Path(__file__).parent / "published"
LIMITS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties")

Schema = dict[str, Any]


def published(name: str) -> dict[str, Any]:
    return tomllib.loads((PUBLISHED / name).read_text())


@cache
def _all() -> dict[str, dict[str, Any]]:
    return {crd["spec"]["names"]["plural"]: crd for crd in all_crds()}


def definition(plural: str) -> dict[str, Any]:
    """Shared by all tests: not to be changed."""
    return _all()[plural]


def declared(plural: str) -> Kind:
    return next(kind for kind in KINDS if kind.resource.plural == plural)


def version(plural: str) -> dict[str, Any]:
    found: dict[str, Any] = definition(plural)["spec"]["versions"][0]
    return found


def root_schema(crd: dict[str, Any]) -> Schema:
    schema: Schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def paths(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every path below the schema: ``[]`` is a list's item, ``{}`` a map's value."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from paths(child, f"{path}.{name}")
    if "items" in schema:
        yield from paths(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from paths(schema["additionalProperties"], path + "{}")


def schemas(plural: str) -> dict[str, Schema]:
    return dict(paths(root_schema(definition(plural))))


def type_of(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "int-or-string"
    return str(schema["type"])


def required(found: dict[str, Schema]) -> set[str]:
    return {f"{path}.{name}" for path, each in found.items() for name in each.get("required", ())}


def with_keyword(found: dict[str, Schema], keyword: str) -> dict[str, Any]:
    return {path: each[keyword] for path, each in found.items() if keyword in each}


def limits(found: dict[str, Schema]) -> dict[str, dict[str, int]]:
    bounds = {
        path: {word: each[word] for word in LIMITS if word in each} for path, each in found.items()
    }
    return {path: each for path, each in bounds.items() if each}
