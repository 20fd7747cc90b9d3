"""A manager on another plane than it needs writes nothing there, and says what it found."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from datum_compute.api import karmada, planes
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.assembly.manager.config import Discovery
from datum_compute.assembly.manager.groups import build_manager
from datum_compute.assembly.manager.plane_clients import PlaneClients
from datum_compute.assembly.manager.settings import ManagerSettings, SettingsError
from datum_compute.client import errors, kubeconfig
from datum_compute.client.in_process import InProcessTransport
from datum_compute.client.protocol import merge
from datum_compute.client.transport import HttpRequest, HttpResponse
from datum_compute.runtime.metrics.registry import MetricsRegistry
from datum_compute.runtime.tasks import TaskGroup
from datum_compute.testing.server import EmbeddedServer, embedded_server
from tests.support.controllers.planes import deployment

NAMESPACE = "default"
ONE_PLANE = Discovery(cluster_name="dfw")


class Switch:
    """A transport to the server that is off at first where a test wants that."""

    def __init__(self, embedded: EmbeddedServer) -> None:
        self._inner = InProcessTransport(embedded.server.handle)
        self.is_on = True

    async def send(self, request: HttpRequest, *, timeout: float | None = None) -> HttpResponse:
        if not self.is_on:
            raise errors.ConnectFailed("refused")
        return await self._inner.send(request, timeout=timeout)

    async def close(self) -> None:
        """It serves several managers."""


@dataclass
class Place:
    embedded: EmbeddedServer
    directory: Path
    switch: Switch

    def kubeconfig(self, plane: str) -> str:
        path = self.directory / plane.replace("/", "-")
        path.write_text(
            kubeconfig.render(
                server=f"https://embedded.test{planes.plane_prefix(plane)}",
                ca_pem=b"",
                token=self.embedded.token(),
                name="test",
                user="admin",
            )
        )
        return str(path)

    def clients(self, settings: ManagerSettings) -> PlaneClients:
        return PlaneClients(
            self.embedded.env, settings, MetricsRegistry(), transport_for=lambda _: self.switch
        )

    async def run_for(self, settings: ManagerSettings, seconds: float = 20.0) -> str:
        """Run a manager; the error that ended it, empty when it ran on."""
        clients = self.clients(settings)
        manager = build_manager(self.embedded.env, settings, clients, MetricsRegistry())
        try:
            async with asyncio.timeout(seconds), TaskGroup("test") as tasks:
                tasks.start(clients.verify(), name="verify")
                tasks.start(manager.run(), name="manager")
        except SettingsError as error:
            return str(error)
        except TimeoutError:
            return ""
        finally:
            await clients.close()
        return ""

    async def deployment(self, plane: str) -> Object:
        found = self.embedded.client(plane)
        return await found.get(compute.WORKLOAD_DEPLOYMENTS, "web", NAMESPACE)

    async def version(self, plane: str) -> str:
        """Changes with every write to the deployment."""
        return (await self.deployment(plane)).metadata.resource_version

    async def given_deployment(self, plane: str, **metadata: Any) -> str:
        body = deployment("web")
        body["metadata"] |= metadata
        client = self.embedded.client(plane)
        created = await client.create(compute.WORKLOAD_DEPLOYMENTS, body, NAMESPACE)
        return created.metadata.resource_version


@asynccontextmanager
async def place(directory: Path) -> AsyncIterator[Place]:
    async with embedded_server() as embedded:
        yield Place(embedded, directory, Switch(embedded))


def cell(own: str, hub: str = "") -> ManagerSettings:
    return ManagerSettings(
        management=False, cell=True, kubeconfig=own, federation_kubeconfig=hub, discovery=ONE_PLANE
    )


def management(own: str, hub: str) -> ManagerSettings:
    return ManagerSettings(management=True, cell=False, kubeconfig=own, federation_kubeconfig=hub)


@pytest.mark.parametrize(
    ("plane", "found"),
    [
        ("project/demo", "it serves quota.miloapis.com, as root and project planes of Milo do"),
        ("hub", "it serves policy.karmada.io, as a Karmada hub does"),
    ],
)
@pytest.mark.parametrize("both_groups", [False, True])
async def test_cell_controllers_write_nothing_to_a_plane_that_is_no_cell(
    plane: str, found: str, both_groups: bool, tmp_path: Path
) -> None:
    async with place(tmp_path) as there:
        before = await there.given_deployment(plane)
        own = there.kubeconfig(plane)
        settings = ManagerSettings(management=both_groups, cell=True, kubeconfig=own)

        error = await there.run_for(settings)

        role = "a single cluster" if both_groups else "a cell"
        assert error == f"--kubeconfig {own}: not {role}: {found}"
        assert await there.version(plane) == before


async def test_cell_controllers_know_a_project_without_quota_by_its_federated_deployments(
    tmp_path: Path,
) -> None:
    async with place(tmp_path) as there:
        # The plane of a cell stands for a cluster that is a project and serves no kinds of Milo.
        before = await there.given_deployment("cell/dfw", finalizers=[compute.FINALIZER_FEDERATOR])

        error = await there.run_for(cell(there.kubeconfig("cell/dfw")))

        assert error.endswith(
            "not a cell: its WorkloadDeployment default/web has the finalizer"
            " compute.datumapis.com/federator, as in a project plane"
        )
        assert await there.version("cell/dfw") == before


@pytest.mark.parametrize(
    ("plane", "found"),
    [
        (
            "cell/dfw",
            "its WorkloadDeployment default/web has the label karmada.io/managed, as in a cell",
        ),
        ("hub", "it serves policy.karmada.io, as a Karmada hub does"),
    ],
)
async def test_management_controllers_write_nothing_to_a_plane_that_is_no_project(
    plane: str, found: str, tmp_path: Path
) -> None:
    async with place(tmp_path) as there:
        before = await there.given_deployment(plane, labels={karmada.LABEL_MANAGED: "true"})
        own = there.kubeconfig(plane)

        error = await there.run_for(management(own, there.kubeconfig("hub")))

        assert error == f"--kubeconfig {own}: not a project plane: {found}"
        assert await there.version(plane) == before


async def test_a_hub_that_is_another_plane_ends_the_manager_and_the_flag_is_named(
    tmp_path: Path,
) -> None:
    async with place(tmp_path) as there:
        hub = there.kubeconfig("project/demo")

        errors_found = [
            await there.run_for(management(there.kubeconfig("cell/lhr"), hub)),
            await there.run_for(cell(there.kubeconfig("cell/dfw"), hub)),
        ]

        expected = (
            f"--federation-kubeconfig {hub}: not a Karmada hub: it serves quota.miloapis.com,"
            " as root and project planes of Milo do"
        )
        assert errors_found == [expected, expected]


async def test_a_hub_without_karmada_gets_no_write_and_the_manager_waits(tmp_path: Path) -> None:
    async with place(tmp_path) as there:
        hub = there.kubeconfig("cell/lhr")
        clients = there.clients(cell(there.kubeconfig("cell/dfw"), hub))
        hub_client = clients.hub()

        with pytest.raises(errors.Forbidden) as caught:
            await hub_client.create(compute.WORKLOAD_DEPLOYMENTS, deployment("web"), NAMESPACE)
        assert await there.run_for(cell(there.kubeconfig("cell/dfw"), hub)) == ""

        reason = f"--federation-kubeconfig {hub}: it does not serve policy.karmada.io"
        assert reason in str(caught.value)
        assert clients.refused() == [reason]
        listed = await there.embedded.client("cell/lhr").list(compute.WORKLOAD_DEPLOYMENTS)
        assert listed.items == []


async def test_the_right_plane_is_written_to(tmp_path: Path) -> None:
    async with place(tmp_path) as there:
        await there.given_deployment("cell/dfw")

        assert await there.run_for(cell(there.kubeconfig("cell/dfw"))) == ""

        found = await there.deployment("cell/dfw")
        assert found.metadata.finalizers == (compute.FINALIZER_WORKLOAD_DEPLOYMENT,)


async def test_a_plane_that_answers_late_is_checked_before_the_first_write(tmp_path: Path) -> None:
    async with place(tmp_path) as there:
        before = await there.given_deployment("project/demo")
        there.switch.is_on = False
        asyncio.get_running_loop().call_later(100, setattr, there.switch, "is_on", True)

        error = await there.run_for(cell(there.kubeconfig("project/demo")), seconds=300)

        assert "not a cell" in error
        assert await there.version("project/demo") == before


async def test_each_project_is_checked_when_it_is_engaged(tmp_path: Path) -> None:
    async with place(tmp_path) as there:
        await there.embedded.create_project("other")
        root = there.kubeconfig("root")
        settings = ManagerSettings(
            management=True,
            cell=False,
            federation_kubeconfig=there.kubeconfig("hub"),
            discovery=Discovery(mode="milo", discovery_kubeconfig_path=root),
        )
        await there.given_deployment("project/demo", labels={karmada.LABEL_MANAGED: "true"})
        await there.given_deployment("project/other")
        clients = there.clients(settings)
        change = merge({"metadata": {"labels": {"changed": "yes"}}})

        bad, good = clients.project("demo", root), clients.project("other", root)
        await good.patch(compute.WORKLOAD_DEPLOYMENTS, "web", change, NAMESPACE)
        with pytest.raises(errors.Forbidden, match=r"project demo of .*: not a project plane"):
            await bad.patch(compute.WORKLOAD_DEPLOYMENTS, "web", change, NAMESPACE)

        assert "changed" not in (await there.deployment("project/demo")).metadata.labels
