"""One object from create to delete, as a client sees it."""

from __future__ import annotations

import msgspec
import pytest

from datum_compute.api.core import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.protocol import json_patch, merge
from datum_compute.testing.server import embedded_server

WIDGETS = Resource("example.com", "v1", "widgets", "Widget")

WIDGET_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"kind": "Widget", "plural": "widgets"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer", "default": 1, "minimum": 0},
                                    "color": {"type": "string"},
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {"ready": {"type": "boolean"}},
                            },
                        },
                    }
                },
            }
        ],
    },
}


async def test_smoke() -> None:
    async with embedded_server() as embedded:
        client = embedded.client("project/demo")
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, WIDGET_CRD)
        made = await client.create(
            WIDGETS, {"metadata": {"name": "a"}, "spec": {"color": "red"}}, "default"
        )
        assert msgspec.json.decode(made.spec) == {"color": "red", "size": 1}
        assert made.metadata.generation == 1
        got = await client.get(WIDGETS, "a", "default")
        assert got.to_wire() == made.to_wire()
        patched = await client.patch(WIDGETS, "a", merge({"spec": {"size": 3}}), "default")
        assert patched.metadata.generation == 2
        patched = await client.patch(
            WIDGETS,
            "a",
            json_patch(
                [
                    {"op": "test", "path": "/spec/size", "value": 3},
                    {"op": "replace", "path": "/spec/size", "value": 4},
                ]
            ),
            "default",
        )
        listed = await client.list(WIDGETS, "default")
        assert [o.name for o in listed.items] == ["a"]
        async with client.watch(WIDGETS, "default") as events:
            event = await anext(events)
            assert event.object.name == "a"
            await client.delete(WIDGETS, "a", "default")
            event = await anext(events)
            assert event.type == "DELETED"
        with pytest.raises(errors.NotFound):
            await client.get(WIDGETS, "a", "default")
        await client.create(CONFIG_MAPS, {"metadata": {"name": "x"}, "data": {"a": "b"}}, "default")
        print([o.name for o in (await client.list(NAMESPACES)).items])
