"""At full quota a deployment keeps its claims while it rolls, whatever else waits for quota.

A claim belongs to an ordinal at a size: only another size, fewer replicas or deletion of the
deployment release it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.apiserver.storage.protocol import PlaneStore, StoreEvent, Table
from datum_compute.client.protocol import merge
from datum_compute.providers.simulated.behaviour import FAIL, START_SECONDS
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.expectations import eventually
from tests.support.federation.budgets import (
    CELL,
    HOUR,
    claims,
    deploy,
    named,
    ready,
    scale,
    serving,
    set_grant,
)
from tests.support.federation.crash_scenarios import sized
from tests.support.federation.stage import NAMESPACE, Stage, stage
from tests.support.objects import condition
from tests.support.simulation.platform import cell_planes, list_on_planes

COMPETITORS = ("aaa", "api", "zzz")
"""Workloads that wait for quota, with names before and after that of the one that rolls."""


def slow(image: str, fail: str = "") -> dict[str, Any]:
    body = named("web", 3, image=image)
    annotations = {START_SECONDS: "20", FAIL: fail or None}
    body["spec"]["template"]["metadata"] = {"annotations": annotations}
    return body


async def roll(on: Stage, image: str, fail: str = "") -> None:
    body = merge({"spec": slow(image, fail)["spec"]})
    await on.project.patch(compute.WORKLOADS, "web", body, NAMESPACE)


async def images(on: Stage) -> set[str]:
    return {
        values(obj.spec)["runtime"]["sandbox"]["containers"][0]["image"]
        for obj in await list_on_planes(on, compute.INSTANCES, "cell/dfw")
        if obj.name.startswith("web-")
    }


async def held(on: Stage) -> dict[str, str]:
    return {each.name: each.metadata.uid for each in await claims(on)}


@dataclass
class Full:
    """Three of three slots are held, others wait, and every change of a claim is recorded."""

    on: Stage
    mine: dict[str, str]
    changed: list[str]

    async def is_kept(self) -> None:
        assert await held(self.on) == self.mine
        assert self.changed == [], "not a claim was made, changed or released"
        for name in COMPETITORS:
            assert await ready(self.on, name, *cell_planes(self.on)) == []


async def given_full(on: Stage) -> Full:
    await deploy(on, "web", 3)
    await serving(on, "web", 3)
    for name in COMPETITORS:
        await deploy(on, name, 2, cities=on.settings.cities)
    await asyncio.sleep(60)
    found = Full(on, await held(on), [])
    assert len(found.mine) == 3

    def changed(plane: PlaneStore, table: Table, event: StoreEvent) -> None:
        if table.resource == quota.RESOURCE_CLAIMS.group_resource:
            found.changed.append(event.after.name)

    on.platform.store.subscribe(changed)
    return found


async def test_a_roll_at_full_quota_keeps_its_slots_beside_competitors() -> None:
    async with stage(grant={"instances": 3}) as on:
        full = await given_full(on)
        await roll(on, "acme/web:2")
        await asyncio.sleep(300)
        assert await images(on) == {"acme/web:2"}
        assert len(await ready(on, "web")) == 3
        await full.is_kept()


async def test_a_bad_image_and_the_good_one_after_it_keep_the_slots() -> None:
    """The replacement of an Instance that never became ready takes over its claim as well."""
    async with stage(grant={"instances": 3}) as on:
        full = await given_full(on)
        await roll(on, "acme/web:bad", "ImageUnavailable")
        await asyncio.sleep(300)
        assert len(await ready(on, "web")) == 2, "one is replaced, and stays bad"
        await full.is_kept()
        await roll(on, "acme/web:3")
        await asyncio.sleep(300)
        assert await images(on) == {"acme/web:3"}
        assert len(await ready(on, "web")) == 3
        await full.is_kept()


VICTIMS = (CELL, "compute-management", "standin-quota", "provider-dfw")


@pytest.mark.long
@pytest.mark.parametrize("at", [1, 21, 45])
@pytest.mark.parametrize("victim", VICTIMS)
async def test_a_roll_keeps_its_slots_whichever_process_crashes(victim: str, at: float) -> None:
    async with stage(cities=("DFW",), grant={"instances": 3}) as on:
        full = await given_full(on)
        await roll(on, "acme/web:2")
        await asyncio.sleep(at)
        on.parts[victim].process.crash(5.0)
        await asyncio.sleep(300)
        assert await images(on) == {"acme/web:2"}
        assert len(await ready(on, "web")) == 3
        await full.is_kept()


async def test_quota_released_by_a_scale_down_goes_to_waiting_instances() -> None:
    async with stage(cities=("DFW",), grant={"instances": 3}) as on:
        full = await given_full(on)
        await scale(on, "web", 2)
        await serving(on, "", 3)
        await asyncio.sleep(60)
        kept = await held(on)
        assert len(kept) == 3
        assert len(kept.items() & full.mine.items()) == 2


# Another size.


async def resize(on: Stage, cpu: str, memory: str) -> None:
    body = merge({"spec": sized(cpu, memory)["spec"]})
    await on.project.patch(compute.WORKLOAD_DEPLOYMENTS, "sized-default-dfw", body, NAMESPACE)


async def used(on: Stage) -> dict[str, int]:
    """Usage by the last segment of the resource type."""
    found = (await on.project.list(quota.ALLOWANCE_BUCKETS)).items
    views = [obj.view(quota.AllowanceBucket) for obj in found]
    return {view.spec.resource_type.rpartition("/")[2]: view.status.allocated for view in views}


async def usage_differs(on: Stage, **wanted: int) -> str:
    found = await used(on)
    return "" if found == wanted else f"in use are {found}, not {wanted}"


async def given_sized(on: Stage) -> None:
    body = sized("1", "2Gi")
    await on.project.create(compute.WORKLOAD_DEPLOYMENTS, body, NAMESPACE)
    await serving(on, "sized", 2)
    await eventually("counted", lambda: usage_differs(on, instances=2, vcpus=2000, memory=4096))


async def test_a_resize_at_full_quota_releases_the_old_claim_before_the_new_one() -> None:
    async with stage(cities=("DFW",), grant={"vcpus": 2000, "memory": 4096}) as on:
        await given_sized(on)
        before = await held(on)
        await resize(on, "1", "1Gi")
        await eventually("counted", lambda: usage_differs(on, instances=2, vcpus=2000, memory=2048))
        await serving(on, "sized", 2)
        after = await held(on)
        assert before.keys() == after.keys()
        assert not before.items() & after.items(), "a claim is never changed"


async def test_a_resize_without_free_quota_holds_nothing_and_starts_when_quota_is_freed() -> None:
    async with stage(cities=("DFW",), grant={"vcpus": 2000, "memory": 4096}) as on:
        await given_sized(on)
        await resize(on, "2", "2Gi")
        await eventually(
            "released", lambda: usage_differs(on, instances=1, vcpus=1000, memory=2048)
        )
        await asyncio.sleep(60)
        [runs] = await ready(on, "sized")
        assert runs == "sized-default-dfw-0", "from the last to the first, one at a time"
        found = {obj.name: obj for obj in await list_on_planes(on, compute.INSTANCES, "cell/dfw")}
        reported = condition(found["sized-default-dfw-1"], "QuotaGranted")
        assert reported == ("False", "QuotaExceeded")
        assert await on.written_in(HOUR) == []
        assert await usage_differs(on, instances=1, vcpus=1000, memory=2048) == ""

        await set_grant(on, vcpus=4000)
        await serving(on, "sized", 2, within=60)
        await eventually("counted", lambda: usage_differs(on, instances=2, vcpus=4000, memory=4096))
