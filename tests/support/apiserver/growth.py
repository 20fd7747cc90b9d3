"""How the work of a function grows with its input."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

FACTOR = 8
LINEAR = 3 * FACTOR
"""Linear work grows by about ``FACTOR``, quadratic work by its square, 64: the limit is between
the two, far from both."""


def cpu_growth(make: Callable[[int], Any], work: Callable[[Any], object], size: int) -> float:
    """How many times as much CPU time ``work`` takes for ``FACTOR`` times the size. The input is
    made anew for each run and not counted; neither is the time of other processes."""
    return _least(make, work, size * FACTOR) / _least(make, work, size)


def _least(make: Callable[[int], Any], work: Callable[[Any], object], size: int) -> float:
    times = []
    for _ in range(3):
        given = make(size)
        start = time.process_time()
        work(given)
        times.append(time.process_time() - start)
    return min(times)
