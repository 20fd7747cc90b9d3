"""The program in each of its modes, over HTTPS: what is off is left alone, and the rest works.

A single cluster runs both groups of controllers on one plane; in a federation management and
cells are apart. In either, quota and networking are each on or off. The test plays what
surrounds compute, with a provider that needs no network where there is none.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from datum_compute.api import conditions, core, planes
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.apiserver.http.listener import serve
from datum_compute.assembly.local.platform import LocalPlatform, ManagerFactory
from datum_compute.assembly.local.state import LocalSettings
from datum_compute.client import kubeconfig
from datum_compute.client.protocol import Client, merge
from datum_compute.env import SystemEnvironment
from datum_compute.testing.expectations import eventually
from tests.support.processes.managers import manager
from tests.support.simulation.platform import workload

pytestmark = [pytest.mark.long, pytest.mark.realtime]

TOKEN = "of-the-administrator"
SETTINGS = LocalSettings(cities=("DFW",))
WITHIN = 60.0
REPLICAS = 2


@dataclass(frozen=True)
class Mode:
    quota: bool
    networking: bool

    def __str__(self) -> str:
        return f"quota-{self.quota}-networking-{self.networking}"


MODES = [Mode(quota, networks) for quota in (True, False) for networks in (True, False)]


class ModePlatform(LocalPlatform):
    """A platform whose controllers run elsewhere, and whose provider is of the mode."""

    def controllers(self) -> list[tuple[str, ManagerFactory]]:
        return []


class Place:
    def __init__(self, platform: LocalPlatform, directory: Path, port: int, mode: Mode) -> None:
        self.platform = platform
        self.mode = mode
        self._directory = directory
        self._origin = f"https://127.0.0.1:{port}"

    def client(self, plane: str) -> Client:
        return self.platform.client(plane, "local-admin")

    @property
    def cell(self) -> Client:
        return self.client("cell/dfw")

    @property
    def project(self) -> Client:
        return self.client("project/demo")

    def kubeconfig(self, plane: str) -> str:
        path = self._directory / f"{plane.replace('/', '-')}.kubeconfig"
        text = kubeconfig.render(
            server=self._origin + planes.plane_prefix(plane),
            ca_pem=(self._directory / "ca.crt").read_bytes(),
            token=TOKEN,
            name="test",
            user="local-admin",
        )
        path.write_text(text)
        return str(path)

    def config(self, name: str, **discovery: str) -> str:
        path = self._directory / f"{name}.yaml"
        lines = "".join(f"  {key}: {value}\n" for key, value in discovery.items())
        head = "apiVersion: apiserver.config.datumapis.com/v1alpha1\nkind: WorkloadOperator\n"
        path.write_text(f"{head}discovery:\n{lines}")
        return f"--server-config={path}"

    def cell_arguments(self) -> list[str]:
        """Arguments of a manager that runs cell controllers."""
        quota_path = {"quotaKubeconfigPath": self.kubeconfig("root")} if self.mode.quota else {}
        return [
            "--enable-cell-controllers",
            self.config("cell", clusterName="dfw", **quota_path),
            f"--kubeconfig={self.kubeconfig('cell/dfw')}",
            f"--feature-gates=NetworkingIntegration={str(self.mode.networking).lower()}",
        ]

    @contextlib.asynccontextmanager
    async def program(self, name: str, *argv: str) -> AsyncIterator[None]:
        async with manager(self._directory, name, *argv):
            yield

    async def check_lifecycle(self, client: Client, namespace: str) -> None:
        """A workload is deployed as the mode requires, and deleted without leftovers."""
        await client.create(compute.WORKLOADS, workload("acme/web:1", 1, ("DFW",)), namespace)
        await self._serves(client, namespace, 1)
        body = merge({"spec": workload("acme/web:1", REPLICAS, ("DFW",))["spec"]})
        await client.patch(compute.WORKLOADS, "web", body, namespace)
        await self._serves(client, namespace, REPLICAS)
        await self._check_mode()
        await client.delete(compute.WORKLOADS, "web", namespace)
        await eventually("all is gone", self._left, within=WITHIN)

    async def _serves(self, client: Client, namespace: str, count: int) -> None:
        async def look() -> str:
            obj = await client.get(compute.WORKLOADS, "web", namespace)
            status = obj.view(compute.Workload).status
            available = conditions.is_true(status.conditions, compute.CONDITION_AVAILABLE)
            counted = (status.replicas, status.ready_replicas, status.updated_replicas)
            return "" if available and counted == (count,) * 3 else f"{counted} {status.conditions}"

        await eventually(f"{count} serve", look, within=WITHIN)

    async def _check_mode(self) -> None:
        for obj in (await self.cell.list(compute.INSTANCES)).items:
            instance = obj.view(compute.Instance)
            granted = conditions.find(instance.status.conditions, compute.CONDITION_QUOTA_GRANTED)
            assert granted is not None
            assert granted.reason == ("QuotaAvailable" if self.mode.quota else "QuotaDisabled")
            addresses = [each.assignments.network_ip for each in instance.status.network_interfaces]
            assert bool(addresses and addresses[0]) == self.mode.networking
        claims = (await self.project.list(quota.RESOURCE_CLAIMS)).items
        assert len(claims) == (REPLICAS if self.mode.quota else 0)
        bindings = (await self.cell.list(networking.NETWORK_BINDINGS)).items
        assert len(bindings) == int(self.mode.networking)

    async def _left(self) -> str:
        found: list[Object] = []
        for plane in ("cell/dfw", "hub", "project/demo"):
            for resource in (compute.WORKLOAD_DEPLOYMENTS, compute.INSTANCES):
                found += (await self.client(plane).list(resource)).items
        found += (await self.project.list(quota.RESOURCE_CLAIMS)).items
        found += (await self.cell.list(networking.NETWORK_BINDINGS)).items
        return f"{found} are left" if found else ""


@contextlib.asynccontextmanager
async def mode_platform(directory: Path, mode: Mode) -> AsyncIterator[Place]:
    env = SystemEnvironment()
    platform = ModePlatform(env, directory / "state.db", SETTINGS)
    platform.networking = mode.networking
    async with (
        platform.run(admin_token=TOKEN),
        serve(platform.server, env, directory=directory, ports=[0]) as port,
    ):
        yield Place(platform, directory, port, mode)


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_a_federation_serves_in_each_mode(mode: Mode, tmp_path: Path) -> None:
    async with mode_platform(tmp_path, mode) as place:
        hub = f"--federation-kubeconfig={place.kubeconfig('hub')}"
        core_path = place.kubeconfig("root")
        projects = place.config("management", mode="milo", discoveryKubeconfigPath=core_path)
        async with (
            place.program("management", "--enable-management-controllers", hub, projects),
            place.program("cell", *place.cell_arguments(), hub),
        ):
            await place.check_lifecycle(place.project, "default")


NAMESPACE = "web"


async def given_tenancy(place: Place) -> None:
    """A namespace that is a project's, with a network and the city, all on one plane."""
    labels = {
        compute.LABEL_UPSTREAM_CLUSTER_NAME: "cluster-demo",
        compute.LABEL_UPSTREAM_NAMESPACE: "default",
    }
    metadata: dict[str, Any] = {"name": NAMESPACE, "labels": labels if place.mode.quota else {}}
    await place.cell.create(core.NAMESPACES, {"metadata": metadata})
    network = {"metadata": {"name": "default"}, "spec": {"ipam": {"mode": "Auto"}}}
    await place.cell.create(networking.NETWORKS, network, NAMESPACE)
    spec = {"locationRef": {"name": "dfw"}, "topology": {networking.TOPOLOGY_CITY_CODE: "DFW"}}
    body = {"metadata": {"name": "dfw"}, "spec": spec}
    await place.cell.create(networking.LOCATION_BINDINGS, body)
    open_ = conditions.Condition(
        type="Available",
        status="True",
        reason="Opened",
        message="",
        last_transition_time=place.platform.env.now(),
    )
    status = merge({"status": {"conditions": conditions.to_wire([open_])}})
    await place.cell.patch(networking.LOCATION_BINDINGS, "dfw", status, subresource="status")


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_a_single_cluster_serves_in_each_mode(mode: Mode, tmp_path: Path) -> None:
    async with mode_platform(tmp_path, mode) as place:
        await given_tenancy(place)
        argv = ["--enable-management-controllers", *place.cell_arguments()]
        async with place.program("all", *argv):
            await place.check_lifecycle(place.cell, NAMESPACE)
