"""Discovery documents, in both forms."""

from __future__ import annotations

from typing import Any

import pytest

from datum_compute.apiserver.builtin import discovery
from datum_compute.apiserver.kinds.builtin_kinds import builtin_kinds
from datum_compute.apiserver.kinds.served_kind import VERBS, from_crd


def crd(group: str, plural: str, kind: str, *versions: str, **version: Any) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, "shortNames": ["wg"], "categories": ["all"]},
            "versions": [
                {"name": name, "served": True, "storage": not i, "schema": schema, **version}
                for i, name in enumerate(versions)
            ],
        },
    }


SCALE = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
SUBRESOURCES: dict[str, Any] = {"status": {}, "scale": SCALE}
SERVED = [
    *from_crd(crd("zoo.example", "widgets", "Widget", "v1", subresources=SUBRESOURCES)),
    *from_crd(crd("an.example", "things", "Thing", "v1alpha", "v1beta2", "v2", "v10")),
    *builtin_kinds(),
]


def test_groups_are_listed_built_in_ones_first() -> None:
    document = discovery.group_list(SERVED)

    assert document["kind"] == "APIGroupList"
    assert [group["name"] for group in document["groups"]] == [
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "coordination.k8s.io",
        "events.k8s.io",
        "rbac.authorization.k8s.io",
        "an.example",
        "zoo.example",
    ]


def test_the_preferred_version_is_the_most_stable_and_newest() -> None:
    document = discovery.group(SERVED, "an.example")

    assert document is not None
    assert [v["version"] for v in document["versions"]] == ["v10", "v2", "v1beta2", "v1alpha"]
    assert document["preferredVersion"] == {"groupVersion": "an.example/v10", "version": "v10"}


@pytest.mark.parametrize("name", ["", "unknown.example"])
def test_an_unserved_group_has_no_document(name: str) -> None:
    assert discovery.group(SERVED, name) is None


def test_a_resource_and_its_subresources_are_described() -> None:
    document = discovery.resource_list(SERVED, "zoo.example", "v1")

    assert document is not None
    assert document["groupVersion"] == "zoo.example/v1"
    widget, status, scale = document["resources"]
    assert widget == {
        "name": "widgets",
        "singularName": "widget",
        "namespaced": True,
        "kind": "Widget",
        "verbs": list(VERBS),
        "shortNames": ["wg"],
        "categories": ["all"],
    }
    assert (status["name"], status["kind"]) == ("widgets/status", "Widget")
    assert (scale["name"], scale["kind"], scale["group"]) == (
        "widgets/scale",
        "Scale",
        "autoscaling",
    )


def test_the_core_group_has_its_own_path() -> None:
    document = discovery.resource_list(SERVED, "", "v1")

    assert document is not None
    assert document["groupVersion"] == "v1"
    names = [resource["name"] for resource in document["resources"]]
    assert names == sorted(names)
    assert {"namespaces", "configmaps", "secrets", "serviceaccounts", "events"} <= set(names)
    assert discovery.core_versions()["versions"] == ["v1"]


def test_an_unserved_version_has_no_document() -> None:
    assert discovery.resource_list(SERVED, "zoo.example", "v9") is None


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
def test_the_aggregated_form_has_the_same_content(version: str) -> None:
    document = discovery.aggregated(SERVED, core=False, version=version)

    assert document["kind"] == "APIGroupDiscoveryList"
    assert document["apiVersion"] == f"apidiscovery.k8s.io/{version}"
    legacy = discovery.group_list(SERVED)["groups"]
    assert [item["metadata"]["name"] for item in document["items"]] == [g["name"] for g in legacy]
    for item, group in zip(document["items"], legacy, strict=True):
        assert [v["version"] for v in item["versions"]] == [v["version"] for v in group["versions"]]


def test_an_aggregated_resource_is_complete() -> None:
    document = discovery.aggregated(SERVED, core=False)

    (version,) = document["items"][-1]["versions"]
    assert version["freshness"] == "Current"
    (widget,) = version["resources"]
    response = {"group": "zoo.example", "version": "v1", "kind": "Widget"}
    assert widget == {
        "resource": "widgets",
        "responseKind": response,
        "scope": "Namespaced",
        "singularResource": "widget",
        "verbs": list(VERBS),
        "shortNames": ["wg"],
        "categories": ["all"],
        "subresources": [
            {
                "subresource": "status",
                "responseKind": response,
                "verbs": ["get", "patch", "update"],
            },
            {
                "subresource": "scale",
                "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                "verbs": ["get", "patch", "update"],
            },
        ],
    }


def test_the_aggregated_core_holds_the_core_group_alone() -> None:
    (item,) = discovery.aggregated(SERVED, core=True)["items"]

    assert "name" not in item["metadata"]
    scopes = {r["resource"]: r["scope"] for r in item["versions"][0]["resources"]}
    assert scopes["namespaces"] == "Cluster"
    assert scopes["configmaps"] == "Namespaced"


def test_the_tag_changes_with_the_content_and_not_with_the_order_of_kinds() -> None:
    tag = discovery.etag(discovery.aggregated(SERVED, core=False))

    assert tag == discovery.etag(discovery.aggregated(SERVED[::-1], core=False))
    assert tag != discovery.etag(discovery.aggregated(SERVED[1:], core=False))
    assert tag.startswith('"')
    assert tag.endswith('"')
