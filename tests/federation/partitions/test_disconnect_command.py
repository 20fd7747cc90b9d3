"""``local cell disconnect``: the cell keeps running, the project reports it, and all recovers."""

from __future__ import annotations

import asyncio
from pathlib import Path

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.assembly.local.partitions import Partitions
from datum_compute.client.protocol import merge
from datum_compute.testing.expectations import eventually
from tests.support.simulation.platform import (
    NAMESPACE,
    PlatformRun,
    apply,
    leftovers,
    list_on_planes,
    missing_for_image,
    workload,
)

HOUR = 3600.0


async def instances(platform: PlatformRun, city: str) -> list[Object]:
    return await list_on_planes(platform, compute.INSTANCES, f"cell/{city.lower()}")


async def images(platform: PlatformRun, city: str) -> list[str]:
    return [_image(obj) for obj in await instances(platform, city)]


def _image(obj: Object) -> str:
    sandbox = obj.view(compute.Instance).spec.runtime.sandbox
    return sandbox.containers[0].image if sandbox else ""


async def deployed(platform: PlatformRun) -> None:
    await apply(platform, workload("acme/web:1", 2))
    await eventually("deployed", lambda: missing_for_image(platform, "acme/web:1", 4))


async def reachable(platform: PlatformRun, city: str) -> conditions.Condition:
    name = f"web-default-{city.lower()}"
    obj = await platform.project.get(compute.WORKLOAD_DEPLOYMENTS, name, NAMESPACE)
    found = conditions.find(obj.view(compute.WorkloadDeployment).status.conditions, "CellReachable")
    assert found is not None
    return found


async def unreachable_missing(platform: PlatformRun, city: str) -> str:
    found = await reachable(platform, city)
    return "" if found.status == "False" else f"CellReachable is {found.status}"


async def cut_and_bring_back(platform: PlatformRun) -> None:
    await deployed(platform)
    before = {obj.metadata.uid for obj in await instances(platform, "DFW")}
    cut_at = platform.env.now()
    platform.partitions.disconnect("dfw")
    await eventually("noticed", lambda: unreachable_missing(platform, "DFW"))

    since = (await reachable(platform, "DFW")).last_transition_time
    assert since is not None
    assert 0 <= (since - cut_at).total_seconds() < 120
    await apply(platform, workload("acme/web:2", 2))
    await asyncio.sleep(HOUR)
    # Its Instances run, other cells go on, and the project keeps showing them.
    assert {obj.metadata.uid for obj in await instances(platform, "DFW")} == before
    assert await images(platform, "LHR") == ["acme/web:2"] * 2
    assert (await reachable(platform, "LHR")).status == "True"
    assert (await reachable(platform, "DFW")).last_transition_time == since
    shown = await list_on_planes(
        platform, compute.INSTANCES, f"project/{platform.settings.project}"
    )
    assert sum(obj.name.startswith("web-default-dfw") for obj in shown) == 2
    status = (await platform.project.get(compute.WORKLOADS, "web", NAMESPACE)).view(
        compute.Workload
    )
    available = conditions.find(status.status.conditions, "Available")
    assert available is not None
    assert "DFW" in available.message, available

    platform.partitions.connect("dfw")
    await eventually("caught up", lambda: missing_for_image(platform, "acme/web:2", 4))
    assert (await reachable(platform, "DFW")).status == "True"


def test_a_disconnected_cell_keeps_running_and_catches_up_on_reconnect(tmp_path: Path) -> None:
    assert PlatformRun(1, tmp_path / "state.db").run(cut_and_bring_back)


async def scale_down_alone(platform: PlatformRun) -> None:
    await deployed(platform)
    platform.partitions.disconnect("dfw")
    await asyncio.sleep(60)
    [deployment] = await list_on_planes(platform, compute.WORKLOAD_DEPLOYMENTS, "cell/dfw")
    order = merge({"spec": {"scaleSettings": {"minReplicas": 1}}})
    await platform.client("cell/dfw").patch(
        compute.WORKLOAD_DEPLOYMENTS, deployment.name, order, deployment.namespace
    )

    async def scaled() -> str:
        names = [obj.name for obj in await instances(platform, "DFW")]
        return "" if names == ["web-default-dfw-0"] else f"there are {names}"

    await eventually("scaled down without the centre", scaled)
    await apply(platform, workload("acme/web:1", 1))
    platform.partitions.connect("dfw")
    # And what is left in the centre: the claim and the copies of the deleted Instance.
    await eventually("the same everywhere", lambda: missing_for_image(platform, "acme/web:1", 2))


def test_a_change_made_in_the_cell_is_carried_out_while_disconnected(tmp_path: Path) -> None:
    assert PlatformRun(2, tmp_path / "state.db").run(scale_down_alone)


async def destroyed_meanwhile(platform: PlatformRun) -> None:
    await deployed(platform)
    platform.partitions.disconnect("dfw")
    await eventually("noticed", lambda: unreachable_missing(platform, "DFW"))
    await platform.project.delete(compute.WORKLOADS, "web", NAMESPACE)
    await asyncio.sleep(HOUR)
    assert len(await instances(platform, "DFW")) == 2, "nothing reached the cell"
    platform.partitions.connect("dfw")
    await eventually("destroyed there too", lambda: leftovers(platform))


def test_a_workload_destroyed_during_the_partition_is_deleted_on_reconnect(tmp_path: Path) -> None:
    assert PlatformRun(3, tmp_path / "state.db").run(destroyed_meanwhile)


def test_a_platform_restarted_with_a_disconnected_cell_keeps_the_cell_running(
    tmp_path: Path,
) -> None:
    async def restarted(platform: PlatformRun) -> None:
        assert len(await instances(platform, "DFW")) == 2
        name = (await instances(platform, "DFW"))[1]
        await platform.client("cell/dfw").delete(compute.INSTANCES, name.name, name.namespace)
        await eventually("replaced by the cell alone", lambda: _replaced(platform, name))
        assert (await reachable(platform, "DFW")).status == "False"
        platform.partitions.connect("dfw")
        await eventually("together again", lambda: missing_for_image(platform, "acme/web:1", 4))

    async def first_run(platform: PlatformRun) -> None:
        await deployed(platform)
        platform.partitions.disconnect("dfw")
        await eventually("noticed", lambda: unreachable_missing(platform, "DFW"))

    assert PlatformRun(4, tmp_path / "state.db").run(first_run)
    assert PlatformRun(5, tmp_path / "state.db", number=1, partitions=Partitions(["dfw"])).run(
        restarted
    )


async def _replaced(platform: PlatformRun, old: Object) -> str:
    found = [obj for obj in await instances(platform, "DFW") if obj.name == old.name]
    if not found or found[0].metadata.uid == old.metadata.uid:
        return "it is not replaced"
    return ""
