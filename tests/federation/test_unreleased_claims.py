"""Claims that a cell could not release are released by its next manager.

Instances deleted while a project is unreachable leave their claims in it. When the last
deployment of that project is gone from the cell as well, only its namespace is left there:
that is enough to release the claims, also after a change of the leader.
"""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.testing.expectations import eventually
from tests.support.federation.stage import Stage, stage
from tests.support.simulation.platform import (
    NAMESPACE,
    apply,
    leftovers,
    list_on_planes,
    missing_for_image,
    workload,
)

MINUTE = 60.0
BACK_WITHIN = 60.0
MANAGER = "compute-cell-dfw"
PROJECT = "project/demo"


async def deployed(on: Stage) -> None:
    await apply(on, workload("acme/web:1", 2, ("DFW",)))
    await eventually("deployed", lambda: missing_for_image(on, "acme/web:1", 2))


async def emptied(on: Stage) -> str:
    """What is left in the cell of the project's deployments, or nothing."""
    for kind in (compute.WORKLOAD_DEPLOYMENTS, compute.INSTANCES):
        for obj in await list_on_planes(on, kind, "cell/dfw"):
            return f"{obj!r} is left"
    return ""


async def claims(on: Stage) -> list[str]:
    return [obj.name for obj in (await on.project.list(quota.RESOURCE_CLAIMS)).items]


@pytest.mark.parametrize("silent", [False, True], ids=["refused", "silent"])
async def test_unreleased_claims_of_an_unreachable_project_are_released_by_the_next_manager(
    silent: bool,
) -> None:
    """The hub answers, the project does not: the workload is destroyed, the claims stay."""
    async with stage(cities=("DFW",)) as on:
        await deployed(on)
        on.network.partition(MANAGER, PROJECT, silent=silent)
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        await eventually("gone from the cell", lambda: emptied(on))
        await on.restart(MANAGER)
        await asyncio.sleep(10 * MINUTE)
        assert len(await claims(on)) == 2, "the project was unreachable"

        on.network.heal()

        await eventually("released", lambda: leftovers(on), within=BACK_WITHIN)


@pytest.mark.parametrize(
    "silent",
    [pytest.param(False, id="refused"), pytest.param(True, id="silent", marks=pytest.mark.long)],
)
async def test_quota_of_instances_removed_during_a_partition_is_released_by_the_next_manager(
    silent: bool,
) -> None:
    """An operator cleared the cell and a user destroyed the workload, independently."""
    async with stage(cities=("DFW",)) as on:
        await deployed(on)
        within = {MANAGER, "provider-dfw", "cell/dfw", "standin-network"}
        beyond = {"root", "hub", PROJECT, *(set(on.parts) - within)}
        on.network.partition(within, beyond, silent=silent)
        await asyncio.sleep(MINUTE)
        [found] = await list_on_planes(on, compute.WORKLOAD_DEPLOYMENTS, "cell/dfw")
        await on.cell().delete(compute.WORKLOAD_DEPLOYMENTS, found.name, found.namespace)
        await eventually("gone from the cell", lambda: emptied(on))
        await on.restart(MANAGER)
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        await asyncio.sleep(10 * MINUTE)
        assert len(await claims(on)) == 2, "the project was unreachable"

        on.network.heal()

        await eventually("released", lambda: leftovers(on), within=BACK_WITHIN)
