"""Statistics of many measurements of one value."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values does not exceed."""
    if not values:
        raise ValueError("nothing was measured")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def spread(values: Sequence[float], unit: str) -> dict[str, float]:
    """Median, worst and count, to be read with a percentile; with the unit in the keys."""
    return {
        f"median, {unit}": statistics.median(values),
        f"worst, {unit}": max(values),
        "measurements": float(len(values)),
    }
