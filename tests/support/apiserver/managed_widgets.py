"""A kind with every way of merging: sets, lists by key, lists and maps as one, free content."""

from __future__ import annotations

from typing import Any

from datum_compute.apiserver.kinds.served_kind import ServedKind, from_crd

_TEXT = {"type": "string"}
_WHOLE = {"type": "integer"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_PORT = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": _TEXT,
        "port": _WHOLE,
        "weights": {"type": "array", "items": _WHOLE},
    },
}
_ROUTE = {
    "type": "object",
    "required": ["port"],
    "properties": {
        "port": _WHOLE,
        "protocol": {"type": "string", "default": "TCP"},
        "backend": {"type": "object", "properties": {"host": _TEXT, "path": _TEXT}},
    },
}
SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "size": _WHOLE,
        "replicas": {"type": "integer", "default": 1},
        "tags": {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
        "colors": {"type": "array", "items": _TEXT},
        "ports": {
            "type": "array",
            "items": _PORT,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "routes": {
            "type": "array",
            "items": _ROUTE,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
        },
        "labels": _TEXTS,
        "selector": {**_TEXTS, "x-kubernetes-map-type": "atomic"},
        "box": {"type": "object", "properties": {"height": _WHOLE, "width": _WHOLE}},
        "boxes": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {"height": _WHOLE, "names": _TEXTS},
            },
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "limit": {"x-kubernetes-int-or-string": True},
    },
}
STATUS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "phase": _TEXT,
        "replicas": _WHOLE,
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["type"],
                "properties": {"type": _TEXT, "status": _TEXT, "reason": _TEXT},
            },
        },
    },
}


def definition(group: str = "example.com", plural: str = "gadgets") -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {
                "kind": "Gadget",
                "listKind": "GadgetList",
                "plural": plural,
                "singular": "gadget",
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas",
                        },
                    },
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"spec": SPEC, "status": STATUS},
                        }
                    },
                }
            ],
        },
    }


def managed_kind() -> ServedKind:
    return from_crd(definition())[0]
