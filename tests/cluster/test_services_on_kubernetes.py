"""The headless Service of a deployment of Pods, beside Kubernetes' own controllers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.client import connect, kubeconfig
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import merge
from datum_compute.env import SystemEnvironment
from datum_compute.fleets.single import SingleFleet
from datum_compute.providers.pod import PodProvider, PodSettings
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.expectations import eventually
from scripts.cluster_tools import DEFAULT_TOOLS, KUBE_CONTROLLER_MANAGER, ensure_tools
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.crds import definition_files, established
from tests.support.standins.platform import deployment

pytestmark = [pytest.mark.cluster, pytest.mark.realtime]

NS = "served"
NAME = "2048-default-dfw"
WITHIN = 120.0
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{NS}/endpointslices"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    tools = ensure_tools([*DEFAULT_TOOLS, KUBE_CONTROLLER_MANAGER])
    with ControlPlane(tools) as running:
        for file in definition_files("compute.datumapis.com_*.yaml"):
            established(running, yaml.safe_load(file.read_text(encoding="utf-8")))
        running.start_collector("endpointslice-controller", "serviceaccount-controller")
        yield running


@asynccontextmanager
async def cell_of_pods(cluster: ControlPlane, directory: Path) -> AsyncIterator[ApiClient]:
    env = SystemEnvironment()
    path = str(cluster.write_kubeconfig(directory / "kubeconfig"))
    connection = kubeconfig.load(path, env=env)
    transport = connect.transport_for(connection)
    client = ApiClient(transport, cluster="single", token=connection.token, user_agent="test")
    manager = Manager("provider", env)
    provider = PodProvider(SingleFleet("cell", "single", client, env), env, PodSettings())
    manager.add(*provider.controllers())
    running = asyncio.create_task(manager.run())
    try:
        await manager.wait_ready()
        yield client
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await client.close()


def instance() -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"{NAME}-0",
            "labels": {compute.LABEL_WORKLOAD_DEPLOYMENT_NAME: NAME},
        },
        "spec": {
            "runtime": {
                "resources": {"instanceType": compute.INSTANCE_TYPE_D1_STANDARD_2},
                "sandbox": {"containers": [{"name": "app", "image": "a:1"}]},
            },
            "networkInterfaces": [{"network": {"name": "default"}}],
            "controller": {"templateHash": "h", "schedulingGates": []},
        },
    }


def start_pod(cluster: ControlPlane, pod: str) -> None:
    """As the scheduler and the kubelet would."""
    pods = f"/api/v1/namespaces/{NS}/pods/{pod}"
    target = {"apiVersion": "v1", "kind": "Node", "name": "node"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}}
    assert cluster.request("POST", "/api/v1/nodes", node).status == 201
    assert cluster.request("POST", f"{pods}/binding", binding).status == 201
    ready = [{"type": "Ready", "status": "True"}]
    address = {"podIP": "10.9.8.7", "podIPs": [{"ip": "10.9.8.7"}]}
    body = {"status": {"phase": "Running", "conditions": ready, **address}}
    kind = "application/merge-patch+json"
    assert cluster.request("PATCH", f"{pods}/status", body, content_type=kind).status == 200


def endpoints(cluster: ControlPlane) -> list[tuple[str, int, str, bool]]:
    """Name, port, address and readiness of all that gateways would find."""
    return [
        (port["name"], port["port"], address, endpoint["conditions"]["ready"])
        for each in cluster.request("GET", SLICES).body["items"]
        for port in each.get("ports") or ()
        for endpoint in each.get("endpoints") or ()
        for address in endpoint["addresses"]
    ]


async def test_a_gateway_finds_the_ready_pods_of_a_deployment_until_it_ends(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    async with cell_of_pods(cluster, tmp_path) as client:
        await client.create(core.NAMESPACES, {"metadata": {"name": NS}})
        account = f"/api/v1/namespaces/{NS}/serviceaccounts/default"

        async def no_account() -> str:
            return "" if cluster.request("GET", account).status == 200 else "no service account"

        await eventually("a service account", no_account, within=WITHIN)
        await client.create(compute.WORKLOAD_DEPLOYMENTS, deployment(NAME, NS, "DFW"), NS)
        await client.create(compute.INSTANCES, instance(), NS)

        async def no_pod() -> str:
            return "" if (await client.list(core.PODS, NS)).items else "no Pod"

        await eventually("a Pod", no_pod, within=WITHIN)
        [pod] = (await client.list(core.PODS, NS)).items
        start_pod(cluster, pod.name)
        for port in (8080, 9090):
            note = {"metadata": {"annotations": {compute.ANNOTATION_HTTP_PORT: str(port)}}}
            await client.patch(compute.WORKLOAD_DEPLOYMENTS, NAME, merge(note), NS)

            async def not_found(port: int = port) -> str:
                found = endpoints(cluster)
                return "" if found == [("http", port, "10.9.8.7", True)] else str(found)

            await eventually(f"endpoints at {port}", not_found, within=WITHIN)
        [service] = (await client.list(core.SERVICES, NS)).items
        assert values(service.spec)["clusterIP"] == "None"

        # Settled: it is not written again.
        version = service.metadata.resource_version
        touched = merge({"metadata": {"labels": {"touched": "yes"}}})
        await client.patch(compute.WORKLOAD_DEPLOYMENTS, NAME, touched, NS)
        await client.delete(compute.WORKLOAD_DEPLOYMENTS, NAME, NS)

        async def is_left() -> str:
            left = (await client.list(core.SERVICES, NS)).items
            assert all(each.metadata.resource_version == version for each in left)
            return f"{len(left)} Services are left" if left else ""

        await eventually("the Service is gone", is_left, within=WITHIN)
