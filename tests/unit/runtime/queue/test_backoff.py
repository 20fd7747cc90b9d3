"""Delays grow, are capped and spread."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from datum_compute.runtime.backoff import Backoff


@given(
    failures=st.integers(0, 10_000),
    chance=st.floats(0, 1, exclude_max=True),
)
def test_a_delay_is_below_the_growing_ceiling_and_the_cap(failures: int, chance: float) -> None:
    delay = Backoff(0.1, 30).delay(failures, chance)

    assert 0 <= delay <= min(30, 0.1 * 2 ** min(failures, 20))


def test_the_ceiling_doubles_up_to_the_cap() -> None:
    ceilings = [Backoff(1, 10).delay(failures, 1.0) for failures in range(6)]

    assert ceilings == [1, 2, 4, 8, 10, 10]
