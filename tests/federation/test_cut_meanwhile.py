"""What happens on either side while a cell is cut off, and how it stands once it is back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.client import errors
from datum_compute.testing.expectations import eventually
from tests.controllers.harness import condition
from tests.e2e.simulation import NAMESPACE, apply, everywhere, running_as, workload
from tests.federation.cut import (
    BACK_WITHIN,
    DEPLOYMENT,
    MANAGER,
    MINUTE,
    PROVIDER,
    begin,
    check_held_back,
    check_reachable,
    check_runs_on,
    check_told,
    come_back,
    cut_off,
    deployed,
    errors_of,
    in_cell,
    uids_in_cell,
)
from tests.federation.stage import Stage, stage

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
async def test_processes_that_start_anew_meanwhile_change_nothing(started_anew: list[str]) -> None:
    """Twice, as what the first start leaves behind is what the second finds."""
    async with stage() as on:
        uids = await begin(on, lambda: cut_off(on))
        cut_at = asyncio.get_running_loop().time()
        for _ in range(2):
            await asyncio.sleep(5 * MINUTE)
            await on.restart(*started_anew)
        await asyncio.sleep(5 * MINUTE)
        await check_runs_on(on, uids)
        await check_held_back(on, uids)
        await check_told(on, cut_at)
        assert set((await errors_of(on)).values()) == {0.0}, "a pass failed"
        await come_back(on, on.network.heal)


# What a person wants meanwhile, and what there is to be seen of it afterwards.


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
    for obj in await everywhere(on, compute.INSTANCES, f"project/{on.settings.project}"):
        await on.project.delete(compute.INSTANCES, obj.name, obj.namespace)


async def copies_deleted(on: Stage) -> None:
    for obj in await everywhere(on, compute.INSTANCES, "hub"):
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
async def test_what_is_wanted_otherwise_meanwhile_is_so_after_the_return(
    act: Act, count: int, kept: int
) -> None:
    """``kept`` are those of the cell that live on as they were."""
    async with stage() as on:
        uids = await deployed(on)
        cut_off(on)
        await asyncio.sleep(5 * MINUTE)
        await act(on)
        await asyncio.sleep(10 * MINUTE)
        assert await uids_in_cell(on) == uids, "nobody reached it"

        on.network.heal()

        image = "acme/web:1"
        await eventually("as wanted", lambda: running_as(on, image, count), within=BACK_WITHIN)
        after = await uids_in_cell(on)
        for ordinal in range(kept):
            assert after[f"{DEPLOYMENT}-{ordinal}"] == uids[f"{DEPLOYMENT}-{ordinal}"]
        await check_reachable(on)


@pytest.mark.long
async def test_a_city_taken_away_meanwhile_is_emptied_on_return() -> None:
    async with stage() as on:
        uids = await deployed(on)
        cut_off(on)
        await asyncio.sleep(5 * MINUTE)
        await apply(on, workload("acme/web:1", 2, ("LHR",)))
        await asyncio.sleep(10 * MINUTE)
        assert await uids_in_cell(on) == uids

        on.network.heal()

        async def emptied() -> str:
            return await running_as(on, "acme/web:1", 2) or str(await uids_in_cell(on) or "")

        await eventually("emptied", emptied, within=BACK_WITHIN)
        assert on.witness is not None
        assert on.witness.broken == []


async def test_a_workload_of_the_same_name_made_anew_meanwhile_replaces_the_old_one() -> None:
    """It waits for the end of the first, which waits for the cell; nobody mixes them up."""
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

        await eventually("made anew", made, within=BACK_WITHIN)
        new = await on.project.get(compute.WORKLOADS, "web", NAMESPACE)
        assert new.metadata.uid != old.metadata.uid
        await eventually("serves", lambda: running_as(on, "acme/web:2", 6), within=BACK_WITHIN)
        assert not set((await uids_in_cell(on)).values()) & set(uids.values())
        await check_reachable(on)


async def test_a_project_deleted_meanwhile_leaves_the_cell_on_return() -> None:
    async with stage() as on:
        uids = await deployed(on)
        cut_off(on)
        await asyncio.sleep(5 * MINUTE)
        await on.client("root").delete(resourcemanager.PROJECTS, on.settings.project)
        await asyncio.sleep(10 * MINUTE)
        assert await uids_in_cell(on) == uids, "nobody reached it"

        on.network.heal()

        async def emptied() -> str:
            for kind in (compute.WORKLOAD_DEPLOYMENTS, compute.INSTANCES):
                for obj in await everywhere(on, kind, "cell/dfw", "cell/lhr", "hub"):
                    return f"{obj!r} is left"
            left = [
                obj.name for obj in (await on.client("root").list(resourcemanager.PROJECTS)).items
            ]
            return f"{left} are left" if left else ""

        await eventually("gone", emptied, within=2 * BACK_WITHIN)


async def test_a_budget_taken_by_others_meanwhile_stops_nothing_that_runs() -> None:
    """Somebody clears the claims of a cell he believes dead, and uses what they held."""
    async with stage(grant={"instances": 4}) as on:
        uids = await deployed(on)
        cut_off(on)
        await asyncio.sleep(5 * MINUTE)
        for claim in (await on.project.list(quota.RESOURCE_CLAIMS)).items:
            if claim.metadata.labels[compute.LABEL_SOURCE_CLUSTER] == "dfw":
                await on.project.delete(quota.RESOURCE_CLAIMS, claim.name, claim.namespace)
        rival = workload("acme/api:1", 2, ("LHR",))
        rival["metadata"]["name"] = "api"
        await on.project.create(compute.WORKLOADS, rival, NAMESPACE)

        async def rivals() -> list[str]:
            found = await everywhere(on, compute.INSTANCES, "cell/lhr")
            ready = [obj for obj in found if condition(obj, "Ready")[0] == "True"]
            return sorted(obj.name for obj in ready if obj.name.startswith("api"))

        async def taken() -> str:
            found = await rivals()
            return "" if len(found) == 2 else f"only {found} serve"

        await eventually("the rival has taken the room", taken)
        on.network.heal()
        await asyncio.sleep(10 * MINUTE)

        # More run than the budget allows, and that is what is asked for here.
        assert on.witness is not None
        on.witness.broken[:] = [each for each in on.witness.broken if "limit is" not in each]
        await check_runs_on(on, uids)
        for obj in (await in_cell(on)).values():
            assert condition(obj, "QuotaGranted")[0] == "True", obj.name
        assert await taken() == ""
        await check_reachable(on)

        await on.project.delete(compute.WORKLOADS, "api", NAMESPACE)
        await eventually("booked again", lambda: running_as(on, "acme/web:1", 4))
        assert await uids_in_cell(on) == uids
