"""Reports at a bounded pace, and at a slower one while the process is late."""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.controllers.pacing import COUNTER_SECONDS, LATE_FACTOR, LATE_SECONDS, Pace


async def come_late(pace: Pace, key: str, seconds: float) -> None:
    """Wait for a turn, and take it so much later."""
    await asyncio.sleep(pace.left(key) + seconds)
    assert pace.left(key) == 0
    pace.spend(key)


async def test_the_first_turn_is_at_once_and_the_next_after_the_pace() -> None:
    pace = Pace()
    assert pace.left("a") == 0
    pace.spend("a")

    assert pace.left("a") == pytest.approx(COUNTER_SECONDS)
    assert pace.left("b") == 0
    await asyncio.sleep(pace.left("a"))
    assert pace.left("a") == 0


async def test_whoever_comes_late_waits_longer_for_the_next_turn() -> None:
    pace = Pace()
    pace.spend("a")
    await come_late(pace, "a", 0.05)
    assert pace.left("a") == pytest.approx(COUNTER_SECONDS + LATE_FACTOR * 0.05)

    await come_late(pace, "a", 60.0)
    assert pace.left("a") == pytest.approx(COUNTER_SECONDS + LATE_SECONDS)


async def test_being_late_is_over_when_somebody_is_in_time() -> None:
    pace = Pace()
    pace.spend("a")
    await come_late(pace, "a", 1.0)
    await come_late(pace, "a", 0.0)

    assert pace.left("a") == pytest.approx(COUNTER_SECONDS)


async def test_a_turn_that_nobody_waited_for_says_nothing_about_lateness() -> None:
    pace = Pace()
    pace.spend("a")
    await asyncio.sleep(3600)
    assert pace.left("a") == 0
    pace.spend("a")

    assert pace.left("a") == pytest.approx(COUNTER_SECONDS)
