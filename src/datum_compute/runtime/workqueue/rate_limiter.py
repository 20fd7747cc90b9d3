"""A minimum interval between two writes for one key.

The first write goes out at once; what changes within the interval goes out together. While
more is known to be about to change, as one controller follows another, a write is also held
for up to one interval.

A process that is late is overloaded, and every write makes more work on every plane to which it
is copied. So the interval grows with lateness: a key that comes late to its turn waits longer for
the next. It also grows with the time that a write takes: on a slow server writes of reports would
otherwise take most of the time of a key, and delay its steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

MIN_INTERVAL_SECONDS = 0.1
"""The default interval."""

LATE_FACTOR = 4.0
"""Seconds added to the next interval for each second that a key came late to its turn."""

COST_FACTOR = 9.0
"""Seconds added to the next interval for each second that the write took, so that writes take at
most a tenth of the time."""

MAX_ADDED_SECONDS = 0.9
"""The most that is added: no interval is longer than about a second."""


class RateLimiter:
    """Remembers when each key last had its turn, for as long as that matters."""

    def __init__(
        self, seconds: float = MIN_INTERVAL_SECONDS, *, late_factor: float = LATE_FACTOR
    ) -> None:
        self._seconds = seconds
        self._late_factor = late_factor
        self._free_at: dict[Hashable, float] = {}
        self._added: dict[Hashable, float] = {}  # what of that is beyond the interval
        self._held_until: dict[Hashable, float] = {}
        self._awaited: dict[Hashable, float] = {}  # keys whose caller waits, and until when
        self._late = 0.0
        self._tidy_at = 1024

    def delay(self, key: Hashable, *, urgent: bool = False) -> float:
        """Seconds until it is this key's turn again; 0 when it is. An ``urgent`` write waits for
        the interval alone."""
        now = asyncio.get_running_loop().time()
        free_at = self._free_at.get(key, 0.0)
        if urgent:
            free_at -= self._added.get(key, 0.0)
        if free_at > now:
            self._awaited[key] = free_at
            return free_at - now
        if self._awaited:
            self._late = now - self._awaited.pop(key, now)
        return 0.0

    def spend(self, key: Hashable, *, took: float = 0.0) -> None:
        """The key has had its turn, in which the write took so many seconds."""
        now = asyncio.get_running_loop().time()
        added = max(self._late_factor * self._late, COST_FACTOR * took)
        self._added[key] = added = min(MAX_ADDED_SECONDS, added)
        self._free_at[key] = now + self._seconds + added
        self._held_until.pop(key, None)
        if len(self._free_at) > self._tidy_at:
            self._free_at = {each: free for each, free in self._free_at.items() if free > now}
            self._added = {each: self._added[each] for each in self._free_at}
            self._awaited = {each: due for each, due in self._awaited.items() if due > now}
            self._tidy_at = max(1024, 2 * len(self._free_at))

    def hold(self, key: Hashable) -> float:
        """Seconds for which this key may still be held. The wait begins with the first call
        and ends with ``spend`` or ``release``."""
        now = asyncio.get_running_loop().time()
        return max(0.0, self._held_until.setdefault(key, now + self._seconds) - now)

    def release(self, key: Hashable) -> None:
        """End a hold: nothing more is about to change."""
        self._held_until.pop(key, None)
