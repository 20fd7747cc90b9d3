"""The subresource ``scale`` of a custom kind: the same responses from both servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.differential import (
    DEFINITIONS,
    DifferentialRequest,
    ServerSide,
    both_sides,
    outcome,
)

pytestmark = pytest.mark.cluster

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
RACKS = "/apis/scale.example.com/v1/namespaces/default/racks"
NUMBER = {"type": "integer", "format": "int32"}
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "racks.scale.example.com"},
    "spec": {
        "group": "scale.example.com",
        "names": {"kind": "Rack", "plural": "racks", "singular": "rack", "listKind": "RackList"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.deep.slots",
                        "statusReplicasPath": ".status.slots",
                        "labelSelectorPath": ".status.selector",
                    },
                },
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "deep": {
                                        "type": "object",
                                        "properties": {"slots": {**NUMBER, "maximum": 9}},
                                    }
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {"slots": NUMBER, "selector": {"type": "string"}},
                            },
                        },
                    }
                },
            }
        ],
    },
}


def rack(name: str, spec: Any) -> dict[str, Any]:
    kind = {"apiVersion": "scale.example.com/v1", "kind": "Rack"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


def scale(name: str, replicas: int, **metadata: str) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"replicas": replicas},
    }


ONE = f"{RACKS}/one/scale"
ASKS = [
    DifferentialRequest("POST", RACKS, rack("one", {"deep": {"slots": 2}})),
    DifferentialRequest("POST", RACKS, rack("bare", {})),
    DifferentialRequest("GET", ONE),
    DifferentialRequest("GET", f"{RACKS}/bare/scale"),
    DifferentialRequest("GET", f"{RACKS}/none/scale"),
    DifferentialRequest(
        "PATCH", f"{RACKS}/one/status", {"status": {"slots": 1, "selector": "a=b"}}, (), MERGE
    ),
    DifferentialRequest("GET", ONE),
    DifferentialRequest("PATCH", ONE, {"spec": {"replicas": 5}}, (), MERGE),
    DifferentialRequest("GET", f"{RACKS}/one"),
    DifferentialRequest("PATCH", ONE, {"spec": {"replicas": 5}}, (), MERGE),
    DifferentialRequest(
        "PATCH", ONE, [{"op": "replace", "path": "/spec/replicas", "value": 4}], (), JSON_PATCH
    ),
    DifferentialRequest("PATCH", ONE, {"spec": {"replicas": 7}}, (("dryRun", "All"),), MERGE),
    DifferentialRequest("PUT", ONE, scale("one", 3)),
    DifferentialRequest("PUT", ONE, scale("one", 0)),
    DifferentialRequest("GET", f"{RACKS}/one"),
    DifferentialRequest("PUT", ONE, scale("one", 6, resourceVersion="1")),
    DifferentialRequest("PUT", ONE, scale("one", 6, uid="6ba7b810-9dad-11d1-80b4-00c04fd430c8")),
    DifferentialRequest("PUT", ONE, scale("other", 6)),
    DifferentialRequest("PUT", ONE, scale("one", -1)),
    DifferentialRequest("PUT", ONE, scale("one", 50)),
    DifferentialRequest("PUT", f"{RACKS}/bare/scale", scale("bare", 2)),
    DifferentialRequest("GET", f"{RACKS}/bare/scale"),
    DifferentialRequest("PUT", f"{RACKS}/none/scale", scale("none", 2)),
    DifferentialRequest("GET", f"{RACKS}/one"),
]


@pytest.fixture
def sides(control_plane: ControlPlane) -> Iterator[tuple[ServerSide, ServerSide]]:
    with both_sides(control_plane) as (ours, real):
        for side in (ours, real):
            assert side.send(DifferentialRequest("POST", DEFINITIONS, DEFINITION))[0] == 201
        for side in (ours, real):
            for _ in range(2000):  # the real server serves a new kind with a delay
                if side.send(DifferentialRequest("GET", RACKS))[0] == 200:
                    break
        yield ours, real


def test_both_servers_respond_alike_to_scale_requests(sides: tuple[ServerSide, ServerSide]) -> None:
    ours, real = sides
    differ = []
    for ask in ASKS:
        here, there = ours.send(ask), real.send(ask)
        if outcome(*here) != outcome(*there):
            differ.append(f"{ask}\nours: {here}\nreal: {there}")
    assert not differ, "\n".join(differ)
