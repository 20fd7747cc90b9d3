"""A cell that is disconnected, for a second or for a month, and its reconnect.

A disconnected cell keeps its Instances running, removes what is no longer wanted there,
replaces nothing and starts nothing new; the project shows since when it is unreachable. Within
a minute of its reconnect everything matches the last spec.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.assembly.local.partitions import Partitions
from datum_compute.client.protocol import merge
from datum_compute.controllers.cell.instance import instance_controller
from datum_compute.controllers.cell.workload_deployment import workload_deployment_controller
from datum_compute.providers.frame import provider_controller
from datum_compute.providers.protocol import (
    AVAILABLE,
    PROGRAMMED,
    InstanceReport,
    InstanceTarget,
    failed,
)
from datum_compute.providers.simulated import SimulatedProvider
from datum_compute.runtime.writes.patch import values
from datum_compute.testing import loop
from datum_compute.testing.environment import START
from datum_compute.testing.expectations import eventually
from tests.support.client.intercepted_transport import CUT
from tests.support.controllers.planes import (
    ControllerPlanes,
    controller_planes,
    deployment,
    given_namespace,
    set_condition,
)
from tests.support.federation.partitions import (
    DAY,
    DEPLOYMENT,
    HOUR,
    MINUTE,
    NOTICED_AFTER,
    RECONNECTED_WITHIN,
    SHORT_PARTITION_RECOVERY,
    check_held_back,
    check_reported_unreachable,
    check_still_runs,
    cut_off,
    disconnect_after_deploy,
    errors_of,
    in_cell,
    order,
    reconnect,
)
from tests.support.federation.stage import stage
from tests.support.objects import condition, message, until
from tests.support.simulation.commit_checker import CommitChecker
from tests.support.simulation.platform import (
    PlatformRun,
    apply,
    list_on_planes,
    missing_for_image,
    workload,
)


@pytest.mark.parametrize(
    "seconds",
    [
        1.0,
        pytest.param(40.0, marks=pytest.mark.long),
        MINUTE,
        10 * MINUTE,
        pytest.param(HOUR, marks=pytest.mark.long),
        pytest.param(DAY, marks=[pytest.mark.long, pytest.mark.timeout(300)]),
    ],
)
def test_a_disconnected_cell_keeps_running_and_catches_up_in_seconds(
    seconds: float, tmp_path: Path
) -> None:
    async def scenario(platform: PlatformRun) -> None:
        uids = await disconnect_after_deploy(
            platform, lambda: platform.partitions.disconnect("dfw")
        )
        cut_at = asyncio.get_running_loop().time()
        before = await errors_of(platform)
        await asyncio.sleep(seconds)
        await check_still_runs(platform, uids)
        if seconds >= MINUTE:
            await check_held_back(platform, uids)
        if seconds >= NOTICED_AFTER:
            await check_reported_unreachable(platform, cut_at)
            assert await errors_of(platform) == before, (
                "a reconcile failed because the centre is unreachable"
            )
        within = SHORT_PARTITION_RECOVERY if seconds <= 1 else RECONNECTED_WITHIN
        await reconnect(platform, lambda: platform.partitions.connect("dfw"), within=within)

    assert PlatformRun(1, tmp_path / "state.db", commit_checker=CommitChecker()).run(scenario)


@pytest.mark.parametrize("seconds", [1.0, 10 * MINUTE, pytest.param(HOUR, marks=pytest.mark.long)])
async def test_a_connection_that_drops_everything_silently_is_a_partition(seconds: float) -> None:
    """No connection breaks and nothing is refused: requests get no answer, watches fall silent."""
    async with stage() as on:
        uids = await disconnect_after_deploy(on, lambda: cut_off(on, silent=True))
        cut_at = asyncio.get_running_loop().time()
        await asyncio.sleep(seconds)
        await check_still_runs(on, uids)
        if seconds >= NOTICED_AFTER:
            await check_reported_unreachable(on, cut_at)
        if seconds >= HOUR:
            await check_held_back(on, uids)
        await reconnect(on, on.network.heal)


@pytest.mark.parametrize("days", [pytest.param(1, marks=pytest.mark.long), 30])
def test_a_cell_disconnected_for_days_survives_restarts_of_its_manager(
    days: int, tmp_path: Path
) -> None:
    """The restarted manager is disconnected too, and has only the state of its own plane."""
    uids: dict[str, str] = {}
    cut_at: list[float] = []

    async def first(platform: PlatformRun) -> None:
        uids.update(
            await disconnect_after_deploy(platform, lambda: platform.partitions.disconnect("dfw"))
        )
        cut_at.append(asyncio.get_running_loop().time())
        await asyncio.sleep(10 * MINUTE)
        await check_reported_unreachable(platform, cut_at[0])

    async def second(platform: PlatformRun) -> None:
        await asyncio.sleep(10 * MINUTE)
        await check_still_runs(platform, uids)
        await check_held_back(platform, uids)
        await check_reported_unreachable(platform, cut_at[0])
        await reconnect(platform, lambda: platform.partitions.connect("dfw"))

    commit_checker = CommitChecker()
    assert PlatformRun(1, tmp_path / "state.db", commit_checker=commit_checker).run(first)
    later = START + timedelta(days=days)
    again = PlatformRun(
        2,
        tmp_path / "state.db",
        start=later,
        partitions=Partitions(["dfw"]),
        commit_checker=commit_checker,
    )
    assert again.run(second)


@pytest.mark.parametrize("seconds", [10 * MINUTE, pytest.param(HOUR, marks=pytest.mark.long)])
def test_a_disconnected_cell_scales_down_and_is_swept_on_reconnect(
    seconds: float, tmp_path: Path
) -> None:
    async def scenario(platform: PlatformRun) -> None:
        await apply(platform, workload("acme/web:1", 3))
        await eventually("deployed", lambda: missing_for_image(platform, "acme/web:1", 6))
        platform.partitions.disconnect("dfw")
        await asyncio.sleep(MINUTE)
        await order(platform, 1, "acme/web:1")
        await asyncio.sleep(seconds)
        assert list(await in_cell(platform)) == [f"{DEPLOYMENT}-0"], "the finalizers let go"
        copies = {obj.name for obj in await list_on_planes(platform, compute.INSTANCES, "hub")}
        held = {obj.name for obj in (await platform.project.list(quota.RESOURCE_CLAIMS)).items}
        for gone in (f"{DEPLOYMENT}-1", f"{DEPLOYMENT}-2"):
            assert gone in copies, "the hub was unreachable"
            assert f"instance-{gone}" in held, "the project was unreachable"
        await apply(platform, workload("acme/web:1", 1))
        platform.partitions.connect("dfw")
        await eventually(
            "swept", lambda: missing_for_image(platform, "acme/web:1", 2), within=RECONNECTED_WITHIN
        )
        assert platform.commit_checker is not None
        assert platform.commit_checker.broken == []

    assert PlatformRun(3, tmp_path / "state.db", commit_checker=CommitChecker()).run(scenario)


def test_objects_of_others_on_hub_and_project_are_not_swept(tmp_path: Path) -> None:
    """A cell sweeps objects with its own name, and no others."""

    async def scenario(platform: PlatformRun) -> None:
        await apply(platform, workload("acme/web:1", 1))
        await eventually("deployed", lambda: missing_for_image(platform, "acme/web:1", 2))
        platform.partitions.disconnect("dfw")
        await asyncio.sleep(MINUTE)
        [claim] = [
            obj
            for obj in (await platform.project.list(quota.RESOURCE_CLAIMS)).items
            if obj.metadata.labels[compute.LABEL_SOURCE_CLUSTER] == "lhr"
        ]
        [copy] = [
            obj
            for obj in await list_on_planes(platform, compute.INSTANCES, "hub")
            if obj.metadata.labels[compute.LABEL_SOURCE_CLUSTER] == "lhr"
        ]
        platform.partitions.connect("dfw")
        await asyncio.sleep(5 * MINUTE)
        assert await missing_for_image(platform, "acme/web:1", 2) == ""
        same = await platform.project.get(quota.RESOURCE_CLAIMS, claim.name, claim.namespace)
        assert same.metadata.uid == claim.metadata.uid
        kept = await platform.client("hub").get(compute.INSTANCES, copy.name, copy.namespace)
        assert kept.metadata.uid == copy.metadata.uid

    assert PlatformRun(4, tmp_path / "state.db").run(scenario)


class Restarting:
    """A provider whose processes the test ends, and which restarts them ten seconds later."""

    name = "restarting"

    def __init__(self) -> None:
        self.ended_at: dict[str, float] = {}
        self.starts: list[str] = []

    def end(self, uid: str) -> None:
        self.ended_at[uid] = asyncio.get_running_loop().time()

    async def ensure(self, subject: InstanceTarget) -> InstanceReport:
        ended = self.ended_at.get(subject.uid)
        left = 0.0 if ended is None else ended + 10 - asyncio.get_running_loop().time()
        if left > 0:
            crashed = failed(compute.REASON_INSTANCE_CRASHING, "the process ended")
            return InstanceReport(PROGRAMMED, crashed, requeue_after=left)
        if subject.uid not in self.starts or self.ended_at.pop(subject.uid, None) is not None:
            self.starts.append(subject.uid)
        return InstanceReport(PROGRAMMED, AVAILABLE, requeue_after=1.0)

    async def suspend(self, subject: InstanceTarget) -> None: ...

    async def remove(self, subject: InstanceTarget) -> None:
        self.ended_at.pop(subject.uid, None)


async def test_a_provider_restarts_a_crashed_instance_in_a_disconnected_cell() -> None:
    """In place, and reported within the cell: neither hub nor quota is needed for it."""
    provider = Restarting()
    async with controller_planes() as w:
        for client in (w.hub, w.cell):
            await given_namespace(client, w.hub_namespace)
            body = deployment(replicas=2)
            await client.create(compute.WORKLOAD_DEPLOYMENTS, body, w.hub_namespace)
        (hub, hub_line), (project, project_line) = w.linked("hub"), w.linked("project/demo")
        cell, hubs, projects = w.cell_fleet(), w.hub_fleet(hub), w.projects(project)
        federated: Any = {"hub": hubs, "projects": projects, "cluster_name": "dfw"}
        async with w.running(
            instance_controller(cell, w.env, **federated),
            workload_deployment_controller(cell, w.env, networking=False, **federated),
            provider_controller(cell, provider, w.env),
        ):
            for ordinal in range(2):
                await _granted(w, ordinal)
            before = {each.split()[1] for each in await _served(w, 2)}
            for line in (hub_line, project_line):
                line.rules.append(CUT)
            await asyncio.sleep(MINUTE)
            crashed = await w.cell.get(compute.INSTANCES, "web-main-dfw-0", w.hub_namespace)

            provider.end(crashed.metadata.uid)

            await until(
                w.cell,
                compute.INSTANCES,
                crashed.name,
                w.hub_namespace,
                lambda obj: condition(obj, "Ready") == ("False", "InstanceCrashing"),
            )
            assert {each.split()[1] for each in await _served(w, 2)} == before
            assert provider.starts.count(crashed.metadata.uid) == 2


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_disconnected_cell_keeps_its_instances_ready_for_thirty_days() -> None:
    """With its own controllers and provider; the test acts as quota."""
    loop.run(_thirty_days(), limit=40 * DAY)


async def _thirty_days() -> None:
    async with controller_planes() as w:
        for client in (w.hub, w.cell):
            await given_namespace(client, w.hub_namespace)
            body = deployment(replicas=2)
            await client.create(compute.WORKLOAD_DEPLOYMENTS, body, w.hub_namespace)
        (hub, hub_line), (project, project_line) = w.linked("hub"), w.linked("project/demo")
        cell, hubs, projects = w.cell_fleet(), w.hub_fleet(hub), w.projects(project)
        federated: Any = {"hub": hubs, "projects": projects, "cluster_name": "dfw"}
        async with w.running(
            instance_controller(cell, w.env, **federated),
            workload_deployment_controller(cell, w.env, networking=False, **federated),
            *SimulatedProvider(cell, w.env, networking_enabled=False).controllers(),
        ):
            for ordinal in range(2):
                await _granted(w, ordinal)
            before = await _served(w, 2)
            for line in (hub_line, project_line):
                line.rules.append(CUT)
            spec = deployment(replicas=3, image="acme/web:2")["spec"]
            await w.cell.patch(
                compute.WORKLOAD_DEPLOYMENTS, "web-main-dfw", merge({"spec": spec}), w.hub_namespace
            )
            for _ in range(30):
                await asyncio.sleep(DAY)
                assert await _served(w, 2) == before
            reported = await w.cell.get(
                compute.WORKLOAD_DEPLOYMENTS, "web-main-dfw", w.hub_namespace
            )
            assert "CellDisconnected" in message(reported, "ReplicasReady")

            for line in (hub_line, project_line):
                line.rules.clear()
            await _granted(w, 2)
            after = await _served(w, 3)
            assert {obj.split()[0] for obj in before} <= {obj.split()[0] for obj in after}


async def _granted(w: ControllerPlanes, ordinal: int) -> None:
    name = f"instance-web-main-dfw-{ordinal}"
    claim = await until(w.project, quota.RESOURCE_CLAIMS, name, "default", lambda obj: True)
    await set_condition(
        w, w.project, quota.RESOURCE_CLAIMS, claim, "Granted", "True", "QuotaAvailable"
    )


async def _served(w: ControllerPlanes, count: int) -> set[str]:
    """Name, uid and conditions of each ready Instance, once there are this many."""
    found: list[Object] = []

    async def look() -> str:
        instances = (await w.cell.list(compute.INSTANCES)).items
        found[:] = [obj for obj in instances if condition(obj, "Ready") == ("True", "Available")]
        return "" if len(found) == count else f"{len(found)} serve"

    await eventually(f"{count} serve", look, within=RECONNECTED_WITHIN)
    return {f"{obj.name} {obj.metadata.uid} {values(obj.status)['conditions']}" for obj in found}
