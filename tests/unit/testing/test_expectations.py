"""Waiting for a state of the world."""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.testing.expectations import eventually


async def test_eventually_returns_when_nothing_is_missing() -> None:
    loop = asyncio.get_running_loop()

    async def look() -> str:
        return "" if loop.time() > 5 else "five seconds"

    await eventually("time passes", look)

    assert 5 < loop.time() < 6


async def test_eventually_fails_with_what_is_missing() -> None:
    async def look() -> str:
        return "the moon"

    with pytest.raises(AssertionError, match="a state: after 10s still: the moon"):
        await eventually("a state", look, within=10)
