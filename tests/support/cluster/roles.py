"""The shipped roles, applied to a real cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.crds import definition_files, established
from tests.support.rights.manifests import BASE, documents

NAMESPACE = "compute-system"
KNOWN_WITHIN = 30.0
"""Seconds until the authorizer has heard of a role."""
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PATHS = {
    "ClusterRole": f"{RBAC}/clusterroles",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
    "Role": f"{RBAC}/namespaces/{NAMESPACE}/roles",
    "RoleBinding": f"{RBAC}/namespaces/{NAMESPACE}/rolebindings",
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
    "Service": f"/api/v1/namespaces/{NAMESPACE}/services",
    "MutatingWebhookConfiguration": (
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    ),
    "ValidatingWebhookConfiguration": (
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    ),
}


def define_kinds(cluster: ControlPlane) -> None:
    """Those of one cluster that does everything. An established kind is not served at once:
    its storage is being prepared, and until then requests are turned away."""
    for group in ("compute.datumapis.com", "networking.datumapis.com"):
        for file in definition_files(f"{group}_*.yaml"):
            crd = yaml.safe_load(file.read_text(encoding="utf-8"))
            established(cluster, crd)
            path = f"/apis/{group}/v1alpha/{crd['spec']['names']['plural']}"
            deadline = time.monotonic() + KNOWN_WITHIN
            while (answer := cluster.request("GET", path)).status != 200:
                assert time.monotonic() < deadline, answer
                time.sleep(0.1)


def manifests(folder: str) -> list[dict[str, Any]]:
    """Of a folder and of what it builds on, in the order in which they can be made."""
    [kustomization] = yaml.safe_load_all((BASE / folder / "kustomization.yaml").read_text())
    found = [
        document
        for path, document in documents(folder)
        if path.parent == BASE / folder and document["kind"] in PATHS
    ]
    if "../host" in kustomization["resources"]:
        found = manifests("host") + found
    return sorted(found, key=lambda each: each["kind"] != "Namespace")


@contextmanager
def applied(cluster: ControlPlane, folder: str) -> Iterator[list[dict[str, Any]]]:
    """What is about rights, until the end of the block. A webhook without a server would
    block every write, so webhooks are only dry-run."""
    made: list[str] = []
    found = manifests(folder)
    try:
        for body in found:
            path, name = PATHS[body["kind"]], body["metadata"]["name"]
            tried = "Webhook" in body["kind"]
            query = "?fieldValidation=Strict" + ("&dryRun=All" if tried else "")
            status, answer = cluster.request("POST", path + query, body)
            assert status == 201 or answer["reason"] == "AlreadyExists", (name, answer["message"])
            if "rbac" in path:
                made.append(f"{path}/{name}")
        yield found
    finally:
        for path in made:
            cluster.request("DELETE", path)


def manager_token(cluster: ControlPlane) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/compute-manager/token"
    status, answer = cluster.request("POST", path, body)
    assert status == 201, answer
    return str(answer["status"]["token"])
