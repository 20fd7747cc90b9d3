"""Our controllers beside a real API server: the program ``compute-manager`` with both groups.

One cluster, nothing federated. The test brings what surrounds compute there: a provider (the
simulated one) and, where the cluster has networks, whoever serves those. No controller of
Kubernetes runs, so what is meant for its garbage collector stays and is asserted to be that.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from datum_compute.api import conditions, core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.client import kubeconfig
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import Client, merge
from datum_compute.env import SystemEnvironment
from datum_compute.fleets.single import SingleFleet
from datum_compute.providers.simulated import SimulatedProvider
from datum_compute.runtime.controller import Controller
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.tasks import TaskGroup
from datum_compute.standins.network_services import network_controllers
from datum_compute.testing.expectations import eventually
from scripts.cluster_tools import ensure_tools
from tests.cluster.test_generated_crds import CRDS, established
from tests.processes.test_federated_managers import manager
from tests.support.cluster.control_plane import ControlPlane

pytestmark = [pytest.mark.cluster, pytest.mark.realtime]

WITHIN = 60.0
QUIET_SECONDS = 10.0
FAIL = "simulated.compute.datumapis.com/fail"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    with ControlPlane(ensure_tools()) as running:
        for group in ("compute.datumapis.com", "networking.datumapis.com"):
            for file in sorted(CRDS.glob(f"{group}_*.yaml")):
                established(running, yaml.safe_load(file.read_text(encoding="utf-8")))
        yield running


class ClusterNamespace:
    """A namespace of the real cluster with all that a workload needs there."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def prepare(self) -> None:
        await self.client.create(core.NAMESPACES, {"metadata": {"name": self.namespace}})
        network = {"metadata": {"name": "default"}, "spec": {"ipam": {"mode": "Auto"}}}
        await self.client.create(networking.NETWORKS, network, self.namespace)

    async def deploy(self, body: dict[str, Any]) -> None:
        await self.client.create(compute.WORKLOADS, body, self.namespace)

    async def change(self, body: dict[str, Any]) -> None:
        annotations = body["spec"]["template"]["metadata"]["annotations"]
        annotations.setdefault(FAIL, None)
        patch = merge({"spec": body["spec"]})
        await self.client.patch(compute.WORKLOADS, "web", patch, self.namespace)

    async def instances(self) -> dict[str, compute.Instance]:
        found = await self.client.list(compute.INSTANCES, self.namespace)
        return {obj.name: obj.view(compute.Instance) for obj in found.items}

    async def uids(self) -> dict[str, str]:
        return {name: each.metadata.uid for name, each in (await self.instances()).items()}

    async def runs(self, image: str, count: int) -> None:
        async def look() -> str:
            return await self._unlike(image, count)

        await eventually(f"{count} of {image} run", look, within=WITHIN)

    async def _unlike(self, image: str, count: int) -> str:
        obj = await self.client.get(compute.WORKLOADS, "web", self.namespace)
        status = obj.view(compute.Workload).status
        counters = (
            status.observed_generation,
            status.replicas,
            status.current_replicas,
            status.updated_replicas,
            status.ready_replicas,
            status.desired_replicas,
        )
        if counters != (obj.metadata.generation, *(count,) * 5):
            return f"the workload counts {counters}"
        if not conditions.is_true(status.conditions, compute.CONDITION_AVAILABLE):
            return f"the workload is not Available: {status.conditions}"
        found = await self.instances()
        if sorted(found) != [f"web-default-dfw-{ordinal}" for ordinal in range(count)]:
            return f"instances {sorted(found)}"
        for name, instance in found.items():
            sandbox = instance.spec.runtime.sandbox
            if sandbox is None or sandbox.containers[0].image != image or not instance.ready:
                return f"{name}: {instance.status.conditions}"
        return ""

    async def gone(self) -> None:
        async def look() -> str:
            for resource in (compute.WORKLOADS, compute.WORKLOAD_DEPLOYMENTS, compute.INSTANCES):
                for obj in (await self.client.list(resource, self.namespace)).items:
                    return f"{obj!r} is left"
            return ""

        await eventually("nothing is left", look, within=WITHIN)

    async def revisions(self) -> dict[str, str]:
        return {
            f"{resource}/{obj.name}": obj.metadata.resource_version
            for resource in (compute.WORKLOADS, compute.WORKLOAD_DEPLOYMENTS, compute.INSTANCES)
            for obj in (await self.client.list(resource, self.namespace)).items
        }


def workload(image: str, minimum: int, **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "web"},
        "spec": {
            "template": {
                "metadata": {"annotations": annotations},
                "spec": {
                    "runtime": {
                        "resources": {"instanceType": "datumcloud/d1-standard-2"},
                        "sandbox": {"containers": [{"name": "app", "image": image}]},
                    },
                    "networkInterfaces": [{"network": {"name": "default"}}],
                },
            },
            "placements": [
                {
                    "name": "default",
                    "cityCodes": ["DFW"],
                    "scaleSettings": {"minReplicas": minimum},
                }
            ],
        },
    }


