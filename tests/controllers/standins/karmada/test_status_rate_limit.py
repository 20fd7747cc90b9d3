"""Waiting for the allowance of a Work."""

from __future__ import annotations

import pytest

from datum_compute.standins.karmada.rate_limit import (
    ALL_PER_SECOND,
    BURST,
    PER_SECOND,
    TIDY_SECONDS,
    StatusRateLimiter,
    TokenBucket,
)


def test_after_the_wait_a_status_change_may_be_written() -> None:
    """Whatever fractions the clock shows: a rest that no clock can tell would be waited for
    again and again."""
    for number in range(2000):
        now = 16.0 + number * 0.013
        allowance = TokenBucket.full(now)
        for _ in range(BURST):
            allowance.spend()
        now += 0.1 + number * 1e-4
        now += allowance.wait(now)

        assert allowance.wait(now) == 0.0


def gone_up(works: int, seconds: float) -> list[int]:
    """How often each Work's status goes up when it changes all the time."""
    allowances = StatusRateLimiter()
    counts = [0] * works
    due = [0.0] * works
    while (now := min(due)) < seconds:
        work = due.index(now)
        wait = allowances.take(work, now)
        counts[work] += not wait
        due[work] = now + (wait or 0.05)
    return counts


def test_a_few_works_that_change_all_the_time_have_their_own_rate() -> None:
    for count in gone_up(5, 60.0):
        assert count == pytest.approx(BURST + PER_SECOND * 60.0, abs=2)


def test_many_works_share_what_all_of_them_may_have() -> None:
    counts = gone_up(50, 60.0)

    assert sum(counts) == pytest.approx(50 * BURST + ALL_PER_SECOND * 60.0, rel=0.1)
    assert max(counts) - min(counts) <= 2, "none gets more than another"


def test_a_work_that_was_quiet_is_not_kept_and_has_its_burst_again() -> None:
    allowances = StatusRateLimiter()
    for work in range(50):
        allowances.take(work, 0.0)
    later = 1.0 + BURST / (ALL_PER_SECOND / 50)

    assert [allowances.take("late", later) for _ in range(BURST)] == [0.0] * BURST
    assert len(allowances) == 1, "the others are full again"
    assert allowances.take("late", later) == pytest.approx(1 / PER_SECOND)
    allowances.forget("late")
    assert len(allowances) == 0


def test_works_that_stop_changing_free_their_share() -> None:
    allowances = StatusRateLimiter()
    for work in range(50):
        for _ in range(BURST):
            allowances.take(work, 0.0)
    slow = allowances.take(0, 0.0)
    later = 2 * TIDY_SECONDS + BURST / (ALL_PER_SECOND / 50)
    for _ in range(BURST):
        allowances.take(0, later)

    assert slow == pytest.approx(50 / ALL_PER_SECOND)
    assert allowances.take(0, later) == pytest.approx(1 / PER_SECOND)
