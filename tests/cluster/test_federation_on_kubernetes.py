"""A federation one of whose cells is a real cluster: etcd, kube-apiserver, garbage collector.

Hub and projects are planes of the embedded server, reached over HTTPS; management and both
cells run as programs. The lifecycle of a workload is the same as on embedded planes, and after
every step all planes must match the last spec.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from datum_compute.api import planes
from datum_compute.assembly.local.platform import in_process_transport
from datum_compute.client import connect, kubeconfig
from datum_compute.client.transport import Handler, HttpRequest, HttpResponse, Transport
from datum_compute.env import SystemEnvironment
from scripts.cluster_tools import DEFAULT_TOOLS, KUBE_CONTROLLER_MANAGER, ensure_tools
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.crds import definition_files, established
from tests.support.federation.lifecycle import Lifecycle
from tests.support.processes.managers import ManagedPlatform, federation

pytestmark = [pytest.mark.cluster, pytest.mark.realtime]

REAL = "cell/dfw"
WITHIN = 90.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    with ControlPlane(ensure_tools([*DEFAULT_TOOLS, KUBE_CONTROLLER_MANAGER])) as running:
        for group in ("compute.datumapis.com", "networking.datumapis.com"):
            for file in definition_files(f"{group}_*.yaml"):
                established(running, yaml.safe_load(file.read_text(encoding="utf-8")))
        running.start_collector()
        yield running


class Diverted:
    """Sends requests for a plane of the embedded server to the real one instead."""

    def __init__(self, inner: Transport, token: str) -> None:
        self._inner = inner
        self._token = token

    async def send(self, request: HttpRequest, *, timeout: float | None = None) -> HttpResponse:
        path = request.path.removeprefix(planes.plane_prefix(REAL))
        headers = {**request.headers, "authorization": f"Bearer {self._token}"}
        diverted = msgspec.structs.replace(request, path=path, headers=headers)
        return await self._inner.send(diverted, timeout=timeout)

    async def close(self) -> None:
        """The inner transport is shared, and closed where it was opened."""


@contextlib.asynccontextmanager
async def partly_real(cluster: ControlPlane, directory: Path) -> AsyncIterator[ManagedPlatform]:
    path = str(cluster.write_kubeconfig(directory / "real.kubeconfig"))
    connection = kubeconfig.load(path, env=SystemEnvironment())
    real = connect.transport_for(connection)

    def carrier(handler: Handler, process: str, plane: str) -> Transport:
        if plane == REAL:
            return Diverted(real, cluster.token)
        return in_process_transport(handler, process, plane)

    try:
        async with federation(directory, carrier=carrier, elsewhere={"dfw": path}) as place:
            yield place
    finally:
        await real.close()


async def test_the_lifecycle_of_a_workload_in_a_federation_with_a_real_cell(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    async with partly_real(cluster, tmp_path) as place:
        lifecycle = Lifecycle(place, within=WITHIN)
        await lifecycle.run()
        assert propagated(cluster), "the cell is the real cluster"
        await lifecycle.delete_the_project()
        assert propagated(cluster), "namespaces stay"


def propagated(cluster: ControlPlane) -> list[str]:
    """The namespaces of the real cluster, read without our client."""
    _, found = cluster.request("GET", "/api/v1/namespaces?labelSelector=karmada.io/managed=true")
    return [each["metadata"]["name"] for each in found["items"]]
