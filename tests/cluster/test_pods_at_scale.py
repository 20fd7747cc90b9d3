"""A thousand Instances as Pods over two cells, on nodes that kwok plays.

Real schedulers place the Pods; no container runs. The test reports what the two managers take.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from datum_compute.api import conditions, core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.client import connect, kubeconfig
from datum_compute.client.client import ApiClient
from datum_compute.env import SystemEnvironment
from datum_compute.testing.expectations import eventually
from scripts.cluster_tools import DEFAULT_TOOLS, KUBE_SCHEDULER, KWOK, ensure_tools
from tests.support.cluster.control_plane import ControlPlane, Process
from tests.support.cluster.roles import define_kinds
from tests.support.processes.managers import manager

pytestmark = [pytest.mark.cluster, pytest.mark.campaign, pytest.mark.realtime]

INSTANCES = 500
"""In each of the two cells."""
WITHIN = 600.0
IDLE_SECONDS = 30.0
MEMORY_MIB = 120
"""The most that a manager may take. About twice what was measured."""


class Usage(NamedTuple):
    cpu_seconds: float
    resident_mib: float
    peak_mib: float


class ScaleCell(NamedTuple):
    name: str
    client: ApiClient
    kubeconfig: str

    def usage(self) -> Usage:
        """Of the manager, found by the kubeconfig that only it has been given."""
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().decode().split("\0")
                if f"--kubeconfig={self.kubeconfig}" not in words:
                    continue
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                ticks = int(fields[11]) + int(fields[12])
                status = (folder / "status").read_text().split()
                resident, peak = (
                    int(status[status.index(key) + 1]) / 1024 for key in ("VmRSS:", "VmHWM:")
                )
                return Usage(ticks / os.sysconf("SC_CLK_TCK"), resident, peak)
        raise LookupError(f"no manager of {self.name} runs")


@pytest.fixture
def planes() -> Iterator[list[ControlPlane]]:
    tools = ensure_tools([*DEFAULT_TOOLS, KUBE_SCHEDULER, KWOK])
    # No controller of Kubernetes takes the taint of a new node away.
    arguments = ["--disable-admission-plugins=TaintNodesByCondition"]
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(2):
            plane = stack.enter_context(ControlPlane(tools, apiserver_arguments=arguments))
            define_kinds(plane)
            own = f"--kubeconfig={plane.write_kubeconfig(plane.directory / 'kubeconfig')}"
            quietly = ("--leader-elect=false", "--secure-port=0")
            speed = ("--kube-api-qps=500", "--kube-api-burst=500")
            for name, *more in (
                ("kube-scheduler", own, *quietly, *speed),
                (KWOK.name, own, "--manage-all-nodes=true"),
            ):
                command = [str(tools / name), *more]
                process = Process(name, command, plane.directory / f"{name}.log")
                stack.callback(process.stop)
            size = {"cpu": "1000", "memory": "4Ti", "pods": "1000"}
            node = {"metadata": {"name": "kwok"}, "status": {"allocatable": size, "capacity": size}}
            status, answer = plane.request("POST", "/api/v1/nodes", node)
            assert status == 201, answer
            found.append(plane)
        yield found


@contextlib.asynccontextmanager
async def scale_cell(plane: ControlPlane, directory: Path, name: str) -> AsyncIterator[ScaleCell]:
    path = str(plane.write_kubeconfig(directory / f"{name}.kubeconfig"))
    connection = kubeconfig.load(path, env=SystemEnvironment())
    transport = connect.transport_for(connection)
    client = ApiClient(transport, cluster=name, token=connection.token, user_agent="test")
    argv = ("--enable-cell-controllers", "--provider=pod", f"--kubeconfig={path}")
    try:
        async with manager(directory, name, *argv):
            yield ScaleCell(name, client, path)
    finally:
        await client.close()


async def test_a_thousand_instances_run_as_pods_over_two_cells(
    planes: list[ControlPlane], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        scale_cell(planes[0], tmp_path, "one") as one,
        scale_cell(planes[1], tmp_path, "two") as two,
    ):
        cells = (one, two)
        started = time.monotonic()
        await asyncio.gather(*(fill(cell) for cell in cells))
        await asyncio.gather(*(all_available(cell) for cell in cells))
        took = time.monotonic() - started
        full = [cell.usage() for cell in cells]
        await asyncio.sleep(IDLE_SECONDS)
        idle = [cell.usage() for cell in cells]
        started = time.monotonic()
        await asyncio.gather(*(clear(cell) for cell in cells))
        removed = time.monotonic() - started

    with capsys.disabled():
        print(f"\n{2 * INSTANCES} Instances available in {took:.1f} s, removed in {removed:.1f} s")
        for before, after in zip(full, idle, strict=True):
            share = 100 * (after.cpu_seconds - before.cpu_seconds) / IDLE_SECONDS
            print(
                f"manager: {before.cpu_seconds:.1f} s of CPU until then, {share:.1f} % of a core"
                f" when idle, {after.resident_mib:.0f} MiB, at most {after.peak_mib:.0f} MiB"
            )
    assert max(each.peak_mib for each in idle) < MEMORY_MIB


async def fill(cell: ScaleCell) -> None:
    turns = asyncio.Semaphore(16)

    async def create(number: int) -> None:
        async with turns:
            await cell.client.create(compute.INSTANCES, instance(number), "default")

    await asyncio.gather(*(create(number) for number in range(INSTANCES)))


def instance(number: int) -> dict[str, Any]:
    container = {"name": "app", "image": "acme/web:1", "ports": [{"name": "http", "port": 80}]}
    return {
        "metadata": {"name": f"web-{number}"},
        "spec": {
            "runtime": {
                "resources": {"instanceType": compute.INSTANCE_TYPE_D1_STANDARD_2},
                "sandbox": {"containers": [container]},
            },
            "networkInterfaces": [{"network": {"name": "default"}}],
            "controller": {"templateHash": "h", "schedulingGates": []},
        },
    }


async def all_available(cell: ScaleCell) -> None:
    async def look() -> str:
        found = (await cell.client.list(compute.INSTANCES, "default")).items
        states = [each.view(compute.Instance).status for each in found]
        ready = [
            each
            for each in states
            if conditions.is_true(each.conditions, compute.CONDITION_AVAILABLE)
            and each.network_interfaces[0].assignments.network_ip
        ]
        return "" if len(ready) == INSTANCES else f"{cell.name}: {len(ready)} are available"

    await eventually("all are available", look, within=WITHIN, every=2.0)


async def clear(cell: ScaleCell) -> None:
    turns = asyncio.Semaphore(16)

    async def delete(number: int) -> None:
        async with turns:
            await cell.client.delete(compute.INSTANCES, f"web-{number}", "default")

    await asyncio.gather(*(delete(number) for number in range(INSTANCES)))

    async def look() -> str:
        for resource in (compute.INSTANCES, core.PODS):
            left = (await cell.client.list(resource, "default")).items
            if left:
                return f"{cell.name}: {len(left)} {resource} are left"
        return ""

    await eventually("nothing is left", look, within=WITHIN, every=2.0)
