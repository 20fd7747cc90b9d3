"""A manager as a process: probes, metrics, a lease, log lines for machines, a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.apiserver.http.listener import serve
from datum_compute.env import SystemEnvironment
from datum_compute.testing.expectations import eventually
from tests.support.controllers.planes import deployment
from tests.support.processes.managers import (
    SETTINGS,
    TOKEN,
    ManagedPlatform,
    ManagerFiles,
    PlatformWithoutControllers,
)

pytestmark = [pytest.mark.long, pytest.mark.realtime]

LEASE = "e98b06c6.datumapis.com-cell"


class Running:
    """A manager process and its log."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self._log = log

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    async def wait_for_log(self, message: str, **fields: object) -> dict[str, Any]:
        found: list[dict[str, Any]] = []

        async def look() -> str:
            found[:] = [
                line
                for line in self.lines()
                if line["msg"] == message and fields.items() <= line.items()
            ]
            return "" if found else f"the log ends with {self._log.read_text()[-2000:]!r}"

        await eventually(f"it logs {message!r} {fields}", look, within=30)
        return found[0]

    async def get(self, server: str, path: str) -> tuple[int, str]:
        port = (await self.wait_for_log("serving", server=server))["port"]
        return await asyncio.to_thread(_get, f"http://127.0.0.1:{port}{path}")


def _get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@contextlib.asynccontextmanager
async def managed_platform(directory: Path) -> AsyncIterator[tuple[ManagedPlatform, ManagerFiles]]:
    env = SystemEnvironment()
    platform = PlatformWithoutControllers(env, directory / "state.db", SETTINGS)
    async with (
        platform.run(admin_token=TOKEN),
        serve(platform.server, env, directory=directory, ports=[0]) as port,
    ):
        yield ManagedPlatform(platform), ManagerFiles(directory, port, platform)


def _config(files: ManagerFiles, name: str) -> Path:
    config = Path(files.config(name, clusterName="dfw"))
    metrics = "metricsServer: {bindAddress: '127.0.0.1:0', secureServing: false}\n"
    config.write_text(config.read_text() + metrics)
    return config


@contextlib.asynccontextmanager
async def cell_manager(directory: Path, files: ManagerFiles, name: str) -> AsyncIterator[Running]:
    config = _config(files, name)
    log = directory / f"{name}.log"
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "datum_compute.assembly.manager.main"),
            *("--enable-cell-controllers", "--leader-elect", "--leader-elect-namespace=default"),
            *("--health-probe-bind-address=127.0.0.1:0", "--log-format=json"),
            f"--server-config={config}",
            f"--kubeconfig={files.kubeconfig('cell/dfw')}",
            stderr=stderr,
        )
    try:
        yield Running(process, log)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_a_manager_serves_probes_leads_and_hands_over_its_lease_when_terminated(
    tmp_path: Path,
) -> None:
    async with (
        managed_platform(tmp_path) as (place, files),
        cell_manager(tmp_path, files, "one") as one,
    ):
        await one.wait_for_log("ready")
        await one.wait_for_log("leading", lease=f"default/{LEASE}")
        enabled = await one.wait_for_log("controllers enabled")
        assert enabled["cell"] is True
        assert enabled["lease"] == LEASE
        assert await one.get("probes", "/healthz") == (200, "ok")
        assert (await one.get("probes", "/readyz?verbose"))[0] == 200
        metrics = (await one.get("metrics", "/metrics"))[1]
        assert f'leader_election_master_status{{name="{LEASE}"}} 1.0\n' in metrics
        assert "\ncompute_quota_enforcement_enabled 0.0\n" in metrics
        assert 'rest_client_requests_total{code="200",host="127.0.0.1:' in metrics

        async with cell_manager(tmp_path, files, "two") as two:
            await two.wait_for_log("ready")  # it is ready although it does not lead
            assert (await two.get("probes", "/readyz"))[0] == 200
            one.process.terminate()
            async with asyncio.timeout(10):
                assert await one.process.wait() == 0
            await two.wait_for_log("leading")
            assert [line["msg"] for line in one.lines()][-1] == "stopped"
            await one.wait_for_log("lease released")
            client = place.client("cell/dfw")
            lease = (await client.get(core.LEASES, LEASE, "default")).view(core.Lease)
            assert lease.spec.lease_transitions == 1
            two.process.terminate()
            assert await two.process.wait() == 0


async def test_a_manager_that_loses_its_lease_exits_and_logs_why(tmp_path: Path) -> None:
    async with (
        managed_platform(tmp_path) as (place, files),
        cell_manager(tmp_path, files, "one") as one,
    ):
        await one.wait_for_log("leading")
        client = place.client("cell/dfw")
        await client.delete(core.LEASES, LEASE, "default")
        body = {
            "metadata": {"name": LEASE},
            "spec": {"holderIdentity": "usurper", "leaseDurationSeconds": 15},
        }
        await client.create(core.LEASES, body, "default")
        async with asyncio.timeout(20):
            assert await one.process.wait() == 1

        record = await one.wait_for_log("leadership lost, exiting")
        assert "held by usurper" in record["reason"]


async def test_cell_controllers_pointed_at_a_project_end_with_an_error_and_write_nothing(
    tmp_path: Path,
) -> None:
    async with managed_platform(tmp_path) as (place, files):
        await place.project.create(compute.WORKLOAD_DEPLOYMENTS, deployment("web"), "default")
        project = files.kubeconfig("project/demo")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "datum_compute.assembly.manager.main"),
            *("--enable-cell-controllers", "--health-probe-bind-address=0"),
            f"--kubeconfig={project}",
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            _, stderr = await asyncio.wait_for(process.communicate(), 20)
        finally:
            if process.returncode is None:
                process.kill()
        found = await place.project.get(compute.WORKLOAD_DEPLOYMENTS, "web", "default")

    assert found.metadata.finalizers == ()
    assert process.returncode == 1
    assert f"Error: --kubeconfig {project}: not a cell" in stderr.decode()
