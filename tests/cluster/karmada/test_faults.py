"""Processes of a federation on real Karmada are killed or suspended, while a Workload changes.

Each time all planes match the Workload afterwards: no Instance is lost, doubled or forgotten, and
those that ran before the change run on. The time until then is printed.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import replace

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from tests.support.cluster.karmada_stage import NAMESPACE, KarmadaStage
from tests.support.federation.lifecycle import BOTH, FIRST, Lifecycle
from tests.support.objects import condition, until

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.karmada,
    pytest.mark.campaign,
    pytest.mark.timeout(900),
]

WITHIN = 300.0
DOWN_SECONDS = 5.0
LEASE_SECONDS = 15.0
"""How long a leader's Lease lasts."""

Fault = Callable[[KarmadaStage], AbstractAsyncContextManager[None]]
"""Lasts as long as the block."""


async def cell_is_lost(on: KarmadaStage, city: str) -> None:
    """Until the project is told."""

    def is_reported(obj: Object) -> bool:
        return condition(obj, "CellReachable")[0] == "False"

    name = f"web-default-{city.lower()}"
    await until(
        on.project, compute.WORKLOAD_DEPLOYMENTS, name, NAMESPACE, is_reported, within=WITHIN
    )


def killed_managers(
    name: str, *, only_leader: bool = False, serves_webhooks: bool = False
) -> Fault:
    """Without its webhooks no Workload can be changed, so those go right after the change."""

    @asynccontextmanager
    async def fault(on: KarmadaStage) -> AsyncIterator[None]:
        killed = [await on.leader(name)] if only_leader else on.managers[name]
        if serves_webhooks:
            yield
        for pod in killed:
            await pod.kill()
        if not serves_webhooks:
            yield
        await asyncio.sleep(DOWN_SECONDS)
        for pod in killed:
            await pod.start()

    return fault


def suspended_leader(name: str) -> Fault:
    @asynccontextmanager
    async def fault(on: KarmadaStage) -> AsyncIterator[None]:
        pod = await on.leader(name)
        pod.send_signal(signal.SIGSTOP)
        try:
            yield
            await asyncio.sleep(LEASE_SECONDS + 10)
        finally:
            pod.send_signal(signal.SIGCONT)

    return fault


def killed_program(
    name: str, *, until: Callable[[KarmadaStage], Awaitable[None]], refuses: bool = False
) -> Fault:
    """``refuses``: until it is ready again it refuses what is allowed."""

    @asynccontextmanager
    async def fault(on: KarmadaStage) -> AsyncIterator[None]:
        excused = on.excused() if refuses else nullcontext()
        with excused, on.clusters.without(name, kill=True):
            yield
            await until(on)

    return fault


def killed_apiserver(plane: str, *, until: Callable[[KarmadaStage], Awaitable[None]]) -> Fault:
    @asynccontextmanager
    async def fault(on: KarmadaStage) -> AsyncIterator[None]:
        found = on.clusters.planes[plane]
        await asyncio.to_thread(found.stop_apiserver, kill=True)
        yield
        await until(on)
        with on.excused():  # before it is ready it knows no roles, and refuses
            await asyncio.to_thread(found.start_apiserver)

    return fault


def killed_etcd(plane: str) -> Fault:
    @asynccontextmanager
    async def fault(on: KarmadaStage) -> AsyncIterator[None]:
        await asyncio.to_thread(on.clusters.planes[plane].restart_etcd, kill=True)
        yield

    return fault


def suspended_apiserver(cell: str) -> Fault:
    @asynccontextmanager
    async def fault(on: KarmadaStage) -> AsyncIterator[None]:
        with on.clusters.planes[cell].suspended_apiserver():
            yield
            await cell_is_lost(on, cell.upper())

    return fault


async def a_moment(on: KarmadaStage) -> None:
    await asyncio.sleep(DOWN_SECONDS)


async def dfw_is_lost(on: KarmadaStage) -> None:
    await cell_is_lost(on, "DFW")


async def lhr_is_lost(on: KarmadaStage) -> None:
    await cell_is_lost(on, "LHR")


FAULTS: dict[str, Fault] = {
    "the leader of management killed": killed_managers("management", only_leader=True),
    "all of management killed": killed_managers("management", serves_webhooks=True),
    "the manager of dfw killed": killed_managers("dfw"),
    "the manager of lhr killed": killed_managers("lhr"),
    "the leader of management suspended": suspended_leader("management"),
    "the leader of dfw suspended": suspended_leader("dfw"),
    "karmada-controller-manager killed": killed_program("controller-manager", until=a_moment),
    "karmada-scheduler killed": killed_program("scheduler", until=a_moment),
    "karmada-webhook killed": killed_program("webhook", until=a_moment),
    "karmada-aggregated-apiserver killed": killed_program(
        "aggregated-apiserver", until=a_moment, refuses=True
    ),
    "karmada-agent of lhr killed": killed_program("agent", until=lhr_is_lost),
    "the API server of the hub killed": killed_apiserver("hub", until=a_moment),
    "the API server of management killed": killed_apiserver("management", until=a_moment),
    "the API server of dfw killed": killed_apiserver("dfw", until=dfw_is_lost),
    "the API server of lhr killed": killed_apiserver("lhr", until=lhr_is_lost),
    "the API server of dfw suspended": suspended_apiserver("dfw"),
    "the API server of lhr suspended": suspended_apiserver("lhr"),
    "etcd of the hub killed": killed_etcd("hub"),
    "etcd of dfw killed": killed_etcd("dfw"),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_a_federation_converges_after(
    name: str, on: KarmadaStage, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = Lifecycle(on, within=WITHIN)
    async with on.restarting() as ended:
        await on.project.create(compute.WORKLOADS, FIRST.to_create(), NAMESPACE)
        await steps.settled(FIRST)
        before = {city: await steps.uids(city) for city in BOTH}
        started = time.monotonic()
        async with FAULTS[name](on):
            await steps.change(replace(FIRST, minimum=3))
        lasted = time.monotonic() - started
        await steps.settled(replace(FIRST, minimum=3))
        settled = time.monotonic() - started - lasted
        for city in BOTH:
            after = await steps.uids(city)
            assert before[city].items() <= after.items(), "those that ran, run"
        for pods in on.managers.values():
            for pod in pods:
                await pod.wait_ready()
        await steps.become(replace(FIRST, image="acme/web:2"))
    with capsys.disabled():
        print(
            f"\n{name} for {lasted:.0f} s: settled {settled:.1f} s later"
            f"{'; ended: ' + ', '.join(ended) if ended else ''}"
        )
