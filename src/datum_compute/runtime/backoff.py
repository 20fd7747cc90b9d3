"""Exponential back-off with jitter."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential with full jitter: anywhere between zero and a growing ceiling, so that
    callers that failed together do not retry together."""

    base_seconds: float
    cap_seconds: float

    def delay(self, failures: int, chance: float) -> float:
        """The wait after this many earlier failures; ``chance`` is uniform in [0, 1)."""
        ceiling: float = self.base_seconds * 2 ** min(failures, 32)
        return min(self.cap_seconds, ceiling) * chance


RECONCILE = Backoff(base_seconds=0.05, cap_seconds=30.0)
"""For failed runs. The cap lets everything recover within a minute after a fault has ended; the
base is a guess at the duration of a short race."""

RECONNECT = Backoff(base_seconds=0.5, cap_seconds=30.0)
"""For lists and watches: the watchers of a restarted server reconnect spread over time."""