async def given_city(client: Client) -> None:
    """One location, bound; each test may be the first to want it."""
    topology = {networking.TOPOLOGY_CITY_CODE: "DFW"}
    if any(obj.name == "dfw" for obj in (await client.list(networking.LOCATIONS)).items):
        return
    location = {"locationClassName": "datum-managed", "topology": topology}
    body = {"metadata": {"name": "dfw"}, "spec": location}
    await client.create(networking.LOCATIONS, body)
    body = {
        "metadata": {"name": "dfw"},
        "spec": {"locationRef": {"name": "dfw"}, "topology": topology},
    }
    await client.create(networking.LOCATION_BINDINGS, body)
    available = {
        "type": "Available",
        "status": "True",
        "reason": "Opened",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = merge({"status": {"conditions": [available]}})
    await client.patch(networking.LOCATION_BINDINGS, "dfw", status, subresource="status")


@contextlib.asynccontextmanager
async def standins(client: Client, *, networks: bool) -> AsyncIterator[None]:
    """Whoever runs Instances and serves networks in this cluster."""
    env = SystemEnvironment()
    fleet = SingleFleet("cell", "single", client, env)
    around = Manager("surroundings", env)
    controllers: list[Controller] = SimulatedProvider(
        fleet, env, networking_enabled=networks
    ).controllers()
    if networks:
        controllers += network_controllers(fleet, env)
    around.add(*controllers)
    async with TaskGroup("surroundings") as tasks:
        running = tasks.start(around.run(), name="surroundings")
        await around.wait_ready()
        yield
        await tasks.stop(running)


@contextlib.asynccontextmanager
async def single_cluster(
    cluster: ControlPlane, directory: Path, namespace: str, *, networks: bool
) -> AsyncIterator[ClusterNamespace]:
    path = str(cluster.write_kubeconfig(directory / "kubeconfig"))
    connection = kubeconfig.load(path, env=SystemEnvironment())
    transport = kubeconfig.transport_for(connection)
    client = ApiClient(transport, cluster="single", token=connection.token, user_agent="test")
    gate = f"--feature-gates=NetworkingIntegration={str(networks).lower()}"
    groups = ("--enable-management-controllers", "--enable-cell-controllers")
    try:
        place = ClusterNamespace(client, namespace)
        await given_city(client)
        await place.prepare()
        async with (
            standins(client, networks=networks),
            manager(directory, "manager", *groups, f"--kubeconfig={path}", gate),
        ):
            yield place
    finally:
        await client.close()


async def test_a_workload_lives_and_dies_beside_a_real_api_server(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    async with single_cluster(cluster, tmp_path, "plain", networks=False) as place:
        await place.deploy(workload("acme/web:1", 3))
        await place.runs("acme/web:1", 3)
        first = await place.instances()
        made = [first[f"web-default-dfw-{n}"].metadata.creation_timestamp for n in range(3)]
        assert made == sorted(made, key=str), "one after the other, from the lowest"
        before = await place.uids()

        await place.change(workload("acme/web:1", 5))
        await place.runs("acme/web:1", 5)
        assert before.items() <= (await place.uids()).items(), "those that ran, run"
        await place.change(workload("acme/web:1", 2))
        await place.runs("acme/web:1", 2)
        before = await place.uids()

        await place.change(workload("acme/web:2", 2))
        await place.runs("acme/web:2", 2)
        assert set(before.values()).isdisjoint((await place.uids()).values())

        await place.change(workload("acme/web:bad", 2, **{FAIL: "ImageUnavailable"}))
        await eventually(
            "the cause is told", lambda: _says(place, "ImageUnavailable"), within=WITHIN
        )
        await place.change(workload("acme/web:3", 2))
        await place.runs("acme/web:3", 2)

        await place.client.delete(compute.WORKLOADS, "web", place.namespace)
        await place.gone()


async def _says(place: ClusterNamespace, reason: str) -> str:
    obj = await place.client.get(compute.WORKLOAD_DEPLOYMENTS, "web-default-dfw", place.namespace)
    stated = obj.view(compute.WorkloadDeployment).status.conditions
    found = conditions.find(stated, compute.CONDITION_REPLICAS_READY)
    return "" if found is not None and found.reason == reason else f"it says {found}"


async def test_networks_are_waited_for_beside_a_real_api_server(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    async with single_cluster(cluster, tmp_path, "networked", networks=True) as place:
        await place.deploy(workload("acme/web:1", 2))
        await place.runs("acme/web:1", 2)
        for instance in (await place.instances()).values():
            (interface,) = instance.status.network_interfaces
            assert interface.assignments.network_ip is not None
            assert instance.spec.location is not None
            assert instance.spec.location.name == "dfw"
        (claim,) = (await place.client.list(networking.SUBNET_CLAIMS, place.namespace)).items
        stated = claim.view(networking.SubnetClaim).status.conditions
        assert conditions.is_true(stated, networking.CONDITION_READY)

        deployments = (await place.client.list(compute.WORKLOAD_DEPLOYMENTS)).items
        uids = {obj.metadata.uid for obj in deployments}
        await place.client.delete(compute.WORKLOADS, "web", place.namespace)
        await place.gone()
        left = (await place.client.list(networking.NETWORK_BINDINGS, place.namespace)).items
        owners = {owner.uid for obj in left for owner in obj.metadata.owner_references}
        assert owners <= uids, "the garbage collector's"


async def test_nothing_is_written_once_all_is_done_beside_a_real_api_server(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    async with single_cluster(cluster, tmp_path, "quiet", networks=True) as place:
        await place.deploy(workload("acme/web:1", 2))
        await place.runs("acme/web:1", 2)
        await asyncio.sleep(1.0)
        before = await place.revisions()

        await asyncio.sleep(QUIET_SECONDS)

        assert await place.revisions() == before
        await place.client.delete(compute.WORKLOADS, "web", place.namespace)
        await place.gone()
