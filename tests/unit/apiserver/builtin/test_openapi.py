"""The OpenAPI documents hold what kubectl looks for in them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from datum_compute.apiserver.builtin import openapi
from datum_compute.apiserver.kinds.builtin_kinds import builtin_kinds
from datum_compute.apiserver.kinds.served_kind import ServedKind, from_crd

SPEC = {
    "type": "object",
    "description": "What a widget should be.",
    "properties": {"color": {"type": "string", "description": "Its colour."}},
}


def widget_kinds(scope: str = "Namespaced", spec: Any = None) -> list[ServedKind]:
    properties = {"spec": spec or SPEC}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
        },
    }
    names = {"plural": "widgets", "kind": "Widget"}
    group = {"group": "shop.example.com", "scope": scope, "names": names, "versions": [version]}
    return from_crd({"metadata": {"name": "widgets.shop.example.com"}, "spec": group})


SERVED = [*builtin_kinds(), *widget_kinds()]
WIDGET = {"group": "shop.example.com", "version": "v1", "kind": "Widget"}


def document(group_version: str, served: Sequence[ServedKind] = tuple(SERVED)) -> dict[str, Any]:
    encoded, _ = openapi.encoded_document(served, group_version)
    found: dict[str, Any] = json.loads(encoded)
    return found


def operations(of: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in of["paths"].items():
        for method, operation in item.items():
            if method != "parameters":
                yield path, method, operation


def test_the_index_links_every_group_version_below_the_plane() -> None:
    paths = openapi.index(SERVED, "/clusters/hub")["paths"]

    assert sorted(paths) == [
        "api/v1",
        "apis/admissionregistration.k8s.io/v1",
        "apis/apiextensions.k8s.io/v1",
        "apis/authentication.k8s.io/v1",
        "apis/authorization.k8s.io/v1",
        "apis/coordination.k8s.io/v1",
        "apis/events.k8s.io/v1",
        "apis/rbac.authorization.k8s.io/v1",
        "apis/shop.example.com/v1",
    ]
    for place, entry in paths.items():
        link = entry["serverRelativeURL"]
        assert link.startswith(f"/clusters/hub/openapi/v3/{place}?hash=")


def test_the_hash_follows_the_content() -> None:
    def link(served: list[ServedKind]) -> str:
        paths = openapi.index(served)["paths"]
        found: str = paths["apis/shop.example.com/v1"]["serverRelativeURL"]
        return found

    changed = {**SPEC, "description": "Another."}

    assert link(widget_kinds()) == link(widget_kinds())
    assert link(widget_kinds()) != link(widget_kinds(spec=changed))
    encoded, content_hash = openapi.encoded_document(widget_kinds(), "shop.example.com/v1")
    assert encoded
    assert link(widget_kinds()).endswith(content_hash)


def test_an_unserved_group_version_has_no_document() -> None:
    assert openapi.encoded_document(SERVED, "unknown.example/v1") == (b"", "")


def test_a_namespaced_kind_has_all_its_paths() -> None:
    root = "/apis/shop.example.com/v1"

    found = {
        path: set(item) - {"parameters"} for path, item in document(WIDGET_GV)["paths"].items()
    }

    assert found == {
        f"{root}/widgets": {"get"},
        f"{root}/namespaces/{{namespace}}/widgets": {"get", "post", "delete"},
        f"{root}/namespaces/{{namespace}}/widgets/{{name}}": {"get", "put", "patch", "delete"},
        f"{root}/namespaces/{{namespace}}/widgets/{{name}}/status": {"get", "put", "patch"},
        f"{root}/namespaces/{{namespace}}/widgets/{{name}}/scale": {"get", "put", "patch"},
    }


WIDGET_GV = "shop.example.com/v1"


def test_a_cluster_scoped_kind_has_paths_without_a_namespace() -> None:
    found = document(WIDGET_GV, widget_kinds("Cluster"))

    assert found is not None
    assert "/apis/shop.example.com/v1/widgets/{name}" in found["paths"]
    assert not any("{namespace}" in path for path in found["paths"])


@pytest.mark.parametrize("group_version", ["v1", WIDGET_GV, "apiextensions.k8s.io/v1"])
def test_every_operation_names_its_kind(group_version: str) -> None:
    ids = []
    for path, method, operation in operations(document(group_version)):
        kind = operation["x-kubernetes-group-version-kind"]
        assert set(kind) == {"group", "version", "kind"}, (path, method)
        ids.append(operation["operationId"])
        if method in ("post", "put", "patch"):
            names = {one["name"] for one in operation["parameters"] if one["in"] == "query"}
            assert {"fieldValidation", "fieldManager", "dryRun"} <= names
    assert len(set(ids)) == len(ids)


def test_the_component_of_a_kind_carries_its_schema_and_its_name() -> None:
    schemas = document(WIDGET_GV)["components"]["schemas"]

    widget = schemas["com.example.shop.v1.Widget"]
    assert widget["x-kubernetes-group-version-kind"] == [WIDGET]
    assert widget["properties"]["spec"] == SPEC
    assert set(widget["properties"]) == {"apiVersion", "kind", "metadata", "spec"}
    listed = schemas["com.example.shop.v1.WidgetList"]
    assert listed["x-kubernetes-group-version-kind"] == [{**WIDGET, "kind": "WidgetList"}]


@pytest.mark.parametrize("group_version", ["v1", WIDGET_GV])
def test_every_reference_resolves(group_version: str) -> None:
    whole = document(group_version)
    known = whole["components"]["schemas"]

    targets = set(references(whole))

    assert targets
    assert {target.removeprefix("#/components/schemas/") for target in targets} <= set(known)


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "$ref":
                yield inner
            else:
                yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_metadata_is_described_field_by_field() -> None:
    schemas = document(WIDGET_GV)["components"]["schemas"]

    meta = schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]

    assert {"name", "namespace", "labels", "annotations", "ownerReferences", "finalizers"} <= set(
        meta["properties"]
    )
    assert all(field["description"] for field in meta["properties"].values())


def test_documents_are_kept_up_to_a_size_the_least_recent_first() -> None:
    kept = openapi.RecentDocuments()
    third = bytes(kept.MAX_BYTES // 3)
    for name in "abc":
        kept.add(name, third)

    assert kept.find("a") == third
    kept.add("d", third)
    kept.add("huge", bytes(kept.MAX_BYTES + 1))

    assert [name for name in "abcd" if kept.find(name)] == ["a", "c", "d"]
    assert kept.find("huge") is None
    assert kept.size == 3 * len(third)
