"""How often a member's status is carried up.

A deployment that is being rolled out changes its status many times a second, and each change
costs a write at every hop on the way to the project. So each Work has an allowance: a handful
of changes go up at once, and a steady stream at the rate at which the allowance refills, with
the newest state each time. The real system is slowed down in the same way by the limits of its
queues and of its API client.
"""

from __future__ import annotations

from dataclasses import dataclass

BURST = 8
"""Changes that go up at once after a time of quiet. A guess: more than one Instance's life has."""
PER_SECOND = 2.0
"""The steady rate. A guess: what a person who watches a rollout can follow."""


_NEGLIGIBLE = 1e-6
"""What sums of fractions leave over. A wait for that little may not move a clock at all."""


@dataclass(slots=True)
class Allowance:
    left: float
    at: float

    @classmethod
    def full(cls, now: float) -> Allowance:
        return cls(BURST, now)

    def wait(self, now: float) -> float:
        """Seconds until a change may go up; 0 when it may now."""
        self.left = min(BURST, self.left + (now - self.at) * PER_SECOND)
        self.at = now
        missing = 1.0 - self.left
        return missing / PER_SECOND if missing > _NEGLIGIBLE else 0.0

    def spend(self) -> None:
        self.left -= 1.0
