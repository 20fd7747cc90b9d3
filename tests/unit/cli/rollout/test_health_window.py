"""After a rollout is complete it is watched for a window, in which it must stay ready."""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.cli.errors import Exit
from datum_compute.client.protocol import merge
from tests.support.cli.rollout_plane import NAMESPACE, RolloutPlane, rollout_plane


async def rolling(on: RolloutPlane) -> str:
    await on.create()
    name = await on.deploy()
    await on.observe()
    return name


async def test_a_complete_rollout_is_watched_for_the_window_whatever_the_timeout() -> None:
    async with rollout_plane() as on:
        name = await rolling(on)

        async def cell() -> None:
            await asyncio.sleep(3)
            await on.done(name)

        seconds, _ = await asyncio.gather(on.watch(timeout=5, window=10), cell())

        assert seconds == pytest.approx(13, abs=0.5)
        assert on.lines[-1] == "  healthy, watching for 10s"


@pytest.mark.parametrize("reason", ["InstanceCrashing", ""])
async def test_an_instance_that_stops_being_ready_in_the_window_fails_the_rollout(
    reason: str,
) -> None:
    async with rollout_plane() as on:
        name = await rolling(on)

        async def cell() -> None:
            await asyncio.sleep(3)
            await on.done(name)
            await asyncio.sleep(2)
            await on.report(name, ready=1, updated=2, replicas=2, reason=reason)

        failed, _ = await asyncio.gather(on.failure(window=10), cell())

        assert failed.exit_code == Exit.ROLLOUT_FAILED
        why = (
            "crashing: the message of InstanceCrashing" if reason else "1 of 2 instances are ready"
        )
        assert failed.message == (f'rollout of "web" failed in DFW 2s after it was complete: {why}')
        assert failed.code == (reason or "Unhealthy")


async def test_a_restart_in_one_city_opens_the_window_anew() -> None:
    async with rollout_plane() as on:
        name = await rolling(on)

        async def cell() -> None:
            await asyncio.sleep(3)
            await on.done(name)
            await asyncio.sleep(5)
            labels = {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}}
            await on.client.patch(compute.WORKLOAD_DEPLOYMENTS, name, merge(labels), NAMESPACE)
            await on.report(name, ready=1, updated=1, replicas=2)
            await asyncio.sleep(5)
            await on.done(name)

        seconds, _ = await asyncio.gather(on.watch(window=10), cell())

        assert seconds == pytest.approx(23, abs=0.5)


async def test_what_was_complete_before_is_not_watched() -> None:
    async with rollout_plane() as on:
        await on.done(await rolling(on))

        assert await on.watch(window=10) == 0
        assert "healthy" not in on.err.getvalue()


async def test_no_window_ends_the_wait_when_the_rollout_is_complete() -> None:
    async with rollout_plane() as on:
        name = await rolling(on)

        async def cell() -> None:
            await asyncio.sleep(3)
            await on.done(name)

        seconds, _ = await asyncio.gather(on.watch(window=0), cell())

        assert seconds == pytest.approx(3, abs=0.5)
        assert "healthy" not in on.err.getvalue()
