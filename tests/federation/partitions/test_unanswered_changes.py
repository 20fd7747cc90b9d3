"""A cell's API server hangs, and a change that was sent to it is lost.

Karmada counts a write that is not answered in time as applied, and does not repeat it. Only the
missing report of the cell shows it.
"""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.testing.expectations import eventually
from tests.support.federation import data
from tests.support.federation.partitions import DEPLOYMENT, MINUTE, deployed, uids_in_cell
from tests.support.federation.stage import Stage, stage
from tests.support.objects import condition
from tests.support.simulation.platform import NAMESPACE, apply, missing_for_image, workload

UNNOTICED, NOTICED = 20.0, 2 * MINUTE
"""Seconds of silence after which Karmada does not, and does, count the cell as not ready."""


def hang(on: Stage) -> None:
    """Karmada gets no answer from the cell; the cell and its manager work."""
    on.network.partition({"standin-propagation"}, {"cell/dfw"}, silent=True)


async def propagated(on: Stage) -> tuple[str, str]:
    found = await on.project.get(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, NAMESPACE)
    return condition(found, compute.CONDITION_PROPAGATED)


async def warnings(on: Stage) -> int:
    """How many Events say that the cell does not take a change."""
    events = (await on.project.list(core.EVENTS, NAMESPACE)).items
    return sum(b"CellBehind" in each.to_wire() for each in events)


@pytest.mark.parametrize("seconds", [UNNOTICED, NOTICED])
async def test_a_change_that_was_lost_is_reported_and_sent_again(seconds: float) -> None:
    async with stage() as on:
        before = await deployed(on)
        hang(on)
        await apply(on, workload("acme/web:1", 3))
        await asyncio.sleep(seconds)
        on.network.heal()
        await eventually(
            "three in each city",
            lambda: missing_for_image(on, "acme/web:1", 6),
            within=2 * MINUTE,
        )
        assert await warnings(on) == 1
        assert before.items() <= (await uids_in_cell(on)).items(), "those that ran, run"
        await asyncio.sleep(MINUTE)
        assert await propagated(on) == ("", "")
        written = on.writes()
        await asyncio.sleep(60 * MINUTE)
        assert on.writes() == written


async def test_a_deployment_whose_namespace_was_lost_too_is_sent_again() -> None:
    async with stage() as on:
        hang(on)
        await apply(on, workload("acme/web:1", 2))
        await asyncio.sleep(UNNOTICED)
        on.network.heal()
        await eventually(
            "two in each city", lambda: missing_for_image(on, "acme/web:1", 4), within=2 * MINUTE
        )
        assert await propagated(on) == ("", "")


@pytest.mark.parametrize("seconds", [UNNOTICED, NOTICED])
async def test_data_that_was_created_meanwhile_arrives(seconds: float) -> None:
    async with stage() as on:
        await on.project.create(core.CONFIG_MAPS, data.config_map(), NAMESPACE)
        await data.deploy(on, data.named())
        await data.until_deployment(on, compute.REASON_SOURCE_NOT_FOUND)
        hang(on)
        await on.project.create(core.SECRETS, data.secret(), NAMESPACE)
        await asyncio.sleep(seconds)
        on.network.heal()
        await asyncio.sleep(MINUTE)
        await data.until_running(on, "DFW")
        await data.until_deployment(on, compute.REASON_DATA_READY)
        await asyncio.sleep(MINUTE)
        written = on.writes()
        await asyncio.sleep(60 * MINUTE)
        assert on.writes() == written
