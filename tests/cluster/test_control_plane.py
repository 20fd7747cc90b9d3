"""The control plane that the cluster suite runs against is the real thing."""

from __future__ import annotations

import json
import subprocess
import uuid
from pathlib import Path

import pytest

from scripts.cluster_tools import KUBERNETES_VERSION, ensure_tools
from tests.support.cluster.control_plane import PLAIN_USER, ControlPlane, ControlPlaneError

pytestmark = pytest.mark.cluster


def unique(prefix: str) -> str:
    # The session shares one server, and without a controller manager no namespace goes away.
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def namespace(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def test_is_ready(control_plane: ControlPlane) -> None:
    answer = control_plane.request("GET", "/readyz")
    assert answer == (200, "ok")


def test_states_its_version(control_plane: ControlPlane) -> None:
    status, version = control_plane.request("GET", "/version")
    assert status == 200
    assert (version["major"], version["minor"]) == ("1", "32")
    assert version["gitVersion"] == KUBERNETES_VERSION


def test_keeps_a_namespace(control_plane: ControlPlane) -> None:
    name = unique("kept")
    status, created = control_plane.request("POST", "/api/v1/namespaces", namespace(name))
    assert status == 201
    status, read = control_plane.request("GET", f"/api/v1/namespaces/{name}")
    assert status == 200
    assert read["metadata"]["uid"] == created["metadata"]["uid"]
    assert read["status"]["phase"] == "Active"


def test_refuses_a_second_object_of_the_same_name(control_plane: ControlPlane) -> None:
    name = unique("twice")
    assert control_plane.request("POST", "/api/v1/namespaces", namespace(name)).status == 201
    status, answer = control_plane.request("POST", "/api/v1/namespaces", namespace(name))
    assert status == 409
    assert answer["reason"] == "AlreadyExists"


def test_a_plain_user_may_do_nothing(control_plane: ControlPlane) -> None:
    status, answer = control_plane.request(
        "GET", "/api/v1/namespaces", token=control_plane.plain_token
    )
    assert status == 403
    assert answer["reason"] == "Forbidden"
    assert f'User "{PLAIN_USER}"' in answer["message"]


def test_an_unknown_token_is_unauthenticated(control_plane: ControlPlane) -> None:
    status, answer = control_plane.request("GET", "/api/v1/namespaces", token="unknown")
    assert status == 401
    assert answer["reason"] == "Unauthorized"


def test_issues_service_account_tokens(control_plane: ControlPlane) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    name = unique("account")
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    assert control_plane.request("POST", accounts, account).status == 201
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    status, issued = control_plane.request("POST", f"{accounts}/{name}/token", request)
    assert status == 201
    # Forbidden rather than Unauthorized: the server knows whose token it is.
    status, answer = control_plane.request(
        "GET", "/api/v1/namespaces", token=issued["status"]["token"]
    )
    assert status == 403
    assert f"system:serviceaccount:default:{name}" in answer["message"]


@pytest.mark.parametrize("kill", [False, True], ids=["shutdown", "crash"])
def test_keeps_its_address_and_data_over_a_restart(control_plane: ControlPlane, kill: bool) -> None:
    name = unique("restart")
    server = control_plane.server
    _, created = control_plane.request("POST", "/api/v1/namespaces", namespace(name))
    control_plane.restart_apiserver(kill=kill)
    assert control_plane.server == server
    status, read = control_plane.request("GET", f"/api/v1/namespaces/{name}")
    assert status == 200
    assert read["metadata"] == created["metadata"]


def test_kubectl_uses_the_kubeconfig(control_plane: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = control_plane.write_kubeconfig(tmp_path / "kubeconfig")
    assert kubeconfig.stat().st_mode & 0o777 == 0o600
    result = subprocess.run(
        # The discovery cache would otherwise go to the home directory.
        [
            ensure_tools() / "kubectl",
            f"--kubeconfig={kubeconfig}",
            f"--cache-dir={tmp_path / 'cache'}",
            "get",
            "ns",
            "--output=json",
        ],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    names = {item["metadata"]["name"] for item in json.loads(result.stdout)["items"]}
    assert {"default", "kube-system"} <= names


def test_a_failed_start_shows_the_log() -> None:
    failing = ControlPlane(ensure_tools(), apiserver_arguments=["--no-such-flag"])
    with pytest.raises(ControlPlaneError, match="unknown flag: --no-such-flag"):
        failing.start()
    with pytest.raises(ControlPlaneError, match="not started"):
        _ = failing.directory
