"""One connection of a cell is lost, in one direction or in both, and the others hold.

What depends on the lost connection waits; running Instances run; the project reports what is
known.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.testing.expectations import eventually
from datum_compute.testing.network import Direction
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
from tests.support.objects import condition, message
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
    """Whether a further desired Instance starts meanwhile."""
    is_reported: bool = False
    """Whether the project reports the cell as unreachable."""

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
async def test_a_lost_connection_delays_only_what_depends_on_it(
    line: Line, way: dict[str, Any]
) -> None:
    async with stage() as on:
        uids = await deployed(on)
        line.cut(on, **way)
        # A silent watch counts as open until it times out.
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
            # Karmada still carries the report, and the project shows why the roll is held.
            assert "CellDisconnected" in message(shown, "ReplicasReady")
        assert await errors_of(on) == before, "a reconcile failed because a plane is unreachable"

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
async def test_scale_down_and_deletion_work_while_one_connection_is_lost(
    line: Line, way: dict[str, Any]
) -> None:
    """Instances are deleted, and what could not be released is swept on reconnect."""
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
        assert await errors_of(on) == before, "a reconcile failed because a plane is unreachable"

        on.network.heal()

        await eventually("released", lambda: leftovers(on), within=RECONNECTED_WITHIN)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(TO_HUB, id="to-hub", marks=pytest.mark.long),
        pytest.param(TO_PROJECT, id="to-project"),
    ],
)
async def test_a_connection_lost_during_a_roll_holds_the_roll(line: Line) -> None:
    """A deleted Instance is replaced where possible, and no further one is deleted."""
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
