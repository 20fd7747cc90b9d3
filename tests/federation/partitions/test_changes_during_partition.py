"""Changes on either side while a cell is disconnected, and the state after its reconnect."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.client import errors
from datum_compute.testing.expectations import eventually
from tests.support.federation.partitions import (
    DEPLOYMENT,
    MANAGER,
    MINUTE,
    PROVIDER,
    RECONNECTED_WITHIN,
    check_held_back,
    check_reachable,
    check_reported_unreachable,
    check_still_runs,
    cut_off,
    deployed,
    disconnect_after_deploy,
    errors_of,
    in_cell,
    reconnect,
    uids_in_cell,
)
from tests.support.federation.stage import Stage, stage
from tests.support.objects import condition
from tests.support.simulation.platform import (
    NAMESPACE,
    apply,
    list_on_planes,
    missing_for_image,
    workload,
)

Act = Callable[[Stage], Awaitable[None]]


@pytest.mark.parametrize(
    "started_anew",
    [
        pytest.param([MANAGER], marks=pytest.mark.long),
        pytest.param([PROVIDER], marks=pytest.mark.long),
        [MANAGER, PROVIDER],
        pytest.param(["compute-management"], marks=pytest.mark.long),
        pytest.param(["standin-propagation"], marks=pytest.mark.long),
        pytest.param([MANAGER, PROVIDER, "compute-management"], marks=pytest.mark.long),
    ],
    ids=",".join,
)
async def test_restarts_during_a_partition_change_nothing(started_anew: list[str]) -> None:
    """Twice, as the second start finds what the first one left."""
    async with stage() as on:
        uids = await disconnect_after_deploy(on, lambda: cut_off(on))
        cut_at = asyncio.get_running_loop().time()
        for _ in range(2):
            await asyncio.sleep(5 * MINUTE)
            await on.restart(*started_anew)
        await asyncio.sleep(5 * MINUTE)
        await check_still_runs(on, uids)
        await check_held_back(on, uids)
        await check_reported_unreachable(on, cut_at)
        assert set((await errors_of(on)).values()) == {0.0}, "a reconcile failed"
        await reconnect(on, on.network.heal)


# Changes during the partition, and their results after it.


async def scaled_up(on: Stage) -> None:
    await apply(on, workload("acme/web:1", 3))


async def scaled_down(on: Stage) -> None:
    await apply(on, workload("acme/web:1", 1))


async def rolled_and_back(on: Stage) -> None:
    await apply(on, workload("acme/web:2", 2))
    await asyncio.sleep(MINUTE)
    await apply(on, workload("acme/web:1", 2))


async def deployment_deleted(on: Stage) -> None:
    """By hand, in the project: the workload still wants it."""
    await on.project.delete(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, NAMESPACE)


async def projections_deleted(on: Stage) -> None:
    for obj in await list_on_planes(on, compute.INSTANCES, f"project/{on.settings.project}"):
        await on.project.delete(compute.INSTANCES, obj.name, obj.namespace)


async def copies_deleted(on: Stage) -> None:
    for obj in await list_on_planes(on, compute.INSTANCES, "hub"):
        await on.hub.delete(compute.INSTANCES, obj.name, obj.namespace)


async def claims_deleted(on: Stage) -> None:
    for obj in (await on.project.list(quota.RESOURCE_CLAIMS)).items:
        await on.project.delete(quota.RESOURCE_CLAIMS, obj.name, obj.namespace)


@pytest.mark.parametrize(
    ("act", "count", "kept"),
    [
        (scaled_up, 6, 2),
        pytest.param(scaled_down, 2, 1, marks=pytest.mark.long),
        pytest.param(rolled_and_back, 4, 2, marks=pytest.mark.long),
        pytest.param(deployment_deleted, 4, 0, marks=pytest.mark.long),
        pytest.param(projections_deleted, 4, 2, marks=pytest.mark.long),
        pytest.param(copies_deleted, 4, 2, marks=pytest.mark.long),
        pytest.param(claims_deleted, 4, 2, marks=pytest.mark.long),
    ],
)
async def test_changes_made_during_a_partition_hold_after_reconnect(
    act: Act, count: int, kept: int
) -> None:
    """``kept`` are the Instances of the cell that keep running unchanged."""
    async with stage() as on:
        uids = await deployed(on)
        cut_off(on)
        await asyncio.sleep(5 * MINUTE)
        await act(on)
        await asyncio.sleep(10 * MINUTE)
        assert await uids_in_cell(on) == uids, "nothing reached the cell"

        on.network.heal()

        image = "acme/web:1"
        await eventually(
            "as wanted", lambda: missing_for_image(on, image, count), within=RECONNECTED_WITHIN
        )
        after = await uids_in_cell(on)
        for ordinal in range(kept):
            assert after[f"{DEPLOYMENT}-{ordinal}"] == uids[f"{DEPLOYMENT}-{ordinal}"]
        await check_reachable(on)


@pytest.mark.long
async def test_instances_of_a_city_removed_during_a_partition_are_deleted_on_reconnect() -> None:
    async with stage() as on:
        uids = await deployed(on)
        cut_off(on)
        await asyncio.sleep(5 * MINUTE)
        await apply(on, workload("acme/web:1", 2, ("LHR",)))
        await asyncio.sleep(10 * MINUTE)
        assert await uids_in_cell(on) == uids

        on.network.heal()

        async def emptied() -> str:
            return await missing_for_image(on, "acme/web:1", 2) or str(await uids_in_cell(on) or "")

        await eventually("emptied", emptied, within=RECONNECTED_WITHIN)
        assert on.commit_checker is not None
        assert on.commit_checker.broken == []


async def test_a_workload_deleted_during_a_partition_can_be_recreated_after_reconnect() -> None:
    """It waits until the first is deleted, which waits for the cell; the two are never confused."""
    async with stage() as on:
        uids = await deployed(on)
        cut_off(on)
        await asyncio.sleep(5 * MINUTE)
        old = await on.project.get(compute.WORKLOADS, "web", NAMESPACE)
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        await asyncio.sleep(10 * MINUTE)
        assert await uids_in_cell(on) == uids
        on.network.heal()

        async def made() -> str:
            try:
                await on.project.create(compute.WORKLOADS, workload("acme/web:2", 3), NAMESPACE)
            except errors.AlreadyExists as error:
                return str(error)
            return ""

        await eventually("made anew", made, within=RECONNECTED_WITHIN)
        new = await on.project.get(compute.WORKLOADS, "web", NAMESPACE)
        assert new.metadata.uid != old.metadata.uid
        await eventually(
            "serves", lambda: missing_for_image(on, "acme/web:2", 6), within=RECONNECTED_WITHIN
        )
        assert not set((await uids_in_cell(on)).values()) & set(uids.values())
        await check_reachable(on)


async def test_a_project_deleted_during_a_partition_leaves_the_cell_on_reconnect() -> None:
    async with stage() as on:
        uids = await deployed(on)
        cut_off(on)
        await asyncio.sleep(5 * MINUTE)
        await on.client("root").delete(resourcemanager.PROJECTS, on.settings.project)
        await asyncio.sleep(10 * MINUTE)
        assert await uids_in_cell(on) == uids, "nothing reached the cell"

        on.network.heal()

        async def emptied() -> str:
            for kind in (compute.WORKLOAD_DEPLOYMENTS, compute.INSTANCES):
                for obj in await list_on_planes(on, kind, "cell/dfw", "cell/lhr", "hub"):
                    return f"{obj!r} is left"
            left = [
                obj.name for obj in (await on.client("root").list(resourcemanager.PROJECTS)).items
            ]
            return f"{left} are left" if left else ""

        await eventually("gone", emptied, within=2 * RECONNECTED_WITHIN)


async def test_quota_taken_by_others_during_a_partition_stops_no_running_instance() -> None:
    """An operator deletes the claims of the cell, and another workload takes the quota."""
    async with stage(grant={"instances": 4}) as on:
        uids = await deployed(on)
        cut_off(on)
        await asyncio.sleep(5 * MINUTE)
        for claim in (await on.project.list(quota.RESOURCE_CLAIMS)).items:
            if claim.metadata.labels[compute.LABEL_SOURCE_CLUSTER] == "dfw":
                await on.project.delete(quota.RESOURCE_CLAIMS, claim.name, claim.namespace)
        competitor = workload("acme/api:1", 2, ("LHR",))
        competitor["metadata"]["name"] = "api"
        await on.project.create(compute.WORKLOADS, competitor, NAMESPACE)

        async def competitors() -> list[str]:
            found = await list_on_planes(on, compute.INSTANCES, "cell/lhr")
            ready = [obj for obj in found if condition(obj, "Ready")[0] == "True"]
            return sorted(obj.name for obj in ready if obj.name.startswith("api"))

        async def taken() -> str:
            found = await competitors()
            return "" if len(found) == 2 else f"only {found} serve"

        await eventually("the competitor has taken the quota", taken)
        on.network.heal()
        await asyncio.sleep(10 * MINUTE)

        # More run than the limit allows, which this test is about.
        assert on.commit_checker is not None
        on.commit_checker.broken[:] = [
            each for each in on.commit_checker.broken if "limit is" not in each
        ]
        await check_still_runs(on, uids)
        for obj in (await in_cell(on)).values():
            assert condition(obj, "QuotaGranted")[0] == "True", obj.name
        assert await taken() == ""
        await check_reachable(on)

        await on.project.delete(compute.WORKLOADS, "api", NAMESPACE)
        await eventually("claimed again", lambda: missing_for_image(on, "acme/web:1", 4))
        assert await uids_in_cell(on) == uids
