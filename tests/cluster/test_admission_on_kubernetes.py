"""A real API server calls a manager's webhooks for Workloads, as the shipped manifests declare.

The manager runs as its service account, so that its roles must allow what a review reads.
Only its address differs from the manifests: there is no Service network here.
"""

from __future__ import annotations

import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from datum_compute.apiserver.http.certificates import ensure_certificates
from datum_compute.client import connect, kubeconfig
from datum_compute.client.client import ApiClient
from datum_compute.env import SystemEnvironment
from datum_compute.testing.expectations import eventually
from scripts.cluster_tools import ensure_tools
from tests.support.cluster import namespaces as alone
from tests.support.cluster.control_plane import Answer, ControlPlane
from tests.support.cluster.roles import PATHS, applied, define_kinds, manager_token
from tests.support.decisions.workloads import CONTAINER, with_changes
from tests.support.processes.managers import manager
from tests.support.rights.manifests import documents

pytestmark = [pytest.mark.cluster, pytest.mark.realtime]

WORKLOADS = "/apis/compute.datumapis.com/v1alpha/namespaces/judged/workloads"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ANA = {"Impersonate-User": "ana"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    with ControlPlane(ensure_tools()) as running:
        define_kinds(running)
        yield running


def register(cluster: ControlPlane, port: int, authority: Path) -> None:
    """The shipped configurations, with the address of this manager."""
    bundle = base64.b64encode(authority.read_bytes()).decode()
    for _, body in documents("single"):
        if "Webhook" in body["kind"]:
            [webhook] = body["webhooks"]
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {
                "url": f"https://127.0.0.1:{port}{path}",
                "caBundle": bundle,
            }
            status, answer = cluster.request("POST", PATHS[body["kind"]], body)
            assert status == 201, answer


@contextlib.asynccontextmanager
async def judged(cluster: ControlPlane, directory: Path) -> AsyncIterator[None]:
    """A namespace in which a manager reviews every Workload."""
    with applied(cluster, "single"):
        admin = str(cluster.write_kubeconfig(directory / "kubeconfig"))
        connection = kubeconfig.load(admin, env=SystemEnvironment())
        transport = connect.transport_for(connection)
        client = ApiClient(transport, cluster="single", token=connection.token, user_agent="test")
        own = directory / "manager.kubeconfig"
        cluster.write_kubeconfig(own, user="compute-manager", token=manager_token(cluster))
        argv = (
            *("--enable-management-controllers", "--enable-cell-controllers"),
            *(f"--kubeconfig={own}", f"--server-config={_config(directory)}", "--log-format=json"),
        )
        try:
            await alone.given_city(client)
            await alone.ClusterNamespace(client, "judged").prepare()
            async with manager(directory, "manager", *argv):
                port = await _port(directory / "manager.log")
                register(cluster, port, directory / "tls" / "ca.crt")
                await _until_asked(cluster)
                yield
        finally:
            await client.close()


def _config(directory: Path) -> Path:
    (directory / "tls").mkdir()
    ensure_certificates(directory / "tls", SystemEnvironment())
    tls = {"certDir": str(directory / "tls"), "certName": "server.crt", "keyName": "server.key"}
    path = directory / "config.yaml"
    body = {
        "apiVersion": "apiserver.config.datumapis.com/v1alpha1",
        "kind": "WorkloadOperator",
        "webhookServer": {"host": "127.0.0.1", "port": 0, "tls": tls},
    }
    path.write_text(yaml.safe_dump(body))
    return path


async def _port(log: Path) -> int:
    found: list[int] = []

    async def look() -> str:
        lines = [json.loads(line) for line in _read(log).splitlines()]
        found[:] = [line["port"] for line in lines if line.get("server") == "webhooks"]
        return "" if found else f"its last lines: {lines[-5:]}"

    await eventually("webhooks are served", look, within=30)
    return found[0]


def _read(path: Path) -> str:
    return path.read_text()


async def _until_asked(cluster: ControlPlane) -> None:
    """The API server applies a registration a moment later."""

    async def look() -> str:
        answer = create(cluster, _workload("probe", "PLACEMENT.cityCodes", ["XXX"]))
        return "the webhook was not called" if answer.status == 201 else ""

    await eventually("the manager is asked", look, within=30)


def _workload(name: str, path: str = "", value: Any = None) -> dict[str, Any]:
    changes: dict[str, Any] = {
        "metadata.name": name,
        "metadata.namespace": "judged",
        "PLACEMENT.cityCodes": ["DFW"],
    }
    if path:
        changes[path] = value
    body: dict[str, Any] = with_changes(CONTAINER, changes)
    return body


def create(
    cluster: ControlPlane, workload: dict[str, Any], headers: dict[str, str] | None = None
) -> Answer:
    return cluster.request("POST", f"{WORKLOADS}?dryRun=All", workload, headers=headers)


async def test_a_real_api_server_admits_workloads_through_the_webhooks(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    async with judged(cluster, tmp_path):
        refused = create(cluster, _workload("wrong", "PLACEMENT.cityCodes", ["XXX"]))
        assert refused.status in (403, 422), refused.body
        assert '"XXX": supported values: "DFW"' in refused.body["message"]

        taken = create(cluster, _workload("right"))
        assert taken.status == 201, taken.body
        assert taken.body["spec"]["placements"][0]["scaleSettings"]["instanceManagementPolicy"]

        grant(cluster, "writer", "compute.datumapis.com", "workloads", "create")
        denied = until(cluster, "permission to use the network was denied")
        assert denied.status in (403, 422), denied.body
        grant(cluster, "networker", "networking.datumapis.com", "networks", "use")
        until(cluster, "")


def grant(cluster: ControlPlane, name: str, group: str, resource: str, verb: str) -> None:
    """Give Ana a right in all namespaces."""
    role = {
        "metadata": {"name": name},
        "rules": [{"apiGroups": [group], "resources": [resource], "verbs": [verb]}],
    }
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC.split("/")[2], "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": RBAC.split("/")[2], "kind": "User", "name": "ana"}],
    }
    for plural, body in (("clusterroles", role), ("clusterrolebindings", binding)):
        status, answer = cluster.request("POST", f"{RBAC}/{plural}", body)
        assert status == 201, answer


def until(cluster: ControlPlane, message: str) -> Answer:
    """Create as Ana until this is the refusal; an empty message means until it is admitted."""
    deadline = time.monotonic() + 30
    while True:
        answer = create(cluster, _workload("anas"), ANA)
        refusal = "" if answer.status == 201 else answer.body["message"]
        if (message and message in refusal) or (not message and not refusal):
            return answer
        assert time.monotonic() < deadline, refusal
        time.sleep(0.2)
