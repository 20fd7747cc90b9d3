"""How often a member's status is carried up.

A deployment that is being rolled out changes its status many times a second, and each change
costs a write at every hop on the way to the project. So each Work has an allowance: a handful
of changes go up at once, and a steady stream at the rate at which the allowance refills, with
the newest state each time. Works that use theirs at the same time share what all of them may
have, so that fifty cities that roll do not keep the hub busy with their counters alone. The
real system is slowed down in the same way by the limits of its queues and of its API client.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

BURST = 8
"""Changes that go up at once after a time of quiet. A guess: more than one Instance's life has."""
PER_SECOND = 2.0
"""The steady rate. A guess: what a person who watches a rollout can follow."""
ALL_PER_SECOND = 20.0
"""The steady rate of all Works together. Each change is at least two writes to the hub, and
Karmada's controllers may by default ask their API server forty times a second."""
TIDY_SECONDS = 1.0
"""How long a Work whose allowance is full again may be counted among those that use theirs."""


_NEGLIGIBLE = 1e-6
"""What sums of fractions leave over. A wait for that little may not move a clock at all."""


@dataclass(slots=True)
class TokenBucket:
    left: float
    at: float

    @classmethod
    def full(cls, now: float) -> TokenBucket:
        return cls(BURST, now)

    def refill(self, now: float, rate: float) -> None:
        self.left = min(BURST, self.left + (now - self.at) * rate)
        self.at = now

    def wait(self, now: float, rate: float = PER_SECOND) -> float:
        """Seconds until a change may go up; 0 when it may now."""
        self.refill(now, rate)
        missing = 1.0 - self.left
        return missing / rate if missing > _NEGLIGIBLE else 0.0

    def spend(self) -> None:
        self.left -= 1.0


class StatusRateLimiter:
    """Those of all Works, as far as they are not full."""

    def __init__(self) -> None:
        self._used: dict[Hashable, TokenBucket] = {}
        self._tidy_at = 0.0

    def __len__(self) -> int:
        return len(self._used)

    def take(self, work: Hashable, now: float) -> float:
        """Use one of this Work's; when there is none, seconds until there will be."""
        self._tidy(now)
        allowance = self._used.get(work)
        if allowance is None:
            allowance = self._used[work] = TokenBucket.full(now)
        wait = allowance.wait(now, self._rate())
        if not wait:
            allowance.spend()
        return wait

    def forget(self, work: Hashable) -> None:
        self._used.pop(work, None)

    def _rate(self) -> float:
        return min(PER_SECOND, ALL_PER_SECOND / max(1, len(self._used)))

    def _tidy(self, now: float) -> None:
        if now < self._tidy_at:
            return
        self._tidy_at = now + TIDY_SECONDS
        rate = self._rate()
        for work, allowance in list(self._used.items()):
            allowance.refill(now, rate)
            if allowance.left >= BURST:
                del self._used[work]
