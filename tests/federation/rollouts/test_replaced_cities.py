"""One change removes a city and adds another: something serves at every moment."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import merge
from datum_compute.testing.expectations import eventually
from tests.support.simulation.commit_checker import CommitChecker
from tests.support.simulation.platform import NAMESPACE, PlatformRun
from tests.support.simulation.random_operations import DesiredWorkload, Step, perform
from tests.support.simulation.settled import unsettled

WEB = DesiredWorkload("web", "acme/web:1", 2, ("DFW",))
MOVED = replace(WEB, cities=("LHR",), image="acme/web:2", start_seconds="20")


async def ready_cities(platform: PlatformRun) -> set[str]:
    found = await platform.project.list(compute.WORKLOAD_DEPLOYMENTS, NAMESPACE)
    views = [each.view(compute.WorkloadDeployment) for each in found.items]
    return {
        each.spec.city_code
        for each in views
        if conditions.is_true(each.status.conditions, compute.CONDITION_AVAILABLE)
        and not each.metadata.deleting
    }


async def missing(platform: PlatformRun, *cities: str) -> str:
    found = await ready_cities(platform)
    return "" if found == {*cities} else f"ready in {sorted(found)}"


async def settle_in(platform: PlatformRun, desired: DesiredWorkload) -> None:
    await eventually("settled", lambda: unsettled(platform, {"web": desired}), within=300)


async def want(platform: PlatformRun, desired: DesiredWorkload) -> None:
    await perform(platform, Step(0.0, "apply", desired))


def run(tmp_path: Path, scenario: object, seed: int = 1) -> None:
    checker = CommitChecker()
    assert PlatformRun(seed, tmp_path / "state.db", commit_checker=checker).run(scenario)  # type: ignore[arg-type]
    assert checker.broken == []


@pytest.mark.parametrize("seed", range(3))
def test_a_workload_that_moves_serves_at_every_moment(seed: int, tmp_path: Path) -> None:
    async def scenario(platform: PlatformRun) -> None:
        await want(platform, WEB)
        await settle_in(platform, WEB)
        await want(platform, MOVED)
        for _ in range(600):
            await asyncio.sleep(0.1)
            assert await ready_cities(platform)
        await settle_in(platform, MOVED)

    run(tmp_path, scenario, seed)


def test_a_change_in_between_does_not_end_the_wait(tmp_path: Path) -> None:
    async def scenario(platform: PlatformRun) -> None:
        await want(platform, WEB)
        await settle_in(platform, WEB)
        await want(platform, replace(MOVED, fail="ImageUnavailable"))
        await asyncio.sleep(30)
        await want(platform, replace(MOVED, fail="ImageUnavailable", minimum=3))
        await asyncio.sleep(120)
        assert await missing(platform, "DFW") == ""
        await want(platform, MOVED)
        await settle_in(platform, MOVED)

    run(tmp_path, scenario)


def test_a_city_that_waits_for_its_replacement_can_be_removed_all_the_same(tmp_path: Path) -> None:
    """By a change that only removes, after one that puts it back."""
    failing = replace(MOVED, fail="ImageUnavailable")

    async def scenario(platform: PlatformRun) -> None:
        await want(platform, WEB)
        await settle_in(platform, WEB)
        await want(platform, failing)
        await asyncio.sleep(60)
        assert await missing(platform, "DFW") == ""
        await want(platform, replace(failing, cities=("DFW", "LHR")))
        await asyncio.sleep(10)
        await want(platform, failing)
        await eventually("removed", lambda: missing(platform), within=120)

    run(tmp_path, scenario)


def test_deleting_the_workload_waits_for_no_replacement(tmp_path: Path) -> None:
    async def scenario(platform: PlatformRun) -> None:
        await want(platform, WEB)
        await settle_in(platform, WEB)
        await want(platform, replace(MOVED, fail="ImageUnavailable"))
        await asyncio.sleep(30)
        await platform.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        await eventually("gone", lambda: unsettled(platform, {}), within=120)

    run(tmp_path, scenario)


def test_a_record_that_another_writer_sets_is_taken_off_what_is_wanted(tmp_path: Path) -> None:
    async def scenario(platform: PlatformRun) -> None:
        await want(platform, WEB)
        await settle_in(platform, WEB)
        record = {compute.ANNOTATION_REPLACED_BY: "default/LHR"}
        [found] = (await platform.project.list(compute.WORKLOAD_DEPLOYMENTS, NAMESPACE)).items
        body = merge({"metadata": {"annotations": record}})
        await platform.project.patch(compute.WORKLOAD_DEPLOYMENTS, found.name, body, NAMESPACE)

        async def is_there() -> str:
            [now] = (await platform.project.list(compute.WORKLOAD_DEPLOYMENTS, NAMESPACE)).items
            return "still there" if record.keys() & now.metadata.annotations.keys() else ""

        await eventually("taken off", is_there, within=30)

    run(tmp_path, scenario)
