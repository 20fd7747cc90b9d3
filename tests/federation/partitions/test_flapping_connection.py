"""A connection that breaks again and again causes no writes and no replacements."""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.runtime.tasks import TaskGroup
from datum_compute.testing.expectations import eventually
from tests.support.federation.partitions import (
    HOUR,
    MINUTE,
    check_reachable,
    check_still_runs,
    cut_off,
    deployed,
    uids_in_cell,
)
from tests.support.federation.stage import Stage, stage
from tests.support.simulation.platform import apply, missing_for_image, workload


async def flap(on: Stage, seconds: float, *, away: float, every: float, silent: bool) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while loop.time() < until:
        cut_off(on, silent=silent)
        await asyncio.sleep(away)
        on.network.heal()
        await asyncio.sleep(every - away)


@pytest.mark.parametrize(
    ("seconds", "away", "every", "silent"),
    [
        (5 * MINUTE, 2.0, 10.0, False),
        pytest.param(HOUR, 2.0, 10.0, False, marks=pytest.mark.long),
        pytest.param(HOUR, 2.0, 10.0, True, marks=pytest.mark.long),
        pytest.param(HOUR, 9.0, 10.0, False, marks=pytest.mark.long),
    ],
)
async def test_a_flapping_connection_writes_nothing_and_replaces_nothing(
    seconds: float, away: float, every: float, silent: bool
) -> None:
    async with stage() as on:
        uids = await deployed(on)
        await asyncio.sleep(MINUTE)
        before = on.writes()
        await flap(on, seconds, away=away, every=every, silent=silent)
        await check_still_runs(on, uids)
        assert await uids_in_cell(on) == uids
        written = {
            kind: count - before.get(kind, 0)
            for kind, count in on.writes().items()
            if count != before.get(kind, 0)
        }
        assert written == {}, "nothing has changed, so there is nothing to write"


@pytest.mark.long
async def test_a_connection_that_breaks_twice_a_second_causes_at_most_one_write_a_minute() -> None:
    """A probe may fail often enough for a change of the condition, which is the only write."""
    async with stage() as on:
        uids = await deployed(on)
        await asyncio.sleep(MINUTE)
        before = sum(on.writes().values())
        await flap(on, HOUR, away=0.1, every=0.5, silent=False)
        await check_still_runs(on, uids)
        assert sum(on.writes().values()) - before <= 60, "once a minute at the most"


@pytest.mark.parametrize(
    ("silent", "within"), [(False, 2 * MINUTE), pytest.param(True, HOUR, marks=pytest.mark.long)]
)
async def test_changes_get_through_a_flapping_connection(silent: bool, within: float) -> None:
    """They may be late, after calls that time out, but nothing is replaced twice."""
    async with stage() as on:
        await deployed(on)
        async with TaskGroup("flapping") as tasks:
            line = tasks.start(flap(on, 2 * HOUR, away=2.0, every=10.0, silent=silent), name="line")
            await asyncio.sleep(MINUTE)
            await apply(on, workload("acme/web:2", 3))
            await eventually(
                "rolled", lambda: missing_for_image(on, "acme/web:2", 6), within=within
            )
            await tasks.stop(line)
        on.network.heal()
        actions = await instance_actions(on)
        assert actions["create"] == 2 + 2 + 1 + 2 + 2 + 1, "two cities: at first, rolled, one more"
        await check_reachable(on)


async def instance_actions(on: Stage) -> dict[str, float]:
    text = (await on.client("root").raw("/metrics")).decode()
    found: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("compute_instance_actions_total{"):
            labels, _, count = line.partition("} ")
            found[labels.partition('action="')[2].partition('"')[0]] = float(count)
    return found
