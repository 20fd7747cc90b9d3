"""The real API server accepts every generated definition, and serves objects of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support.api.complete_objects import complete_object
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.crds import definition_files, established

pytestmark = pytest.mark.cluster

FILES = definition_files()


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.stem))
def test_a_crd_is_established_and_structural(control_plane: ControlPlane, file: Path) -> None:
    crd = yaml.safe_load(file.read_text(encoding="utf-8"))

    conditions = established(control_plane, crd)

    assert conditions["NamesAccepted"]["status"] == "True"
    assert "NonStructuralSchema" not in conditions


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.stem))
def test_a_crd_stores_every_field_of_a_full_object(control_plane: ControlPlane, file: Path) -> None:
    crd = yaml.safe_load(file.read_text(encoding="utf-8"))
    established(control_plane, crd)
    group, names = crd["spec"]["group"], crd["spec"]["names"]
    (version,) = crd["spec"]["versions"]
    parts = version["schema"]["openAPIV3Schema"]["properties"]
    scope = "/namespaces/default" if crd["spec"]["scope"] == "Namespaced" else ""
    objects = f"/apis/{group}/{version['name']}{scope}/{names['plural']}"
    body = {
        "apiVersion": f"{group}/{version['name']}",
        "kind": names["kind"],
        "metadata": {"generateName": "whole-"},
        "spec": complete_object(parts["spec"]),
    }

    status, created = control_plane.request("POST", objects, body)

    assert status == 201, created["message"]
    assert created["spec"] == body["spec"]
    if "status" in parts:
        created["status"] = complete_object(parts["status"])
        path = f"{objects}/{created['metadata']['name']}/status"
        status, reported = control_plane.request("PUT", path, created)
        assert status == 200, reported["message"]
        assert reported["status"] == created["status"]


def test_a_crd_defaults_the_conditions_of_a_new_instance(control_plane: ControlPlane) -> None:
    [file] = definition_files("compute.datumapis.com_instances.yaml")
    established(control_plane, yaml.safe_load(file.read_text(encoding="utf-8")))
    instance = {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Instance",
        "metadata": {"generateName": "defaulted-"},
        "spec": {
            "runtime": {
                "resources": {"instanceType": "datumcloud/d1-standard-2"},
                "sandbox": {
                    "containers": [
                        {"name": "web", "image": "nginx", "ports": [{"name": "http", "port": 80}]}
                    ]
                },
            },
            "networkInterfaces": [{"network": {"name": "default"}}],
        },
    }

    status, created = control_plane.request(
        "POST", "/apis/compute.datumapis.com/v1alpha/namespaces/default/instances", instance
    )

    assert status == 201, created
    assert [
        (each["type"], each["status"], each["reason"], each["lastTransitionTime"])
        for each in created["status"]["conditions"]
    ] == [
        ("Programmed", "Unknown", "Pending", "1970-01-01T00:00:00Z"),
        ("Available", "Unknown", "Pending", "1970-01-01T00:00:00Z"),
        ("Ready", "Unknown", "Pending", "1970-01-01T00:00:00Z"),
        ("QuotaGranted", "Unknown", "PendingEvaluation", "1970-01-01T00:00:00Z"),
    ]
    (container,) = created["spec"]["runtime"]["sandbox"]["containers"]
    assert container["ports"] == [{"name": "http", "port": 80, "protocol": "TCP"}]


def test_a_crd_rejects_changes_of_immutable_fields(control_plane: ControlPlane) -> None:
    [file] = definition_files("services.miloapis.com_services.yaml")
    established(control_plane, yaml.safe_load(file.read_text(encoding="utf-8")))
    services = "/apis/services.miloapis.com/v1alpha1/services"
    service = {
        "apiVersion": "services.miloapis.com/v1alpha1",
        "kind": "Service",
        "metadata": {"name": "compute.datumapis.com"},
        "spec": {
            "serviceName": "compute.datumapis.com",
            "displayName": "Compute",
            "owner": {"producerProjectRef": {"name": "datum"}},
        },
    }
    status, created = control_plane.request("POST", services, service)
    assert status == 201, created
    assert created["spec"]["phase"] == "Draft"

    created["spec"]["serviceName"] = "other.datumapis.com"
    status, answer = control_plane.request("PUT", f"{services}/compute.datumapis.com", created)

    assert status == 422
    assert "serviceName is immutable" in answer["message"]
