"""What a hostile request is, and the objects that the shapes are made of."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "hostile.example"
JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
YAML = "application/yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Sent(NamedTuple):
    """A request; bytes are sent as they are, anything else as JSON."""

    method: str
    path: str
    body: Any = b""
    content_type: str = JSON
    accept: str = JSON

    @property
    def raw(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


class Shape(NamedTuple):
    name: str
    sent: Sent
    status: int
    setup: tuple[Sent, ...] = ()
    """What has to be there before."""


def post(path: str, body: Any, content_type: str = JSON) -> Sent:
    return Sent("POST", path, body, content_type)


def patch(path: str, body: Any, content_type: str = MERGE_PATCH) -> Sent:
    return Sent("PATCH", path, body, content_type)


def apply(path: str, body: Any, manager: str = "ana", *, force: bool = False) -> Sent:
    more = "&force=true" if force else ""
    return patch(f"{path}?fieldManager={manager}{more}", body, APPLY_PATCH)


def config_map(name: str = "one", **more: Any) -> dict[str, Any]:
    metadata = {"name": name} | more.pop("metadata", {})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **more}


def texts(count: int, value: str = "") -> dict[str, str]:
    return {f"key{index}": value for index in range(count)}


def nested(depth: int, value: Any = 1) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def definition(plural: str, spec: dict[str, Any], **version: Any) -> dict[str, Any]:
    """Of a kind whose ``spec`` has this schema."""
    schema = {"type": "object", "properties": {"spec": spec}}
    served = {"name": "v1", "served": True, "storage": True} | version
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.capitalize()},
            "versions": [{"schema": {"openAPIV3Schema": schema}} | served],
        },
    }


def define(plural: str, spec: dict[str, Any], **version: Any) -> Sent:
    return post(DEFINITIONS, definition(plural, spec, **version))


def path_of(plural: str, name: str = "") -> str:
    return f"/apis/{GROUP}/v1/namespaces/default/{plural}{'/' + name if name else ''}"


def custom(plural: str, name: str = "one", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name}
    kind = plural.capitalize()
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "spec": spec}


ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
BOX = define("boxes", ANYTHING)
"""A kind that holds any value."""
_ENTRY = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
}
SHELF = define(
    "shelves",
    {
        "type": "object",
        "properties": {
            "entries": {
                "type": "array",
                "items": _ENTRY,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            "tags": {
                "type": "array",
                "items": {"type": "string"},
                "x-kubernetes-list-type": "set",
            },
            "size": {"type": "integer", "default": 1},
        },
    },
)
"""A kind with the lists that apply merges."""


def entries(count: int, value: str = "") -> list[dict[str, str]]:
    return [{"name": f"n{index}", "value": value} for index in range(count)]
