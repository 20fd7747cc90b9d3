"""Lesson 25: a rollout was "Done" at once, since nothing was desired before a controller reported.

So: until then the spec's minimum counts, and Done also needs that no old replica is left.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.support.cli.rollout_plane import rollout_plane


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
