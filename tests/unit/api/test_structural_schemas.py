"""The definitions hold every published field, in a form any API server accepts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest

from datum_compute.api.crds import PARENT_CONTEXTS, all_crds, crds_for
from datum_compute.api.structural import described, schema_of

PUBLISHED = Path(__file__).parent / "published_fields"
ADDED = {
    "workloads": {
        ".spec.template.spec.runtime.sandbox.containers[].command": "array",
        ".spec.template.spec.runtime.sandbox.containers[].args": "array",
        ".status.updatedReplicas": "integer",
        ".status.placements[].updatedReplicas": "integer",
        ".status.observedGeneration": "integer",
    },
    "workloaddeployments": {
        ".spec.template.spec.runtime.sandbox.containers[].command": "array",
        ".spec.template.spec.runtime.sandbox.containers[].args": "array",
        ".status.updatedReplicas": "integer",
        ".status.observedGeneration": "integer",
    },
    "instances": {
        ".spec.runtime.sandbox.containers[].command": "array",
        ".spec.runtime.sandbox.containers[].args": "array",
    },
}


def definition(plural: str) -> dict[str, Any]:
    return next(crd for crd in all_crds() if crd["spec"]["names"]["plural"] == plural)


def version(plural: str) -> dict[str, Any]:
    found: dict[str, Any] = definition(plural)["spec"]["versions"][0]
    return found


def root_schema(crd: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def paths(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from paths(child, f"{path}.{name}")
    if "items" in schema:
        yield from paths(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from paths(schema["additionalProperties"], path + "{}")


def type_of(schema: dict[str, Any]) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "int-or-string"
    return str(schema["type"])


@pytest.mark.parametrize("plural", ["workloads", "workloaddeployments", "instances"])
def test_every_published_path_has_its_type(plural: str) -> None:
    lines = (PUBLISHED / f"{plural}.txt").read_text().splitlines()
    published = dict(line.split("\t") for line in lines) | ADDED[plural]

    ours = {path: type_of(schema) for path, schema in paths(root_schema(definition(plural)))}

    assert {path: ours.get(path) for path in published} == published


@pytest.mark.parametrize("crd", all_crds(), ids=lambda crd: str(crd["metadata"]["name"]))
def test_every_field_says_what_it_means(crd: dict[str, Any]) -> None:
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
        for key in schema.get("x-kubernetes-list-map-keys", []):
            item = schema["items"]
            if key not in item.get("required", []):
                faults.append(f"{path}: key {key} may be missing")

    assert faults == []


def test_the_compute_kinds_are_shown_in_projects() -> None:
    for plural in ("workloads", "workloaddeployments", "instances"):
        crd = definition(plural)

        assert crd["metadata"]["annotations"] == {PARENT_CONTEXTS: "Project"}
        assert crd["spec"]["scope"] == "Namespaced"
        assert crd["spec"]["versions"][0]["subresources"] == {"status": {}}
        assert set(crd["spec"]["names"]) == {"kind", "listKind", "plural", "singular"}


@pytest.mark.parametrize(
    ("plural", "columns"),
    [
        (
            "workloads",
            [
                ("Age", 0),
                ("Available", 0),
                ("Reason", 0),
                ("Deployments", 0),
                ("Replicas", 0),
                ("Ready", 0),
                ("Desired", 0),
                ("Up-to-date", 0),
            ],
        ),
        (
            "workloaddeployments",
            [
                ("Age", 0),
                ("Available", 0),
                ("Reason", 0),
                ("Replicas", 0),
                ("Ready", 0),
                ("Desired", 0),
                ("Up-to-date", 0),
                ("Location Namespace", 1),
                ("Location Name", 1),
            ],
        ),
        (
            "instances",
            [
                ("Age", 0),
                ("Ready", 0),
                ("Reason", 0),
                ("Network IP", 0),
                ("External IP", 0),
                ("Message", 1),
                ("Quota", 1),
            ],
        ),
    ],
)
def test_columns_stand_in_their_order(plural: str, columns: list[tuple[str, int]]) -> None:
    found = version(plural)["additionalPrinterColumns"]

    assert [(column["name"], column.get("priority", 0)) for column in found] == columns


def test_up_to_date_follows_updated_replicas() -> None:
    for plural in ("workloads", "workloaddeployments"):
        columns = {
            column["name"]: column["jsonPath"]
            for column in version(plural)["additionalPrinterColumns"]
        }

        assert columns["Up-to-date"] == ".status.updatedReplicas"


def test_a_new_instance_is_unknown_since_1970() -> None:
    default = root_schema(definition("instances"))["properties"]["status"]["default"]

    assert [
        (condition["type"], condition["status"], condition["reason"], condition["message"])
        for condition in default["conditions"]
    ] == [
        ("Programmed", "Unknown", "Pending", "Waiting for controller"),
        ("Available", "Unknown", "Pending", "Waiting for controller"),
        ("Ready", "Unknown", "Pending", "Waiting for controller"),
        ("QuotaGranted", "Unknown", "PendingEvaluation", "Waiting for quota evaluation"),
    ]
    assert {condition["lastTransitionTime"] for condition in default["conditions"]} == {
        "1970-01-01T00:00:00Z"
    }


def test_a_new_claim_is_not_granted_since_1970() -> None:
    default = root_schema(definition("resourceclaims"))["properties"]["status"]["default"]

    (granted,) = default["conditions"]
    assert (granted["status"], granted["reason"]) == ("False", "PendingEvaluation")
    assert granted["lastTransitionTime"] == "1970-01-01T00:00:00Z"


def test_minimum_replicas_may_be_zero_for_a_drain() -> None:
    settings = dict(paths(root_schema(definition("workloads"))))[".spec.placements[].scaleSettings"]

    assert settings["required"] == ["minReplicas"]
    assert settings["properties"]["minReplicas"]["minimum"] == 0
    assert settings["properties"]["minReplicas"]["maximum"] == 1000
    assert settings["properties"]["instanceManagementPolicy"]["default"] == "OrderedReady"


def test_each_plane_serves_its_kinds() -> None:
    def kinds(crds: list[dict[str, Any]]) -> set[str]:
        return {crd["spec"]["names"]["kind"] for crd in crds}

    compute = {"Workload", "WorkloadDeployment", "Instance"}
    quota = {"ResourceGrant", "AllowanceBucket", "ResourceClaim"}
    assert kinds(crds_for("root")) == {"Project", "ResourceRegistration"}
    assert kinds(crds_for("project")) == compute | quota | {
        "Network",
        "Location",
        "LocationBinding",
    }
    assert kinds(crds_for("hub")) == compute | {
        "Cluster",
        "PropagationPolicy",
        "ResourceBinding",
        "Work",
        "ResourceInterpreterCustomization",
    }
    assert kinds(crds_for("cell")) == compute | {
        "Network",
        "NetworkContext",
        "NetworkBinding",
        "SubnetClaim",
        "Subnet",
        "Location",
        "LocationBinding",
    }


def test_a_caller_may_change_what_it_gets() -> None:
    root_schema(definition("instances"))["properties"]["status"]["default"].clear()

    assert root_schema(definition("instances"))["properties"]["status"]["default"]


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
