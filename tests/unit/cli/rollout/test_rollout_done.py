"""Lesson 25: a rollout was "Done" at once, since nothing was desired before a controller reported.

So: until then the spec's minimum counts, and Done also needs that no old replica is left.
"""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.cli.errors import Exit
from datum_compute.client.protocol import merge
from tests.support.cli.rollout_plane import NAME, NAMESPACE, rollout_plane


async def test_lesson_25_a_rollout_without_desired_replicas_is_not_done() -> None:
    async with rollout_plane() as on:
        await on.create(minimum=2)

        async def controllers() -> None:
            await asyncio.sleep(5)
            name = await on.deploy()  # there, without counters
            await on.observe()
            await asyncio.sleep(5)
            await on.report(name, desired=0, behind=1)  # zeros, on an older generation
            await asyncio.sleep(5)
            await on.report(name, ready=1, updated=1, replicas=1, desired=2)
            await asyncio.sleep(5)
            await on.done(name)

        seconds, _ = await asyncio.gather(on.watch(), controllers())

        assert seconds == pytest.approx(20, abs=0.5)
        assert any("0/2" in line for line in on.lines)
        assert not any("/0" in line for line in on.lines), "no row shows zero desired replicas"


async def test_lesson_25_a_rollout_with_an_old_replica_is_not_done() -> None:
    async with rollout_plane() as on:
        await on.create(minimum=2)
        name = await on.deploy()
        await on.observe()
        await on.report(name, ready=2, updated=2, replicas=3)

        async def cell() -> None:
            await asyncio.sleep(7)
            await on.done(name)

        seconds, _ = await asyncio.gather(on.watch(), cell())

        assert seconds == pytest.approx(7, abs=0.5)


@pytest.mark.parametrize("reason", ["WaveFailed", "RolledBack", "InvalidRolloutPolicy"])
async def test_a_rollout_over_cities_that_stopped_fails_the_wait(reason: str) -> None:
    async with rollout_plane() as on:
        await on.create()
        notes = {"metadata": {"annotations": {compute.ANNOTATION_ROLLOUT: '{"waves": "each"}'}}}
        await on.client.patch(compute.WORKLOADS, NAME, merge(notes), NAMESPACE)
        await on.done(await on.deploy())
        condition = {
            "type": "Progressing",
            "status": "False",
            "reason": reason,
            "message": "DFW: it crashes",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        await on.observe(conditions=[condition])

        failed = await on.failure()

        assert (failed.exit_code, failed.code) == (Exit.ROLLOUT_FAILED, reason)
        assert failed.message.startswith('rollout of "web" failed: ')
        assert failed.message.endswith(": DFW: it crashes")
