"""Token buckets: a burst at once, then a steady rate.

Where many keys report at the same time, :class:`SharedTokenBuckets` also bounds all of them
together: the more keys spend tokens, the slower each refills.
"""

from __future__ import annotations

from collections.abc import Hashable

TIDY_SECONDS = 1.0
"""How long a full bucket may still count among those in use. A guess."""

_NEGLIGIBLE = 1e-6
"""The rounding error of sums of fractions. A wait this short may not move a clock at all."""


class TokenBucket:
    __slots__ = ("_at", "_burst", "_tokens")

    def __init__(self, burst: float, now: float) -> None:
        """Starts full."""
        self._burst = self._tokens = burst
        self._at = now

    @property
    def is_full(self) -> bool:
        return self._tokens >= self._burst

    def refill(self, now: float, rate: float) -> None:
        self._tokens = min(self._burst, self._tokens + (now - self._at) * rate)
        self._at = now

    def take(self, now: float, rate: float) -> float:
        """Take one token. Where there is none, seconds until there is, and 0 otherwise."""
        self.refill(now, rate)
        missing = 1.0 - self._tokens
        if missing > _NEGLIGIBLE:
            return missing / rate
        self._tokens -= 1.0
        return 0.0


class SharedTokenBuckets:
    """A bucket a key, kept while it is not full."""

    def __init__(self, burst: float, per_second: float, all_per_second: float) -> None:
        """``per_second`` is the steady rate of one key, ``all_per_second`` of all together."""
        self._burst = burst
        self._per_second = per_second
        self._all_per_second = all_per_second
        self._used: dict[Hashable, TokenBucket] = {}
        self._tidy_at = 0.0

    def __len__(self) -> int:
        return len(self._used)

    def take(self, key: Hashable, now: float) -> float:
        """Take one of this key's tokens; see :meth:`TokenBucket.take`."""
        self._tidy(now)
        bucket = self._used.get(key)
        if bucket is None:
            bucket = self._used[key] = TokenBucket(self._burst, now)
        return bucket.take(now, self._rate())

    def forget(self, key: Hashable) -> None:
        self._used.pop(key, None)

    def _rate(self) -> float:
        return min(self._per_second, self._all_per_second / max(1, len(self._used)))

    def _tidy(self, now: float) -> None:
        if now < self._tidy_at:
            return
        self._tidy_at = now + TIDY_SECONDS
        rate = self._rate()
        for key, bucket in list(self._used.items()):
            bucket.refill(now, rate)
            if bucket.is_full:
                del self._used[key]
