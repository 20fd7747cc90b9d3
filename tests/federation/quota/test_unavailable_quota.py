"""Unavailable or failing quota changes nothing for running Instances.

Tests of a virtual day run for an hour with the ordinary tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.quota import v1alpha1 as quota
from tests.support.client.intercepted_transport import Rule
from tests.support.federation.budgets import (
    CELL,
    HOUR,
    PROJECT,
    conditions_shown,
    deploy,
    in_cell,
    refuse_kinds,
    serving,
)
from tests.support.federation.stage import Stage, stage
from tests.support.simulation.platform import list_on_planes

LONG = [pytest.mark.long, pytest.mark.timeout(300)]
CLAIMS, BUCKETS = quota.RESOURCE_CLAIMS.plural, quota.ALLOWANCE_BUCKETS.plural


@dataclass(frozen=True)
class Outage:
    name: str
    code: int = 0
    """The status of each response; without one the connection is lost."""
    silent: bool = False
    kinds: Sequence[str] = (CLAIMS, BUCKETS)
    waits: bool = True
    """Whether a new Instance waits at the gate meanwhile."""

    def begin(self, on: Stage, rules: list[Rule]) -> None:
        if self.code:
            rules.append(refuse_kinds(self.code, self.kinds))
        else:
            on.network.partition({CELL}, {PROJECT}, silent=self.silent)


WAYS = [
    Outage("silent", silent=True),
    Outage("refused"),
    Outage("forbidden", 403),
    Outage("broken", 500),
    Outage("buckets forbidden", 403, kinds=(BUCKETS,), waits=False),
    Outage("buckets broken", 500, kinds=(BUCKETS,), waits=False),
]


def shown_for(way: Outage) -> list[object]:
    """Some for an hour with the ordinary tests; all in which an Instance waits, for a day."""
    quick = [] if way.name in ("silent", "forbidden") else LONG
    hour = pytest.param(way, HOUR, id=f"{way.name}-hour", marks=quick)
    day = pytest.param(way, 24 * HOUR, id=f"{way.name}-day", marks=LONG)
    return [hour, day] if way.waits and not quick else [day] if way.waits else [hour]


@pytest.mark.parametrize(("way", "seconds"), [each for way in WAYS for each in shown_for(way)])
async def test_unavailable_quota_changes_no_condition_of_running_instances(
    way: Outage, seconds: float
) -> None:
    rules: list[Rule] = []
    async with stage(cities=("DFW",), wrap=in_cell(rules, plane="project/")) as on:
        await deploy(on, "web", 2)
        await serving(on, "web", 2)
        await asyncio.sleep(60)
        before = await conditions_shown(on, "web")
        assert len(before) == 6
        way.begin(on, rules)
        await deploy(on, "api", 1)
        await asyncio.sleep(seconds)
        assert await conditions_shown(on, "web") == before
        await on.restart(CELL)  # so that its cache has no claim
        await asyncio.sleep(HOUR)
        assert await conditions_shown(on, "web") == before
        [new] = [
            obj
            for obj in await list_on_planes(on, compute.INSTANCES, "cell/dfw")
            if obj.name.startswith("api")
        ]
        gates = (compute.GATE_QUOTA,) if way.waits else ()
        assert new.view(compute.Instance).gates == gates
        on.network.heal()
        rules.clear()
        await serving(on, "api", 1, within=310)
        assert await conditions_shown(on, "web") == before
