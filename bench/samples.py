"""Many measurements of one thing, and what to say of them."""

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
    """What a percentile is to be read with; the unit goes into the words."""
    return {
        f"median, {unit}": statistics.median(values),
        f"worst, {unit}": max(values),
        "measurements": float(len(values)),
    }
