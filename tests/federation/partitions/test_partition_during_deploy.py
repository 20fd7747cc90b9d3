"""A cell that is disconnected during a deployment, or before it."""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import merge
from datum_compute.testing.expectations import eventually
from tests.support.federation.partitions import (
    DEPLOYMENT,
    MINUTE,
    RECONNECTED_WITHIN,
    check_reachable,
    check_still_runs,
    cut_off,
    deployed,
    in_cell,
    uids_in_cell,
)
from tests.support.federation.stage import stage
from tests.support.objects import condition, message
from tests.support.simulation.platform import (
    NAMESPACE,
    apply,
    leftovers,
    missing_for_image,
    workload,
)


@pytest.mark.parametrize(
    "moment",
    [
        0.1,
        0.6,
        pytest.param(1.2, marks=pytest.mark.long),
        pytest.param(2.0, marks=pytest.mark.long),
    ],
)
async def test_a_deploy_interrupted_by_a_partition_is_completed_later(moment: float) -> None:
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
        await eventually(
            "deployed", lambda: missing_for_image(on, "acme/web:1", 10), within=RECONNECTED_WITHIN
        )
        after = await uids_in_cell(on)
        assert {name: after[name] for name in served} == served, "what served was replaced"
        await check_reachable(on)


async def test_a_workload_created_while_a_city_is_unreachable_runs_there_on_reconnect() -> None:
    async with stage() as on:
        cut_off(on)
        await asyncio.sleep(5 * MINUTE)
        await apply(on, workload("acme/web:1", 2))
        await asyncio.sleep(10 * MINUTE)
        assert await in_cell(on) == {}
        shown = await on.project.get(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, NAMESPACE)
        assert condition(shown, "Available")[0] != "True"
        reported = await on.project.get(compute.WORKLOADS, "web", NAMESPACE)
        assert condition(reported, "Available")[0] == "True", "the other city serves"
        assert "DFW" in message(reported, "Available")

        on.network.heal()

        await eventually(
            "deployed", lambda: missing_for_image(on, "acme/web:1", 4), within=RECONNECTED_WITHIN
        )
        await check_reachable(on)


@pytest.mark.long
async def test_a_workload_created_and_destroyed_while_a_city_is_unreachable_never_runs_there() -> (
    None
):
    async with stage() as on:
        cut_off(on)
        await asyncio.sleep(5 * MINUTE)
        await apply(on, workload("acme/web:1", 2))
        await asyncio.sleep(5 * MINUTE)
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        await eventually("destroyed without the city", lambda: leftovers(on))
        on.network.heal()
        await asyncio.sleep(5 * MINUTE)
        assert await leftovers(on) == ""


async def test_an_instance_deleted_by_hand_in_a_partition_is_replaced_with_its_claim() -> None:
    """Its successor waits at the gate, and takes over the claim that was kept for it."""
    async with stage() as on:
        uids = await deployed(on)
        cut_off(on)
        await asyncio.sleep(MINUTE)
        lost = f"{DEPLOYMENT}-1"
        await on.cell().delete(compute.INSTANCES, lost, on.hub_namespace)
        await asyncio.sleep(10 * MINUTE)
        assert on.commit_checker is not None
        assert len(on.commit_checker.broken) == 1, "only the deletion by hand"
        on.commit_checker.broken.clear()
        kept = {name: uid for name, uid in uids.items() if name != lost}
        await check_still_runs(on, kept)
        waits = (await in_cell(on))[lost]
        assert waits.metadata.uid != uids[lost]
        assert waits.view(compute.Instance).gates == (compute.GATE_QUOTA,)

        on.network.heal()

        await eventually(
            "as before", lambda: missing_for_image(on, "acme/web:1", 4), within=RECONNECTED_WITHIN
        )
        assert await uids_in_cell(on) == {**uids, lost: waits.metadata.uid}
        await check_reachable(on)


@pytest.mark.long
async def test_a_restart_of_an_unreachable_city_happens_once_on_reconnect() -> None:
    async with stage() as on:
        uids = await deployed(on)
        cut_off(on)
        await asyncio.sleep(5 * MINUTE)
        at = {compute.ANNOTATION_RESTARTED_AT: "2026-01-01T00:05:00Z"}
        body = {"spec": {"template": {"metadata": {"annotations": at}}}}
        await on.project.patch(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, merge(body), NAMESPACE)
        await asyncio.sleep(10 * MINUTE)
        await check_still_runs(on, uids)

        on.network.heal()

        async def restarted() -> str:
            same = set((await uids_in_cell(on)).values()) & set(uids.values())
            return await missing_for_image(on, "acme/web:1", 4) or (
                f"{same} are left" if same else ""
            )

        await eventually("restarted", restarted, within=RECONNECTED_WITHIN)
        after = await uids_in_cell(on)
        await asyncio.sleep(5 * MINUTE)
        assert await uids_in_cell(on) == after, "once"
        await check_reachable(on)
