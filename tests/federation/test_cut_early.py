"""A cell that is cut off before what was asked of it is done, or before it was asked."""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import merge
from datum_compute.testing.expectations import eventually
from tests.controllers.harness import condition, message
from tests.e2e.simulation import NAMESPACE, apply, nothing_left, running_as, workload
from tests.federation.cut import (
    BACK_WITHIN,
    DEPLOYMENT,
    MINUTE,
    check_reachable,
    check_runs_on,
    cut_off,
    deployed,
    in_cell,
    uids_in_cell,
)
from tests.federation.stage import stage


@pytest.mark.parametrize(
    "moment",
    [
        0.1,
        0.6,
        pytest.param(1.2, marks=pytest.mark.long),
        pytest.param(2.0, marks=pytest.mark.long),
    ],
)
async def test_a_cut_in_the_middle_of_a_deploy_is_made_up_for(moment: float) -> None:
    async with stage() as on:
        await apply(on, workload("acme/web:1", 5))
        await asyncio.sleep(moment)
        cut_off(on)
        await asyncio.sleep(10 * MINUTE)
        served = {
            name: obj.metadata.uid
            for name, obj in (await in_cell(on)).items()
            if condition(obj, "Ready")[0] == "True"
        }
        on.network.heal()
        await eventually("deployed", lambda: running_as(on, "acme/web:1", 10), within=BACK_WITHIN)
        after = await uids_in_cell(on)
        assert {name: after[name] for name in served} == served, "what served was replaced"
        await check_reachable(on)


async def test_a_workload_made_while_a_city_is_away_says_so_and_comes_there_on_return() -> None:
    async with stage() as on:
        cut_off(on)
        await asyncio.sleep(5 * MINUTE)
        await apply(on, workload("acme/web:1", 2))
        await asyncio.sleep(10 * MINUTE)
        assert await in_cell(on) == {}
        shown = await on.project.get(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, NAMESPACE)
        assert condition(shown, "Available")[0] != "True"
        told = await on.project.get(compute.WORKLOADS, "web", NAMESPACE)
        assert condition(told, "Available")[0] == "True", "the other city serves"
        assert "DFW" in message(told, "Available")

        on.network.heal()

        await eventually("deployed", lambda: running_as(on, "acme/web:1", 4), within=BACK_WITHIN)
        await check_reachable(on)


@pytest.mark.long
async def test_a_workload_made_and_destroyed_while_a_city_is_away_never_comes_there() -> None:
    async with stage() as on:
        cut_off(on)
        await asyncio.sleep(5 * MINUTE)
        await apply(on, workload("acme/web:1", 2))
        await asyncio.sleep(5 * MINUTE)
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        await eventually("destroyed without the city", lambda: nothing_left(on))
        on.network.heal()
        await asyncio.sleep(5 * MINUTE)
        assert await nothing_left(on) == ""


async def test_an_instance_somebody_deletes_in_a_cell_cut_off_is_back_with_its_claim() -> None:
    """Its successor waits at the gate, and takes over the claim that was kept for it."""
    async with stage() as on:
        uids = await deployed(on)
        cut_off(on)
        await asyncio.sleep(MINUTE)
        lost = f"{DEPLOYMENT}-1"
        await on.cell().delete(compute.INSTANCES, lost, on.hub_namespace)
        await asyncio.sleep(10 * MINUTE)
        assert on.witness is not None
        assert len(on.witness.broken) == 1, "that it was deleted, by somebody"
        on.witness.broken.clear()
        kept = {name: uid for name, uid in uids.items() if name != lost}
        await check_runs_on(on, kept)
        waits = (await in_cell(on))[lost]
        assert waits.metadata.uid != uids[lost]
        assert waits.view(compute.Instance).gates == (compute.GATE_QUOTA,)

        on.network.heal()

        await eventually("as before", lambda: running_as(on, "acme/web:1", 4), within=BACK_WITHIN)
        assert await uids_in_cell(on) == {**uids, lost: waits.metadata.uid}
        await check_reachable(on)


@pytest.mark.long
async def test_a_restart_asked_of_a_city_that_is_away_happens_once_on_return() -> None:
    async with stage() as on:
        uids = await deployed(on)
        cut_off(on)
        await asyncio.sleep(5 * MINUTE)
        at = {compute.ANNOTATION_RESTARTED_AT: "2026-01-01T00:05:00Z"}
        body = {"spec": {"template": {"metadata": {"annotations": at}}}}
        await on.project.patch(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, merge(body), NAMESPACE)
        await asyncio.sleep(10 * MINUTE)
        await check_runs_on(on, uids)

        on.network.heal()

        async def restarted() -> str:
            same = set((await uids_in_cell(on)).values()) & set(uids.values())
            return await running_as(on, "acme/web:1", 4) or (f"{same} are left" if same else "")

        await eventually("restarted", restarted, within=BACK_WITHIN)
        after = await uids_in_cell(on)
        await asyncio.sleep(5 * MINUTE)
        assert await uids_in_cell(on) == after, "once"
        await check_reachable(on)
