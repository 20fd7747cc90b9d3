"""The definitions are structural schemas, and every field has a description."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest

from datum_compute.api import planes
from datum_compute.api.crds import all_crds, crds_for
from datum_compute.api.structural_schema import described, schema_of
from tests.support.api.definitions import paths, root_schema


@pytest.mark.parametrize("crd", all_crds(), ids=lambda crd: str(crd["metadata"]["name"]))
def test_every_field_has_a_description(crd: dict[str, Any]) -> None:
    fields = list(paths(root_schema(crd)))

    silent = [
        path
        for path, schema in fields
        if not schema.get("description") and not path.endswith(("[]", "{}")) and path != ".metadata"
    ]
    assert silent == []


@pytest.mark.parametrize("crd", all_crds(), ids=lambda crd: str(crd["metadata"]["name"]))
def test_schemas_are_structural(crd: dict[str, Any]) -> None:
    faults = []
    for path, schema in paths(root_schema(crd)):
        if {"$ref", "anyOf", "oneOf", "allOf", "nullable", "x-required"} & set(schema):
            faults.append(f"{path}: holds more than structure")
        if "type" not in schema and not schema.get("x-kubernetes-int-or-string"):
            faults.append(f"{path}: has no type")
        if path == ".metadata" and schema != {"type": "object"}:
            faults.append("metadata is the server's, and may not be described")
        for key in schema.get("x-kubernetes-list-map-keys", []):
            item = schema["items"]
            if key not in item.get("required", []):
                faults.append(f"{path}: key {key} may be missing")

    assert faults == []


def test_each_plane_serves_its_kinds() -> None:
    def kinds(crds: list[dict[str, Any]]) -> set[str]:
        return {crd["spec"]["names"]["kind"] for crd in crds}

    compute = {"Workload", "WorkloadDeployment", "Instance"}
    quota = {"ResourceGrant", "AllowanceBucket", "ResourceClaim"}
    assert kinds(crds_for(planes.ROOT)) >= {
        "Organization",
        "Project",
        "Service",
        "ServiceConfiguration",
        "ResourceRegistration",
        "GrantCreationPolicy",
    }
    assert kinds(crds_for(planes.PROJECT)) >= compute | quota | {
        "Network",
        "Location",
        "LocationBinding",
        "ServiceEntitlement",
    }
    assert kinds(crds_for(planes.HUB)) >= compute | {
        "Cluster",
        "PropagationPolicy",
        "ResourceBinding",
        "Work",
        "ResourceInterpreterCustomization",
    }
    assert kinds(crds_for(planes.CELL)) >= compute | {
        "Network",
        "NetworkContext",
        "NetworkBinding",
        "SubnetClaim",
        "Subnet",
        "Location",
        "LocationBinding",
    }


def test_a_returned_definition_may_be_changed_by_the_caller() -> None:
    for crd in all_crds() + crds_for(planes.CELL):
        crd["spec"].clear()

    assert all(crd["spec"] for crd in all_crds() + crds_for(planes.CELL))


def test_a_field_without_a_description_is_a_fault() -> None:
    class Silent(msgspec.Struct):
        name: str = ""

    with pytest.raises(TypeError, match=r"Silent\.name has no description"):
        schema_of(Silent)


def test_optional_unions_become_their_value() -> None:
    class Port(msgspec.Struct):
        port: Annotated[int | str | None, described("A port.", required=True)] = None

    assert schema_of(Port) == {
        "type": "object",
        "properties": {"port": {"description": "A port.", "x-kubernetes-int-or-string": True}},
        "required": ["port"],
    }
