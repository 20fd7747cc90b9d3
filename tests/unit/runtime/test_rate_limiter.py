"""Writes at a bounded rate, and at a lower one while the process is late."""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.runtime.workqueue.rate_limiter import (
    COST_FACTOR,
    LATE_FACTOR,
    MAX_ADDED_SECONDS,
    MIN_INTERVAL_SECONDS,
    RateLimiter,
)


async def come_late(limiter: RateLimiter, key: str, seconds: float) -> None:
    """Wait for the limiter, and write this much later."""
    await asyncio.sleep(limiter.delay(key) + seconds)
    assert limiter.delay(key) == 0
    limiter.spend(key)


async def test_the_first_write_is_immediate_and_the_next_waits_for_the_interval() -> None:
    limiter = RateLimiter()
    assert limiter.delay("a") == 0
    limiter.spend("a")

    assert limiter.delay("a") == pytest.approx(MIN_INTERVAL_SECONDS)
    assert limiter.delay("b") == 0
    await asyncio.sleep(limiter.delay("a"))
    assert limiter.delay("a") == 0


async def test_a_late_process_waits_longer_for_the_next_write() -> None:
    limiter = RateLimiter()
    limiter.spend("a")
    await come_late(limiter, "a", 0.05)
    assert limiter.delay("a") == pytest.approx(MIN_INTERVAL_SECONDS + LATE_FACTOR * 0.05)

    await come_late(limiter, "a", 60.0)
    assert limiter.delay("a") == pytest.approx(MIN_INTERVAL_SECONDS + MAX_ADDED_SECONDS)


async def test_a_punctual_write_ends_the_slowdown() -> None:
    limiter = RateLimiter()
    limiter.spend("a")
    await come_late(limiter, "a", 1.0)
    await come_late(limiter, "a", 0.0)

    assert limiter.delay("a") == pytest.approx(MIN_INTERVAL_SECONDS)


async def test_a_write_without_a_wait_does_not_measure_lateness() -> None:
    limiter = RateLimiter()
    limiter.spend("a")
    await asyncio.sleep(3600)
    assert limiter.delay("a") == 0
    limiter.spend("a")

    assert limiter.delay("a") == pytest.approx(MIN_INTERVAL_SECONDS)


async def test_a_write_that_takes_long_waits_longer_for_the_next() -> None:
    limiter = RateLimiter()
    limiter.spend("a", took=0.03)
    assert limiter.delay("a") == pytest.approx(MIN_INTERVAL_SECONDS + COST_FACTOR * 0.03)
    assert limiter.delay("a", urgent=True) == pytest.approx(MIN_INTERVAL_SECONDS)

    limiter.spend("a", took=10.0)
    assert limiter.delay("a") == pytest.approx(MIN_INTERVAL_SECONDS + MAX_ADDED_SECONDS)
