"""A percentile is a value that was measured."""

from __future__ import annotations

import pytest

from bench.samples import percentile, spread


@pytest.mark.parametrize(
    ("values", "share", "found"),
    [
        ([7.0], 0.99, 7.0),
        ([3.0, 1.0, 2.0], 0.5, 2.0),
        ([float(n) for n in range(1, 101)], 0.99, 99.0),
        ([float(n) for n in range(1, 201)], 0.99, 198.0),
        ([1.0, 2.0], 1.0, 2.0),
    ],
)
def test_percentile_is_the_smallest_value_that_covers_the_share(
    values: list[float], share: float, found: float
) -> None:
    assert percentile(values, share) == found


def test_a_percentile_of_no_samples_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        percentile([], 0.99)


def test_spread_has_the_median_worst_and_count() -> None:
    assert spread([1.0, 2.0, 9.0], "ms") == {
        "median, ms": 2.0,
        "worst, ms": 9.0,
        "measurements": 3.0,
    }
