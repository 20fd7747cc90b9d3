"""The hub accepts the token that the kubelet gives a cell's manager, as the page about installing
configures it, and takes its bearer for that cell; tokens of others it refuses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.cluster_tools import ensure_tools
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.managers.hub_credentials import DISCOVERY, issuer, trust
from tests.support.cluster.manifests import service_account_token
from tests.support.overlays import manager

pytestmark = [pytest.mark.cluster, pytest.mark.realtime]

ACCOUNTS = "/api/v1/namespaces/{}/serviceaccounts"


@pytest.fixture(scope="module")
def cell() -> Iterator[ControlPlane]:
    with ControlPlane(ensure_tools(), issuer=issuer("dfw")) as running:
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
    file: Path = tmp_path_factory.mktemp("hub") / "authentication.yaml"
    file.write_text(yaml.safe_dump(trust({"dfw": cell})))
    arguments = (f"--authentication-config={file}",)
    with ControlPlane(ensure_tools(), apiserver_arguments=arguments) as running:
        yield running


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
    bearer = service_account_token(cell, "compute-system", "compute-manager", projected["audience"])

    wait_accepted(hub, bearer)
    _, user = seen_as(hub, bearer)

    assert user["username"] == "compute-cell-dfw"
    assert "compute-cells" in user["groups"]


def test_the_hub_refuses_other_accounts_and_other_audiences(
    cell: ControlPlane, hub: ControlPlane
) -> None:
    good = service_account_token(cell, "compute-system", "compute-manager", "compute-hub")
    wait_accepted(hub, good)

    for namespace, account, audience in (
        ("other", "other", "compute-hub"),
        ("compute-system", "compute-manager", "compute-projects"),
    ):
        status, _ = seen_as(hub, service_account_token(cell, namespace, account, audience))
        assert status == 401, (account, audience)
