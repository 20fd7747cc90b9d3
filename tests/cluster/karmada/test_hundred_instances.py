"""100 Instances over two cells on real Karmada: time, writes to the hub and CPU, printed.

Root, projects, the stand-ins of Milo and of networks, and the provider run in the process of the
tests, and are not counted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from datum_compute.api.compute import v1alpha as compute
from tests.support.cluster.karmada_stage import NAMESPACE, KarmadaStage
from tests.support.federation.lifecycle import FIRST, Lifecycle
from tests.support.simulation.random_operations import DesiredWorkload

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.karmada,
    pytest.mark.campaign,
    pytest.mark.timeout(1800),
]

WITHIN = 600.0
HUNDRED = replace(FIRST, minimum=50)
LIMIT = 1.2
"""The CPU of all our managers may be this many times that of Karmada's programs."""
TICKS = os.sysconf("SC_CLK_TCK")
WRITES = {"create", "update", "patch", "delete"}


@dataclass(frozen=True)
class Usage:
    ours: float
    karmada: float
    api_servers: float
    etcd: float
    hub_revision: int
    our_hub_writes: int


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def usage(on: KarmadaStage) -> Usage:
    clusters = on.clusters
    ours = [pod.pid for pods in on.managers.values() for pod in pods]
    planes = [plane.processes for plane in clusters.planes.values()]
    revision = clusters.hub.request("GET", "/api/v1/namespaces?limit=1")
    return Usage(
        ours=sum(map(cpu_seconds, ours)),
        karmada=sum(map(cpu_seconds, clusters.programs.values())),
        api_servers=sum(cpu_seconds(plane["kube-apiserver"]) for plane in planes),
        etcd=sum(cpu_seconds(plane["etcd"]) for plane in planes),
        hub_revision=int(revision.body["metadata"]["resourceVersion"]),
        our_hub_writes=sum(
            call.right.plane == "hub" and call.right.verb in WRITES and call.code < 300
            for call in clusters.calls()
        ),
    )


async def test_a_hundred_instances_over_two_cells(
    on: KarmadaStage, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = Lifecycle(on, within=WITHIN)
    lines = []
    total = Usage(0, 0, 0, 0, 0, 0)

    async def measured(
        what: str, desired: DesiredWorkload | None, act: Callable[[], Awaitable[None]]
    ) -> None:
        nonlocal total
        before, started = usage(on), time.monotonic()
        await act()
        if desired is not None:
            await steps.settled(desired)
        else:
            await on.empty()
        seconds, after = time.monotonic() - started, usage(on)
        spent = Usage(*(getattr(after, k) - getattr(before, k) for k in Usage.__annotations__))
        total = Usage(*(getattr(total, k) + getattr(spent, k) for k in Usage.__annotations__))
        lines.append(
            f"{what}: {seconds:.1f} s; hub writes per Instance {spent.hub_revision / 100:.1f},"
            f" ours {spent.our_hub_writes / 100:.1f}; CPU seconds: ours {spent.ours:.2f},"
            f" Karmada {spent.karmada:.2f}, API servers {spent.api_servers:.1f},"
            f" etcd {spent.etcd:.1f}"
        )

    async def deploy() -> None:
        await on.project.create(compute.WORKLOADS, HUNDRED.to_create(), NAMESPACE)

    rolled = replace(HUNDRED, image="acme/web:2")

    async def roll() -> None:
        await steps.change(rolled)

    async def destroy() -> None:
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)

    replicas = [pod.pid for pods in on.managers.values() for pod in pods]
    before = {pid: cpu_seconds(pid) for pid in replicas}
    await measured("100 Instances from nothing", HUNDRED, deploy)
    created = total
    for name, pods in on.managers.items():
        spent = ", ".join(f"{cpu_seconds(pod.pid) - before[pod.pid]:.2f}" for pod in pods)
        sizes = ", ".join(f"{resident_mib(pod.pid):.0f}" for pod in pods)
        lines.append(f"replicas of {name}: CPU seconds {spent}; resident memory {sizes} MiB")
    await measured("image of 100 Instances", rolled, roll)
    await measured("100 Instances deleted", None, destroy)
    ratio, whole = created.ours / created.karmada, total.ours / total.karmada
    lines.append(f"CPU of ours against Karmada's: {ratio:.2f} from nothing, {whole:.2f} in all")
    with capsys.disabled():
        print("", *lines, f"load average {os.getloadavg()[0]:.1f}", sep="\n")
    assert ratio <= LIMIT
