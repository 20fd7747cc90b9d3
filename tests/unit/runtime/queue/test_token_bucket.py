"""A burst at once, then a steady rate; many keys share a common rate."""

from __future__ import annotations

import pytest

from datum_compute.runtime.workqueue.token_bucket import (
    TIDY_SECONDS,
    SharedTokenBuckets,
    TokenBucket,
)

BURST = 8
PER_SECOND = 2.0
ALL_PER_SECOND = 20.0


def shared() -> SharedTokenBuckets:
    return SharedTokenBuckets(BURST, PER_SECOND, ALL_PER_SECOND)


def test_a_bucket_allows_a_burst_and_then_a_steady_rate() -> None:
    bucket = TokenBucket(BURST, 0.0)
    for _ in range(BURST):
        assert bucket.take(0.0, PER_SECOND) == 0.0

    assert bucket.take(0.0, PER_SECOND) == 1 / PER_SECOND
    assert bucket.take(1 / PER_SECOND, PER_SECOND) == 0.0
    assert bucket.take(1 / PER_SECOND, PER_SECOND) == 1 / PER_SECOND
    bucket.refill(3600.0, PER_SECOND)
    assert bucket.is_full


def test_a_token_is_available_after_the_announced_wait() -> None:
    """Whatever fractions the clock shows: a remainder below its resolution would be waited for
    again and again."""
    for number in range(2000):
        now = 16.0 + number * 0.013
        bucket = TokenBucket(BURST, now)
        for _ in range(BURST):
            bucket.take(now, PER_SECOND)
        now += 0.1 + number * 1e-4
        now += bucket.take(now, PER_SECOND)

        assert bucket.take(now, PER_SECOND) == 0.0


def taken(keys: int, seconds: float) -> list[int]:
    """How many tokens each key gets that takes all it can."""
    buckets = shared()
    counts = [0] * keys
    due = [0.0] * keys
    while (now := min(due)) < seconds:
        key = due.index(now)
        wait = buckets.take(key, now)
        counts[key] += not wait
        due[key] = now + (wait or 0.05)
    return counts


def test_few_keys_each_have_their_own_rate() -> None:
    for count in taken(5, 60.0):
        assert count == pytest.approx(BURST + PER_SECOND * 60.0, abs=2)


def test_many_keys_share_the_common_rate() -> None:
    counts = taken(50, 60.0)

    assert sum(counts) == pytest.approx(50 * BURST + ALL_PER_SECOND * 60.0, rel=0.1)
    assert max(counts) - min(counts) <= 2, "none gets more than another"


def test_a_full_bucket_is_dropped_and_its_key_has_its_burst_again() -> None:
    buckets = shared()
    for key in range(50):
        buckets.take(key, 0.0)
    later = 1.0 + BURST / (ALL_PER_SECOND / 50)

    assert [buckets.take("late", later) for _ in range(BURST)] == [0.0] * BURST
    assert len(buckets) == 1, "the others are full again"
    assert buckets.take("late", later) == pytest.approx(1 / PER_SECOND)
    buckets.forget("late")
    assert len(buckets) == 0


def test_keys_that_stop_free_their_share() -> None:
    buckets = shared()
    for key in range(50):
        for _ in range(BURST):
            buckets.take(key, 0.0)
    slow = buckets.take(0, 0.0)
    later = 2 * TIDY_SECONDS + BURST / (ALL_PER_SECOND / 50)
    for _ in range(BURST):
        buckets.take(0, later)

    assert slow == pytest.approx(50 / ALL_PER_SECOND)
    assert buckets.take(0, later) == pytest.approx(1 / PER_SECOND)
