"""The hub accepts the token that the kubelet gives a cell's manager, as the page about installing
configures it, and takes its bearer for that cell; tokens of others it refuses."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.cluster_tools import ensure_tools
from tests.support.cluster.control_plane import ControlPlane
from tests.support.overlays import manager
from tests.support.paths import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.realtime]

PAGE = ROOT / "docs/operate/install.md"
ACCOUNTS = "/api/v1/namespaces/{}/serviceaccounts"
DISCOVERY = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "issuer-discovery"},
    "roleRef": {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "system:service-account-issuer-discovery",
    },
    "subjects": [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:unauthenticated"}
    ],
}
"""The hub reads the keys of the issuer without a credential."""


def configuration() -> dict[str, Any]:
    """The AuthenticationConfiguration of the page."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    [found] = [
        document
        for document in map(yaml.safe_load, blocks)
        if document["kind"] == "AuthenticationConfiguration"
    ]
    return dict(found)


@pytest.fixture(scope="module")
def cell() -> Iterator[ControlPlane]:
    issuer = configuration()["jwt"][0]["issuer"]["url"]
    with ControlPlane(ensure_tools(), issuer=issuer) as running:
        path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        assert running.request("POST", path, DISCOVERY).status == 201
        for namespace, account in (("compute-system", "compute-manager"), ("other", "other")):
            body = {"metadata": {"name": namespace}}
            assert running.request("POST", "/api/v1/namespaces", body).status == 201
            body = {"metadata": {"name": account}}
            assert running.request("POST", ACCOUNTS.format(namespace), body).status == 201
        yield running


@pytest.fixture(scope="module")
def hub(cell: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    config = configuration()
    # The name of the page's issuer leads nowhere: its keys are read where the cell is.
    config["jwt"][0]["issuer"] |= {
        "discoveryURL": f"{cell.server}/.well-known/openid-configuration",
        "certificateAuthority": cell.ca_pem.decode(),
    }
    file: Path = tmp_path_factory.mktemp("hub") / "authentication.yaml"
    file.write_text(yaml.safe_dump(config))
    arguments = (f"--authentication-config={file}",)
    with ControlPlane(ensure_tools(), apiserver_arguments=arguments) as running:
        yield running


def token(cell: ControlPlane, namespace: str, account: str, audience: str) -> str:
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": [audience], "expirationSeconds": 3600},
    }
    path = f"{ACCOUNTS.format(namespace)}/{account}/token"
    status, answer = cell.request("POST", path, body)
    assert status == 201, answer
    return str(answer["status"]["token"])


def seen_as(hub: ControlPlane, bearer: str) -> tuple[int, dict[str, Any]]:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    status, answer = hub.request("POST", path, body, token=bearer)
    return status, answer["status"]["userInfo"] if status == 201 else {}


def wait_accepted(hub: ControlPlane, bearer: str) -> None:
    """The keys of an issuer are read in the background after the start."""
    deadline = time.monotonic() + 60
    while seen_as(hub, bearer)[0] != 201:
        assert time.monotonic() < deadline, "the hub does not accept the token"
        time.sleep(0.5)


def test_the_hub_takes_the_projected_token_of_a_cell_for_that_cell(
    cell: ControlPlane, hub: ControlPlane
) -> None:
    spec = manager("cell")
    assert spec is not None
    [volume] = [each["projected"] for each in spec["volumes"] if each["name"] == "hub"]
    [projected] = [
        each["serviceAccountToken"] for each in volume["sources"] if "serviceAccountToken" in each
    ]
    bearer = token(cell, "compute-system", "compute-manager", projected["audience"])

    wait_accepted(hub, bearer)
    _, user = seen_as(hub, bearer)

    assert user["username"] == "compute-cell-dfw"
    assert "compute-cells" in user["groups"]


def test_the_hub_refuses_other_accounts_and_other_audiences(
    cell: ControlPlane, hub: ControlPlane
) -> None:
    good = token(cell, "compute-system", "compute-manager", "compute-hub")
    wait_accepted(hub, good)

    for namespace, account, audience in (
        ("other", "other", "compute-hub"),
        ("compute-system", "compute-manager", "compute-projects"),
    ):
        status, _ = seen_as(hub, token(cell, namespace, account, audience))
        assert status == 401, (account, audience)
