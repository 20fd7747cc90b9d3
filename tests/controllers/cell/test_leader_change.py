"""A second cell manager becomes leader while hub and projects are unreachable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import merge
from datum_compute.controllers.cell.instance import instance_controller
from datum_compute.controllers.cell.workload_deployment import workload_deployment_controller
from datum_compute.fleets.cell_projects import CellProjectFleet
from datum_compute.runtime.leadership import LEASE_SECONDS, Leadership, LeaseName
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.tasks import stop_tasks
from tests.support.client.intercepted_transport import CUT
from tests.support.controllers.cell_instances import (
    DEPLOYMENT,
    NAME,
    answer_claim,
    create_prerequisites,
    left_behind,
    until_instance_shows,
    until_nothing_left,
)
from tests.support.controllers.planes import (
    ControllerPlanes,
    controller_planes,
    deployment,
    report_serving,
    settle,
)
from tests.support.objects import condition, message, until_gone

LEASE = LeaseName("default", "e98b06c6.datumapis.com-cell")


class Candidate:
    """One of several equal managers of the cell, with its own connections to hub and project."""

    def __init__(self, w: ControllerPlanes, name: str) -> None:
        hub, hub_line = w.linked("hub")
        project, project_line = w.linked("project/demo")
        self.lines = (hub_line, project_line)
        self.manager = Manager(name, w.env, leadership=Leadership(w.cell, LEASE, name, w.env))
        cell, hubs = w.cell_fleet(), w.hub_fleet(hub)
        projects = CellProjectFleet("tenants", cell, lambda _: project, w.env, cluster_name="dfw")
        self.controllers = [
            instance_controller(cell, w.env, hub=hubs, projects=projects, cluster_name="dfw"),
            workload_deployment_controller(
                cell, w.env, networking=False, hub=hubs, projects=projects, cluster_name="dfw"
            ),
        ]
        self.manager.add(*self.controllers)

    def cut(self, cut: bool = True) -> None:
        for line in self.lines:
            line.rules[:] = [CUT] if cut else []

    @property
    def failed(self) -> int:
        return sum(each.statistics().errors for each in self.controllers)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.get_running_loop().create_task(self.manager.run(), name=self.manager.name)
        try:
            yield
        finally:
            await stop_tasks([task])


async def serves(w: ControllerPlanes) -> str:
    """One Instance of the deployment, granted and running; its uid."""
    await create_prerequisites(w)
    await answer_claim(w)
    await until_instance_shows(w)
    await report_serving(w, NAME)
    await settle()
    return (await w.cell.get(compute.INSTANCES, NAME, w.hub_namespace)).metadata.uid


@pytest.mark.parametrize("waited", [True, False], ids=["waited", "started-late"])
async def test_the_next_leader_releases_what_the_previous_one_could_not(waited: bool) -> None:
    async with controller_planes() as w, AsyncExitStack() as stack:
        first, second = Candidate(w, "first"), Candidate(w, "second")
        async with first.running():
            await settle(1)
            if waited:
                await stack.enter_async_context(second.running())
            await serves(w)
            for each in (first, second):
                each.cut()
            await w.cell.delete(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, w.hub_namespace)
            await until_gone(w.cell, compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.cell, compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, w.hub_namespace)
            await settle(600)
            assert len(await left_behind(w)) == 2, "unreachable planes keep theirs"
        if not waited:
            await stack.enter_async_context(second.running())
        await settle(600)
        assert first.failed == second.failed == 0
        second.cut(False)
        await until_nothing_left(w)


async def test_a_leader_change_during_a_partition_replaces_nothing_and_keeps_holding_rolls() -> (
    None
):
    async with controller_planes() as w:
        first, second = Candidate(w, "first"), Candidate(w, "second")
        async with second.running():
            async with first.running():
                uid = await serves(w)
                first.cut()
                second.cut()
                spec = deployment(DEPLOYMENT, replicas=2, image="acme/web:2")["spec"]
                await w.cell.patch(
                    compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, merge({"spec": spec}), w.hub_namespace
                )
                await settle(600)
            await settle(LEASE_SECONDS + 600)
            kept = await w.cell.get(compute.INSTANCES, NAME, w.hub_namespace)
            assert kept.metadata.uid == uid
            assert condition(kept, "Ready") == ("True", "Available")
            waits = await w.cell.get(compute.INSTANCES, f"{DEPLOYMENT}-1", w.hub_namespace)
            assert waits.view(compute.Instance).gates == (compute.GATE_QUOTA,)
            reported = await w.cell.get(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, w.hub_namespace)
            assert "CellDisconnected" in message(reported, "ReplicasReady")
            assert first.failed == second.failed == 0
