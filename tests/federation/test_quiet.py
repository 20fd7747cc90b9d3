"""A settled platform writes nothing but leases, in any state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.assembly.local.state import DEFAULT_GRANT, LocalSettings
from datum_compute.client.protocol import merge
from datum_compute.providers.simulated.behaviour import (
    CRASH_AFTER_SECONDS,
    FAIL,
    SLEEP_AFTER_SECONDS,
)
from tests.support.federation import crash_scenarios
from tests.support.federation.crashes import Scenario as CrashScenario
from tests.support.federation.crashes import ScenarioRunner
from tests.support.federation.stage import SETTLED_AFTER_SECONDS
from tests.support.federation.steady_states import STEADY_STATES, SteadyState
from tests.support.simulation.commit_checker import EXPIRED_EVENTS, CommitChecker
from tests.support.simulation.platform import NAMESPACE, PlatformRun, apply, workload

HOUR = 3600.0
Act = Callable[[PlatformRun], Awaitable[None]]


def desired(image: str, minimum: int) -> dict[str, Any]:
    return workload(image, minimum, ("DFW",))


def annotated(**annotations: str) -> dict[str, Any]:
    body = desired("acme/web:1", 2)
    body["spec"]["template"]["metadata"] = {"annotations": annotations}
    return body


async def nothing(platform: PlatformRun) -> None:
    """A platform without workloads."""


async def serving(platform: PlatformRun) -> None:
    await apply(platform, desired("acme/web:1", 2))


async def denied(platform: PlatformRun) -> None:
    await apply(platform, desired("acme/web:1", 3))


async def failing_image(platform: PlatformRun) -> None:
    await apply(platform, annotated(**{FAIL: "ImageUnavailable"}))


async def crashing(platform: PlatformRun) -> None:
    await apply(platform, annotated(**{CRASH_AFTER_SECONDS: "30"}))


async def asleep(platform: PlatformRun) -> None:
    await apply(platform, annotated(**{SLEEP_AFTER_SECONDS: "30"}))


async def rolled(platform: PlatformRun) -> None:
    await apply(platform, desired("acme/web:1", 2))
    await asyncio.sleep(30)
    await apply(platform, desired("acme/web:2", 2))


async def stopped(platform: PlatformRun) -> None:
    await apply(platform, desired("acme/web:1", 2))
    await asyncio.sleep(30)
    body = merge({"metadata": {"annotations": {compute.ANNOTATION_SUSPENDED: "true"}}})
    await platform.project.patch(compute.WORKLOADS, "web", body, NAMESPACE)


async def destroyed(platform: PlatformRun) -> None:
    await apply(platform, desired("acme/web:1", 2))
    await asyncio.sleep(30)
    await platform.project.delete(compute.WORKLOADS, "web", NAMESPACE)


async def cut_off(platform: PlatformRun) -> None:
    await apply(platform, desired("acme/web:1", 2))
    await asyncio.sleep(30)
    platform.partitions.disconnect("dfw")
    await apply(platform, desired("acme/web:2", 3))


async def destroyed_while_cut_off(platform: PlatformRun) -> None:
    await cut_off(platform)
    await asyncio.sleep(300)
    await platform.project.delete(compute.WORKLOADS, "web", NAMESPACE)


async def without_network(platform: PlatformRun) -> None:
    body = desired("acme/web:1", 2)
    interface = {"network": {"name": "nowhere"}}
    body["spec"]["template"]["spec"]["networkInterfaces"] = [interface]
    await apply(platform, body)


async def network_gone(platform: PlatformRun) -> None:
    await apply(platform, desired("acme/web:1", 1))
    await asyncio.sleep(30)
    await platform.project.delete(networking.NETWORKS, "default", NAMESPACE)
    await apply(platform, desired("acme/web:1", 2))


async def city_unavailable(platform: PlatformRun) -> None:
    await apply(platform, desired("acme/web:1", 2))
    await asyncio.sleep(30)
    status = {
        "conditions": [
            {
                "type": "Available",
                "status": "False",
                "reason": "Maintenance",
                "message": "from the test",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ]
    }
    await platform.project.patch(
        networking.LOCATION_BINDINGS, "dfw", merge({"status": status}), subresource="status"
    )


@dataclass(frozen=True)
class Scenario:
    act: Act
    instances: int = 100
    """How many the project may have."""


SCENARIOS = [
    Scenario(nothing),
    Scenario(serving),
    Scenario(denied, instances=2),
    Scenario(failing_image),
    Scenario(crashing),
    Scenario(asleep),
    Scenario(rolled),
    Scenario(stopped),
    Scenario(destroyed),
    Scenario(cut_off),
    Scenario(destroyed_while_cut_off),
    Scenario(without_network),
    Scenario(network_gone),
    Scenario(city_unavailable),
]


LONG = [pytest.mark.long, pytest.mark.timeout(300)]
QUICK = (serving, denied)


@pytest.mark.parametrize(
    ("seconds", "scenario"),
    [
        *(
            pytest.param(HOUR, each, id=f"hour-{each.act.__name__}")
            for each in SCENARIOS
            if each.act in QUICK
        ),
        *(
            pytest.param(24 * HOUR, each, id=f"day-{each.act.__name__}", marks=LONG)
            for each in SCENARIOS
        ),
    ],
)
def test_a_settled_platform_writes_nothing(
    seconds: float, scenario: Scenario, tmp_path: Path
) -> None:
    commit_checker = CommitChecker()

    def writes() -> dict[str, int]:
        quiet = (core.LEASES.group_resource, EXPIRED_EVENTS)
        return {kind: count for kind, count in commit_checker.changes.items() if kind not in quiet}

    async def settle(platform: PlatformRun) -> None:
        await scenario.act(platform)
        await asyncio.sleep(SETTLED_AFTER_SECONDS)
        before = writes()
        await asyncio.sleep(seconds)
        assert writes() == before, commit_checker.recent[-5:]

    settings = LocalSettings(
        cities=("DFW",), grant={**DEFAULT_GRANT, "instances": scenario.instances}
    )
    assert PlatformRun(
        5, tmp_path / "state.db", settings=settings, commit_checker=commit_checker
    ).run(settle)


@pytest.mark.parametrize(
    ("seconds", "state"),
    [
        *(
            pytest.param(HOUR, each, id=f"hour-{each.name}")
            for each in STEADY_STATES
            if each.name in ("two_cells_for_the_city", "quota_that_is_refused403")
        ),
        *(
            pytest.param(24 * HOUR, each, id=f"day-{each.name}", marks=LONG)
            for each in STEADY_STATES
        ),
    ],
)
async def test_nothing_is_written_in_any_steady_state(seconds: float, state: SteadyState) -> None:
    async with state.stage() as on:
        assert await on.written_in(seconds) == []
        await state.check(on)


@pytest.mark.parametrize(
    "scenario",
    [pytest.param(each, id=each.name, marks=LONG) for each in crash_scenarios.SCENARIOS],
)
def test_nothing_is_written_after_any_scenario(scenario: CrashScenario, tmp_path: Path) -> None:
    assert ScenarioRunner(scenario, tmp_path).written_at_rest(24 * HOUR) == []
