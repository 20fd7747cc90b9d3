"""Rollouts in waves over a whole federation: in order, with cells that are cut off, late watches
and two writers. The rules of the simulation judge every commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.assembly.local.platform import LocalPlatform, ManagerFactory
from datum_compute.testing import loop
from tests.support.federation.lifecycle import Lifecycle
from tests.support.federation.stage import NAMESPACE, Stage, stage
from tests.support.federation.waves import WaveSteps, waved
from tests.support.objects import condition
from tests.support.simulation.commits import RuleChecker
from tests.support.simulation.rules.waves import WaveRules

GRACE = 5_000
WITHIN = 1200.0


@asynccontextmanager
async def judged(
    usual: type[LocalPlatform] = LocalPlatform, *, permissive: bool = False
) -> AsyncIterator[Stage]:
    rules = RuleChecker([WaveRules()], GRACE)
    async with stage(rule_checker=rules, usual=usual, permissive=permissive) as on:
        yield on
        assert rules.judged > 0
        assert rules.broken == []


def test_a_template_reaches_one_city_after_the_other() -> None:
    async def scene() -> None:
        async with judged() as on:
            await WaveSteps(on, within=WITHIN).roll_one_city_after_the_other()

    loop.run(scene())


def test_a_template_that_fails_in_the_first_city_is_undone() -> None:
    async def scene() -> None:
        async with judged() as on:
            await WaveSteps(on, within=WITHIN).undo_what_the_first_city_cannot_run()

    loop.run(scene())


@pytest.mark.parametrize("city", ["DFW", "LHR"])
def test_a_cell_that_is_cut_off_in_the_middle_delays_the_rollout_and_no_more(city: str) -> None:
    async def scene() -> None:
        async with judged() as on:
            steps = WaveSteps(on, within=WITHIN)
            await steps.deployed(waved(soak="2m", timeout="30m"))
            second = replace(waved(soak="2m", timeout="30m"), image="acme/web:2")
            await steps.steps.change(second)
            await asyncio.sleep(10)  # the first city soaks, for longer than a silence is noticed
            on.platform.partitions.disconnect(city.lower())
            await asyncio.sleep(300)
            found = await on.project.get(compute.WORKLOADS, "web", NAMESPACE)
            assert condition(found, "Progressing")[1] != compute.REASON_COMPLETE
            on.platform.partitions.connect(city.lower())
            await steps.steps.settled(second)

    loop.run(scene())


def test_late_watches_open_no_wave_early() -> None:
    async def scene() -> None:
        async with judged() as on:
            steps = WaveSteps(on, within=WITHIN)
            await steps.deployed(waved())
            for plural in ("workloads", "workloaddeployments"):
                on.network.lags["compute-management", plural] = 4.0
            for number in range(2, 6):
                desired = replace(waved(), image=f"acme/web:{number}")
                await steps.steps.change(desired)
                await asyncio.sleep(3 * number)
            on.network.lags.clear()
            await steps.steps.settled(desired)

    loop.run(scene())


class TwoManagements(LocalPlatform):
    """With a second process of management, which does not know of the first."""

    def controllers(self) -> list[tuple[str, ManagerFactory]]:
        found = super().controllers()
        [(name, build)] = [each for each in found if each[0] == "compute-management"]
        return [*found, (f"{name}-2", build)]


def test_two_writers_end_as_one_does() -> None:
    async def scene() -> None:
        async with judged(TwoManagements, permissive=True) as on:
            steps = WaveSteps(on, within=WITHIN)
            await steps.deployed(waved(onFailure="Undo"))
            await steps.steps.change(replace(waved(onFailure="Undo"), image="acme/web:2"))
            await asyncio.sleep(1)
            last = replace(waved(onFailure="Undo"), image="acme/web:3")
            await steps.steps.change(last)
            await Lifecycle(on, within=WITHIN).settled(last)

    loop.run(scene())
