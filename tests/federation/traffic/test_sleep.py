"""A workload that sleeps, on a whole platform: it stays ready, counted and quiet."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from datum_compute.api import conditions, core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.assembly.local.state import LocalSettings
from datum_compute.client.protocol import merge
from datum_compute.testing.environment import START
from tests.support.federation.stage import SETTLED_AFTER_SECONDS
from tests.support.simulation.commit_checker import EXPIRED_EVENTS, CommitChecker
from tests.support.simulation.platform import NAMESPACE, PlatformRun, apply, workload

HOUR = 3600.0
DAY = 24 * HOUR
MONTH = 30 * DAY
SLEEP_AFTER = {compute.ANNOTATION_SLEEP_AFTER: "5m"}


def sleeping_workload(**others: str) -> dict[str, Any]:
    body = workload("acme/web:1", 2, ("DFW",))
    template = body["spec"]["template"]
    template["metadata"] = {"annotations": {**SLEEP_AFTER, **others}}
    [container] = template["spec"]["runtime"]["sandbox"]["containers"]
    container["ports"] = [{"name": "http", "port": 8080}]
    return body


async def instances(platform: PlatformRun) -> list[compute.Instance]:
    found = await platform.project.list(compute.INSTANCES, NAMESPACE)
    return [each.view(compute.Instance) for each in found.items]


async def expect_asleep_and_counted(platform: PlatformRun) -> None:
    found = await instances(platform)
    assert [(each.asleep, each.ready, each.available) for each in found] == [(True,) * 3] * 2
    [stored] = (await platform.project.list(compute.WORKLOADS, NAMESPACE)).items
    status = stored.view(compute.Workload).status
    assert conditions.is_true(status.conditions, compute.CONDITION_AVAILABLE)
    assert (status.ready_replicas, status.desired_replicas) == (2, 2)
    claims = (await platform.project.list(quota.RESOURCE_CLAIMS, NAMESPACE)).items
    granted = [each.view(quota.ResourceClaim) for each in claims]
    assert len(granted) == 2
    assert all(conditions.is_true(each.status.conditions, "Granted") for each in granted)


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(HOUR, id="hour"),
        pytest.param(DAY, id="day", marks=[pytest.mark.long, pytest.mark.timeout(300)]),
        pytest.param(
            MONTH,
            id="month",
            marks=[pytest.mark.long, pytest.mark.campaign, pytest.mark.timeout(3600)],
        ),
    ],
)
def test_a_sleeping_workload_is_ready_and_counted_and_writes_nothing_over_a_restart(
    seconds: float, tmp_path: Path
) -> None:
    commit_checker = CommitChecker()

    def writes() -> dict[str, int]:
        quiet = (core.LEASES.group_resource, EXPIRED_EVENTS)
        return {kind: count for kind, count in commit_checker.changes.items() if kind not in quiet}

    async def fall_asleep(platform: PlatformRun) -> None:
        await apply(platform, sleeping_workload())
        await asyncio.sleep(300 + SETTLED_AFTER_SECONDS)
        await sleep(platform, seconds)
        uids.update(each.metadata.uid for each in await instances(platform))

    async def sleep_on(platform: PlatformRun) -> None:
        await asyncio.sleep(SETTLED_AFTER_SECONDS)
        await sleep(platform, HOUR)
        assert {each.metadata.uid for each in await instances(platform)} == uids

    async def sleep(platform: PlatformRun, seconds: float) -> None:
        await expect_asleep_and_counted(platform)
        before = writes()
        await asyncio.sleep(seconds)
        assert writes() == before, commit_checker.recent[-5:]
        await expect_asleep_and_counted(platform)

    uids: set[str] = set()
    settings = LocalSettings(cities=("DFW",))
    first = PlatformRun(
        5,
        tmp_path / "state.db",
        settings=settings,
        longest_seconds=seconds + 2 * HOUR,
        commit_checker=commit_checker,
    )
    assert first.run(fall_asleep)
    restarted = replace(first, number=1, start=START + timedelta(seconds=seconds + HOUR))
    assert restarted.run(sleep_on)


def test_a_time_to_stay_awake_reaches_running_instances_and_replaces_none(tmp_path: Path) -> None:
    async def hold(platform: PlatformRun) -> None:
        await apply(platform, sleeping_workload())
        await asyncio.sleep(300 + SETTLED_AFTER_SECONDS)
        before = await instances(platform)
        assert all(each.asleep for each in before)
        until = {compute.ANNOTATION_AWAKE_UNTIL: "9000-01-01T00:00:00Z"}
        body = {"spec": {"template": {"metadata": {"annotations": until}}}}
        await platform.project.patch(compute.WORKLOADS, "web", merge(body), NAMESPACE)
        await asyncio.sleep(SETTLED_AFTER_SECONDS)
        after = await instances(platform)

        assert [each.metadata.uid for each in before] == [each.metadata.uid for each in after]
        assert not any(each.asleep for each in after)

    settings = LocalSettings(cities=("DFW",))
    assert PlatformRun(5, tmp_path / "state.db", settings=settings).run(hold)
