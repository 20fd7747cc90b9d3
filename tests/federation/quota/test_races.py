"""Many Instances compete for few slots: as many start, and no claim is lost or left over."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.assembly.local import bootstrap
from datum_compute.client.transport import HttpRequest
from datum_compute.testing.expectations import eventually
from tests.support.federation import crash_scenarios
from tests.support.federation.budgets import HOUR, SIZE, check_claims_match_buckets, deploy, ready
from tests.support.federation.crashes import UNDISTURBED, Crash, ProcessKiller
from tests.support.federation.stage import NAMESPACE, Stage, stage
from tests.support.simulation.platform import cell_planes, leftovers, list_on_planes


@dataclass(frozen=True)
class Race:
    racers: int
    slots: int
    cities: tuple[str, ...] = ("DFW", "LHR")

    async def start(self, on: Stage) -> None:
        for number in range(self.racers // len(self.cities)):
            await deploy(on, f"racer{number}", 1, cities=self.cities)

    async def missing(self, on: Stage) -> str:
        found = await list_on_planes(on, compute.INSTANCES, *cell_planes(on))
        if len(found) != self.racers:
            return f"{len(found)} Instances"
        return await check_claims_match_buckets(on, self.slots)

    async def is_won(self, on: Stage) -> None:
        await eventually("as many won as there are slots", lambda: self.missing(on), within=900)
        await asyncio.sleep(600)
        assert await self.missing(on) == ""

    async def finish(self, on: Stage) -> None:
        """Denied Instances start as slots become free; at the end no claim is left."""
        assert on.commit_checker is not None
        assert on.commit_checker.broken == []
        serve = {name.partition("-")[0] for name in await ready(on, "", *cell_planes(on))}
        for name in sorted(serve)[:3]:
            await on.project.delete(compute.WORKLOADS, name, NAMESPACE)
        await asyncio.sleep(120)
        left = len(await list_on_planes(on, compute.INSTANCES, *cell_planes(on)))
        assert left < self.racers
        assert await check_claims_match_buckets(on, min(left, self.slots)) == ""
        for obj in (await on.project.list(compute.WORKLOADS)).items:
            await on.project.delete(compute.WORKLOADS, obj.name, NAMESPACE)
        await eventually("nothing is left", lambda: leftovers(on), within=900)
        assert await check_claims_match_buckets(on, 0) == ""
        assert on.commit_checker.broken == []


FIFTY = Race(50, 10)
SMALL = Race(4, 2)


@pytest.mark.parametrize("race", [Race(16, 4), pytest.param(FIFTY, marks=pytest.mark.long)])
async def test_as_many_instances_start_as_there_are_slots(race: Race) -> None:
    async with stage(grant={"instances": race.slots}) as on:
        await race.start(on)
        await race.is_won(on)
        before = on.writes()
        await asyncio.sleep(HOUR)
        assert on.writes() == before
        await race.finish(on)


CRASHING = ("compute-cell-dfw", "compute-cell-lhr", "standin-quota", "compute-management")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 7))
async def test_ten_instances_get_quota_whichever_process_crashes(seed: int) -> None:
    async with stage(grant={"instances": FIFTY.slots}, seed=seed) as on:
        chance = Random(seed)
        await FIFTY.start(on)
        for _ in range(chance.randint(1, 5)):
            await asyncio.sleep(chance.choice((0.0, 0.02, 0.1, 0.5, 2.0)))
            process = on.parts[chance.choice(CRASHING)].process
            process.crash(chance.choice((0.0, 1.0, 20.0)))
        await FIFTY.is_won(on)
        await FIFTY.finish(on)


# A crash at any write that concerns quota.


def concerns_quota(request: HttpRequest) -> bool:
    about = (quota.RESOURCE_CLAIMS, quota.ALLOWANCE_BUCKETS, compute.INSTANCES)
    return any(each.plural in request.path.split("/") for each in about)


async def run_with(race: Race, crash: Crash, *, seed: int = 0) -> ProcessKiller:
    killer = ProcessKiller(crash, concerns_quota)
    async with stage(grant={"instances": race.slots}, wrap=killer.wrap, seed=seed) as on:
        killer.on, killer.armed = on, True
        await race.start(on)
        await race.is_won(on)
        killer.armed = False
        await race.finish(on)
    return killer


BLOCKS = 4
"""Into which the writes of a race are divided, for tests that run side by side."""


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("block", range(BLOCKS))
async def test_as_many_instances_get_quota_after_a_crash_at_any_quota_write(block: int) -> None:
    """Of Instances, claims and buckets, by any process; four Instances compete for two slots."""
    total = (await run_with(SMALL, UNDISTURBED)).writes
    assert total > 40
    for write in range(1 + block, total + 1, BLOCKS):
        killer = await run_with(SMALL, Crash(write))
        assert len(killer.victims) == 1, write


FIFTY_WRITES = 600
"""About how many there are in the long race."""


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(6))
async def test_ten_of_fifty_instances_get_quota_after_a_crash_at_a_sixth_of_their_writes(
    part: int,
) -> None:
    """In two of three cases another crash follows a few writes later."""
    write = 1 + part * (FIFTY_WRITES // 6)
    killer = await run_with(FIFTY, Crash(write, again=part % 3 * 7), seed=part)
    assert killer.victims, "it is over before"


# Resources other than Instances.


@pytest.mark.parametrize("scarce", ["vcpus", "memory"])
async def test_a_partly_denied_claim_releases_what_was_granted(scarce: str) -> None:
    """Each bucket decides alone: a claim that was granted its Instance and denied its memory
    holds the former until it is released."""
    race = Race(16, 4)
    amount = race.slots * SIZE[scarce] + SIZE[scarce] // 2
    async with stage(grant={scarce: amount}) as on:
        await race.start(on)
        await race.is_won(on)
        before = on.writes()
        await asyncio.sleep(HOUR)
        assert on.writes() == before
        await race.finish(on)


# Three cells and two projects, each with its own limit.

CITIES = ("DFW", "LHR", "SIN")


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(each, marks=pytest.mark.long) for each in range(1, 7))]
)
async def test_two_projects_in_three_cells_each_get_their_own_quota(seed: int) -> None:
    """Processes crash meanwhile, except in seed 0."""
    mine, theirs = Race(12, 4, CITIES), Race(15, 10, CITIES)
    async with stage(cities=CITIES, grant={"instances": mine.slots}, seed=seed) as every:
        await crash_scenarios.create_project(every)
        demo, acme = await every.of_project("demo"), await every.of_project("acme")
        await bootstrap.ensure_project(acme.project, acme.env, acme.settings)
        await set_first_grant(acme, theirs.slots)
        chance = Random(seed)
        await mine.start(demo)
        await theirs.start(acme)
        for _ in range(chance.randint(2, 6) if seed else 0):
            await asyncio.sleep(chance.choice((0.0, 0.02, 0.1, 0.5, 2.0)))
            process = every.parts[chance.choice(sorted(every.parts))].process
            process.crash(chance.choice((0.0, 1.0, 20.0)))
        await mine.is_won(demo)
        await theirs.is_won(acme)
        await mine.finish(demo)
        await theirs.finish(acme)


async def set_first_grant(acme: Stage, slots: int) -> None:
    """Remove the grant that the platform's own project gets besides."""
    await acme.project.delete(quota.RESOURCE_GRANTS, "local-default", "milo-system")
    for obj in (await acme.project.list(quota.RESOURCE_GRANTS)).items:
        assert f'"amount":{slots}' in bytes(obj.spec).decode().replace(" ", "")
    await asyncio.sleep(5)
