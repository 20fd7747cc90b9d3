"""Waiting for the allowance of a Work."""

from __future__ import annotations

from datum_compute.platform.propagation.pace import BURST, Allowance


def test_after_the_wait_a_change_may_go_up() -> None:
    """Whatever fractions the clock shows: a rest that no clock can tell would be waited for
    again and again."""
    for number in range(2000):
        now = 16.0 + number * 0.013
        allowance = Allowance.full(now)
        for _ in range(BURST):
            allowance.spend()
        now += 0.1 + number * 1e-4
        now += allowance.wait(now)

        assert allowance.wait(now) == 0.0
