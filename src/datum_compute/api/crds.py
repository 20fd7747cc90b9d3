"""The CustomResourceDefinitions of every kind, built from the types.

``deploy/crds`` holds those of compute as YAML, ``deploy/local/crds`` those of other systems,
written by ``scripts/generate.py``; the embedded server takes them from here. Which kinds a plane
serves follows from its type.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from datum_compute.api.kinds import KINDS, Kind
from datum_compute.api.planes import PlaneType
from datum_compute.api.structural_schema import schema_of

PARENT_CONTEXTS = "discovery.miloapis.com/parent-contexts"
"""In which contexts Milo shows a kind."""


def all_crds() -> list[dict[str, Any]]:
    """Every definition, fresh: the caller may change what it gets."""
    return [msgspec.json.decode(body) for _, body in _encoded()]


def crds_for(plane_type: PlaneType) -> list[dict[str, Any]]:
    """The definitions a plane of this type serves, fresh as well."""
    return [msgspec.json.decode(body) for kind, body in _encoded() if plane_type in kind.planes]


@cache
def _encoded() -> tuple[tuple[Kind, bytes], ...]:
    """Cached: several planes serve the same kinds, and reading annotations is slow."""
    return tuple((kind, msgspec.json.encode(_definition(kind))) for kind in KINDS)


def _definition(kind: Kind) -> dict[str, Any]:
    resource = kind.resource
    metadata: dict[str, Any] = {"name": resource.group_resource}
    if kind.context:
        metadata["annotations"] = {PARENT_CONTEXTS: kind.context}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": resource.group,
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                **_listed(shortNames=kind.short_names, categories=kind.categories),
            },
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [_version(kind)],
        },
    }


def _listed(**names: tuple[str, ...]) -> dict[str, list[str]]:
    return {key: list(values) for key, values in names.items() if values}


def _version(kind: Kind) -> dict[str, Any]:
    schema = _root_schema(kind)
    version: dict[str, Any] = {
        "name": kind.resource.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [column.to_wire() for column in kind.columns],
        "schema": {"openAPIV3Schema": schema},
    }
    if "status" in schema["properties"]:
        version["subresources"] = {"status": {}}
    return version


def _root_schema(kind: Kind) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "apiVersion": {
            "description": "Group and version of the schema this object is written in.",
            "type": "string",
        },
        "kind": {"description": "Kind of this object.", "type": "string"},
        "metadata": {"type": "object"},  # a real server refuses even a description here
    }
    parts = {each.name: each.type for each in msgspec.structs.fields(kind.view)}
    properties["spec"] = {
        "description": f"Desired state of the {kind.resource.kind}.",
        **schema_of(parts["spec"]),
    }
    if "status" in parts:
        properties["status"] = {
            "description": f"Observed state of the {kind.resource.kind}.",
            **schema_of(parts["status"]),
        }
        if kind.default_status:
            properties["status"]["default"] = kind.default_status
    return {
        "description": (kind.view.__doc__ or "").strip(),
        "type": "object",
        "properties": properties,
        "required": ["spec"],
    }
