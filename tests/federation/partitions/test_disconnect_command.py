"""``local cell disconnect``: a cell lives on alone, the project says so, and all is well after."""

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


async def instances(life: PlatformRun, city: str) -> list[Object]:
    return await list_on_planes(life, compute.INSTANCES, f"cell/{city.lower()}")


async def images(life: PlatformRun, city: str) -> list[str]:
    return [_image(obj) for obj in await instances(life, city)]


def _image(obj: Object) -> str:
    sandbox = obj.view(compute.Instance).spec.runtime.sandbox
    return sandbox.containers[0].image if sandbox else ""


async def deployed(life: PlatformRun) -> None:
    await apply(life, workload("acme/web:1", 2))
    await eventually("deployed", lambda: missing_for_image(life, "acme/web:1", 4))


async def reachable(life: PlatformRun, city: str) -> conditions.Condition:
    name = f"web-default-{city.lower()}"
    obj = await life.project.get(compute.WORKLOAD_DEPLOYMENTS, name, NAMESPACE)
    found = conditions.find(obj.view(compute.WorkloadDeployment).status.conditions, "CellReachable")
    assert found is not None
    return found


async def unreachable_missing(life: PlatformRun, city: str) -> str:
    found = await reachable(life, city)
    return "" if found.status == "False" else f"CellReachable is {found.status}"


async def cut_and_bring_back(life: PlatformRun) -> None:
    await deployed(life)
    before = {obj.metadata.uid for obj in await instances(life, "DFW")}
    cut_at = life.env.now()
    life.partitions.disconnect("dfw")
    await eventually("noticed", lambda: unreachable_missing(life, "DFW"))

    since = (await reachable(life, "DFW")).last_transition_time
    assert since is not None
    assert 0 <= (since - cut_at).total_seconds() < 120
    await apply(life, workload("acme/web:2", 2))
    await asyncio.sleep(HOUR)
    # What runs there runs, the rest of the world goes on, and the project does not forget.
    assert {obj.metadata.uid for obj in await instances(life, "DFW")} == before
    assert await images(life, "LHR") == ["acme/web:2"] * 2
    assert (await reachable(life, "LHR")).status == "True"
    assert (await reachable(life, "DFW")).last_transition_time == since
    shown = await list_on_planes(life, compute.INSTANCES, f"project/{life.settings.project}")
    assert sum(obj.name.startswith("web-default-dfw") for obj in shown) == 2
    status = (await life.project.get(compute.WORKLOADS, "web", NAMESPACE)).view(compute.Workload)
    available = conditions.find(status.status.conditions, "Available")
    assert available is not None
    assert "DFW" in available.message, available

    life.partitions.connect("dfw")
    await eventually("caught up", lambda: missing_for_image(life, "acme/web:2", 4))
    assert (await reachable(life, "DFW")).status == "True"


def test_a_cell_lives_on_alone_and_catches_up(tmp_path: Path) -> None:
    assert PlatformRun(1, tmp_path / "state.db").run(cut_and_bring_back)


async def scale_down_alone(life: PlatformRun) -> None:
    await deployed(life)
    life.partitions.disconnect("dfw")
    await asyncio.sleep(60)
    [deployment] = await list_on_planes(life, compute.WORKLOAD_DEPLOYMENTS, "cell/dfw")
    order = merge({"spec": {"scaleSettings": {"minReplicas": 1}}})
    await life.client("cell/dfw").patch(
        compute.WORKLOAD_DEPLOYMENTS, deployment.name, order, deployment.namespace
    )

    async def scaled() -> str:
        names = [obj.name for obj in await instances(life, "DFW")]
        return "" if names == ["web-default-dfw-0"] else f"there are {names}"

    await eventually("scaled down without the centre", scaled)
    await apply(life, workload("acme/web:1", 1))
    life.partitions.connect("dfw")
    # With what was left behind in the centre: the claim and the copies of the one that went.
    await eventually("the same everywhere", lambda: missing_for_image(life, "acme/web:1", 2))


def test_a_change_made_in_the_cell_is_carried_out_while_disconnected(tmp_path: Path) -> None:
    assert PlatformRun(2, tmp_path / "state.db").run(scale_down_alone)


async def destroyed_meanwhile(life: PlatformRun) -> None:
    await deployed(life)
    life.partitions.disconnect("dfw")
    await eventually("noticed", lambda: unreachable_missing(life, "DFW"))
    await life.project.delete(compute.WORKLOADS, "web", NAMESPACE)
    await asyncio.sleep(HOUR)
    assert len(await instances(life, "DFW")) == 2, "nobody reached it"
    life.partitions.connect("dfw")
    await eventually("destroyed there too", lambda: leftovers(life))


def test_a_workload_destroyed_during_the_partition_goes_on_reconnect(tmp_path: Path) -> None:
    assert PlatformRun(3, tmp_path / "state.db").run(destroyed_meanwhile)


def test_a_platform_starts_with_a_cell_cut_off_and_the_cell_works(tmp_path: Path) -> None:
    async def restarted(life: PlatformRun) -> None:
        assert len(await instances(life, "DFW")) == 2
        name = (await instances(life, "DFW"))[1]
        await life.client("cell/dfw").delete(compute.INSTANCES, name.name, name.namespace)
        await eventually("replaced by the cell alone", lambda: _replaced(life, name))
        assert (await reachable(life, "DFW")).status == "False"
        life.partitions.connect("dfw")
        await eventually("together again", lambda: missing_for_image(life, "acme/web:1", 4))

    async def first_life(life: PlatformRun) -> None:
        await deployed(life)
        life.partitions.disconnect("dfw")
        await eventually("noticed", lambda: unreachable_missing(life, "DFW"))

    assert PlatformRun(4, tmp_path / "state.db").run(first_life)
    assert PlatformRun(5, tmp_path / "state.db", number=1, partitions=Partitions(["dfw"])).run(
        restarted
    )


async def _replaced(life: PlatformRun, old: Object) -> str:
    found = [obj for obj in await instances(life, "DFW") if obj.name == old.name]
    if not found or found[0].metadata.uid == old.metadata.uid:
        return "it is not replaced"
    return ""
