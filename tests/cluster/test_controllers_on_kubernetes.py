"""Our controllers beside a real API server: the program ``compute-manager`` with both groups.

One cluster, nothing federated. The test adds a provider (the simulated one) and, where the
cluster has networks, the network stand-in. No controller of Kubernetes runs, so objects that
its garbage collector would delete stay, and the test asserts that only those do.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.client import connect, kubeconfig
from datum_compute.client.client import ApiClient
from datum_compute.env import SystemEnvironment
from datum_compute.testing.expectations import eventually
from scripts.cluster_tools import ensure_tools
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.crds import definition_files, established
from tests.support.cluster.namespaces import (
    FAIL,
    WITHIN,
    ClusterNamespace,
    given_city,
    standins,
    workload,
)
from tests.support.processes.managers import manager

pytestmark = [pytest.mark.cluster, pytest.mark.realtime]

QUIET_SECONDS = 10.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    with ControlPlane(ensure_tools()) as running:
        for group in ("compute.datumapis.com", "networking.datumapis.com"):
            for file in definition_files(f"{group}_*.yaml"):
                established(running, yaml.safe_load(file.read_text(encoding="utf-8")))
        yield running


@contextlib.asynccontextmanager
async def single_cluster(
    cluster: ControlPlane, directory: Path, namespace: str, *, networks: bool
) -> AsyncIterator[ClusterNamespace]:
    path = str(cluster.write_kubeconfig(directory / "kubeconfig"))
    connection = kubeconfig.load(path, env=SystemEnvironment())
    transport = connect.transport_for(connection)
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


async def test_a_workload_is_deployed_and_deleted_on_a_real_api_server(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    async with single_cluster(cluster, tmp_path, "plain", networks=False) as place:
        await place.deploy(workload("acme/web:1", 3))
        await place.runs("acme/web:1", 3)
        first = await place.instances()
        made = [first[f"web-default-dfw-{n}"].metadata.creation_timestamp for n in range(3)]
        assert made == sorted(made, key=str), "one by one, from the lowest ordinal"
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
            "ReplicasReady has the cause",
            lambda: _replicas_ready_reason_is(place, "ImageUnavailable"),
            within=WITHIN,
        )
        await place.change(workload("acme/web:3", 2))
        await place.runs("acme/web:3", 2)

        await place.client.delete(compute.WORKLOADS, "web", place.namespace)
        await place.gone()


async def _replicas_ready_reason_is(place: ClusterNamespace, reason: str) -> str:
    obj = await place.client.get(compute.WORKLOAD_DEPLOYMENTS, "web-default-dfw", place.namespace)
    stated = obj.view(compute.WorkloadDeployment).status.conditions
    found = conditions.find(stated, compute.CONDITION_REPLICAS_READY)
    return "" if found is not None and found.reason == reason else f"it is {found}"


async def test_a_workload_waits_for_its_networks_on_a_real_api_server(
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


async def test_a_settled_workload_is_not_written_again_on_a_real_api_server(
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
