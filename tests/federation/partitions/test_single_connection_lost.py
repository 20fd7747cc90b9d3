"""One line of a cell breaks and the others hold, in one direction or in both.

What depends on the broken line waits; what runs, runs; and everybody tells what they know.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.testing.expectations import eventually
from datum_compute.testing.network import Direction
from tests.support.controllers.planes import condition, message
from tests.support.federation.partitions import (
    DEPLOYMENT,
    MANAGER,
    MINUTE,
    PROJECT,
    RECONNECTED_WITHIN,
    cell_deployment,
    check_reachable,
    check_still_runs,
    deployed,
    errors_of,
    in_cell,
    reconnect,
    uids_in_cell,
)
from tests.support.federation.stage import Stage, stage
from tests.support.simulation.platform import (
    NAMESPACE,
    apply,
    leftovers,
    list_on_planes,
    missing_for_image,
    workload,
)


@dataclass(frozen=True)
class Line:
    caller: str
    plane: str
    holds_rolls: bool = False
    """Whether the cell replaces nothing while it is broken."""
    starts_new: bool = False
    """Whether a further Instance that is wanted comes to run meanwhile."""
    is_reported: bool = False
    """Whether the project says that the cell is not reachable."""

    def cut(self, on: Stage, **more: Any) -> None:
        on.network.partition(self.caller, self.plane, **more)


TO_HUB = Line(MANAGER, "hub", holds_rolls=True, starts_new=True)
TO_PROJECT = Line(MANAGER, PROJECT, holds_rolls=True)
PROPAGATION = Line("standin-propagation", "cell/dfw", is_reported=True)

LINES = {"to-hub": TO_HUB, "to-project": TO_PROJECT, "propagation": PROPAGATION}
WAYS: dict[str, dict[str, Any]] = {
    "refused": {"silent": False},
    "silent": {"silent": True},
    "requests-lost": {"silent": True, "direction": Direction.THERE},
    "replies-lost": {"silent": True, "direction": Direction.BACK},
}
QUICK = {("to-hub", "refused"), ("to-project", "refused"), ("propagation", "replies-lost")}
CASES = [
    pytest.param(
        line, way, id=f"{name}-{how}", marks=() if (name, how) in QUICK else pytest.mark.long
    )
    for name, line in LINES.items()
    for how, way in WAYS.items()
]


@pytest.mark.parametrize(("line", "way"), CASES)
async def test_one_connection_breaks_and_only_its_dependents_wait(
    line: Line, way: dict[str, Any]
) -> None:
    async with stage() as on:
        uids = await deployed(on)
        line.cut(on, **way)
        # A watch that fell silent is believed until its time is up.
        await asyncio.sleep(11 * MINUTE)
        before = await errors_of(on)
        await apply(on, workload("acme/web:2", 3))
        await asyncio.sleep(10 * MINUTE)

        await check_still_runs(on, uids)
        reported = await cell_deployment(on)
        assert ("CellDisconnected" in message(reported, "ReplicasReady")) is line.holds_rolls
        assert await serving(on) == 2 + line.starts_new
        shown = await on.project.get(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, NAMESPACE)
        assert condition(shown, "CellReachable")[0] == ("False" if line.is_reported else "True")
        assert condition(shown, "Available")[0] == "True"
        if not line.is_reported:
            # Karmada still carries the report, and the project shows why nothing moves.
            assert "CellDisconnected" in message(shown, "ReplicasReady")
        assert await errors_of(on) == before, "a pass failed because a plane is away"

        await reconnect(on, on.network.heal)


async def serving(on: Stage) -> int:
    found = await in_cell(on)
    return sum(condition(obj, "Ready") == ("True", "Available") for obj in found.values())


@pytest.mark.parametrize(
    ("line", "way"),
    [
        pytest.param(
            line, way, id=f"{name}-{how}", marks=() if how == "refused" else pytest.mark.long
        )
        for name, line in (("to-hub", TO_HUB), ("to-project", TO_PROJECT))
        for how, way in WAYS.items()
    ],
)
async def test_scale_down_and_deletion_work_although_one_connection_is_broken(
    line: Line, way: dict[str, Any]
) -> None:
    """Orders arrive, Instances go, and what could not be given back is, on contact."""
    async with stage() as on:
        kept = f"{DEPLOYMENT}-0"
        uids = await deployed(on)
        line.cut(on, **way)
        await asyncio.sleep(MINUTE)
        before = await errors_of(on)
        await apply(on, workload("acme/web:1", 1))

        async def scaled() -> str:
            found = list(await in_cell(on))
            return "" if found == [kept] else f"there are {found}"

        await eventually("scaled down", scaled, within=RECONNECTED_WITHIN)
        assert await uids_in_cell(on) == {kept: uids[kept]}
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)

        async def emptied() -> str:
            found = await list_on_planes(
                on, compute.WORKLOAD_DEPLOYMENTS, "cell/dfw", "hub", PROJECT
            )
            return f"{found[0]!r} is left" if found else ""

        await eventually("destroyed", emptied)
        assert await errors_of(on) == before, "a pass failed because a plane is away"

        on.network.heal()

        await eventually("given back", lambda: leftovers(on), within=RECONNECTED_WITHIN)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(TO_HUB, id="to-hub", marks=pytest.mark.long),
        pytest.param(TO_PROJECT, id="to-project"),
    ],
)
async def test_a_connection_that_breaks_during_a_roll_stops_the_roll(line: Line) -> None:
    """What was taken down for it comes back where it may, and nothing further goes."""
    async with stage() as on:
        await apply(on, workload("acme/web:1", 3))
        await eventually("deployed", lambda: missing_for_image(on, "acme/web:1", 6))
        before = await uids_in_cell(on)
        await apply(on, workload("acme/web:2", 3))

        async def begun() -> str:
            return "" if await uids_in_cell(on) != before else "nothing is replaced yet"

        await eventually("the roll has begun", begun, every=0.05)
        line.cut(on, silent=False)
        at_cut = await uids_in_cell(on)
        await asyncio.sleep(10 * MINUTE)
        after = await uids_in_cell(on)
        kept = {name: uid for name, uid in at_cut.items() if before.get(name) == uid}
        gone = [name for name, uid in kept.items() if after.get(name) != uid]
        assert len(gone) <= 1, "at most the one whose end was ordered already"
        assert await serving(on) >= 2

        on.network.heal()
        await eventually(
            "rolled", lambda: missing_for_image(on, "acme/web:2", 6), within=RECONNECTED_WITHIN
        )
        await check_reachable(on)
