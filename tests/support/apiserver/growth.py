"""How the work of a function grows with its input."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

FACTOR = 32
LINEAR = 8 * FACTOR
"""Linear work grows by about ``FACTOR``, quadratic work by its square, 1,024: the limit is eight
times the one and a quarter of the other, so that a slow moment of the machine does not reach
it."""


def cpu_growth(make: Callable[[int], Any], work: Callable[[Any], object], size: int) -> float:
    """How many times as much CPU time ``work`` takes for ``size`` as for a part of it.

    The input is made anew for each run and not counted. Neither are other threads, other
    processes and the garbage collector, whose full passes depend on what else the process holds.
    """
    return _least(make, work, size) / _least(make, work, size // FACTOR)


def _least(make: Callable[[int], Any], work: Callable[[Any], object], size: int) -> float:
    times = []
    for _ in range(5):
        given = make(size)
        gc.disable()
        try:
            start = time.thread_time()
            work(given)
            times.append(time.thread_time() - start)
        finally:
            gc.enable()
    return min(times)
