"""Not too often: reports that change with every child are written at a bounded pace.

What changes together is told together. After a report the next one waits for its turn; and
while it is known that more is about to change, as one controller follows another, a report
is held for a moment. Neither wait is longer than the pace.

A process that is late has more to do than it can, and every report makes more of it on every
plane it travels through. So the pace follows the lateness: whoever comes late to his turn
waits longer for the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

MIN_INTERVAL_SECONDS = 0.1
"""The shortest time between two reports on one object. The first change is told at once;
what follows within this time is told together."""


LATE_FACTOR = 4.0
"""How much longer the next turn takes, for each second that somebody came late to his."""

MAX_LATE_SECONDS = 0.9
"""The most by which lateness makes it longer: nobody waits for more than about a second."""


class RateLimiter:
    """Remembers when each key last had its turn, for as long as that matters."""

    def __init__(self, seconds: float = MIN_INTERVAL_SECONDS) -> None:
        self._seconds = seconds
        self._free_at: dict[Hashable, float] = {}
        self._held_until: dict[Hashable, float] = {}
        self._awaited: dict[Hashable, float] = {}  # whose turn somebody waits for, and when it is
        self._late = 0.0
        self._tidy_at = 1024

    def left(self, key: Hashable) -> float:
        """Seconds until it is this key's turn again; 0 when it is."""
        now = asyncio.get_running_loop().time()
        free_at = self._free_at.get(key, 0.0)
        if free_at > now:
            self._awaited[key] = free_at
            return free_at - now
        if self._awaited:
            self._late = now - self._awaited.pop(key, now)
        return 0.0

    def spend(self, key: Hashable) -> None:
        """The key has had its turn."""
        now = asyncio.get_running_loop().time()
        self._free_at[key] = now + self._seconds + min(MAX_LATE_SECONDS, LATE_FACTOR * self._late)
        self._held_until.pop(key, None)
        if len(self._free_at) > self._tidy_at:
            self._free_at = {each: free for each, free in self._free_at.items() if free > now}
            self._awaited = {each: due for each, due in self._awaited.items() if due > now}
            self._tidy_at = max(1024, 2 * len(self._free_at))

    def hold(self, key: Hashable) -> float:
        """Seconds for which this key may still wait for what is on its way. The wait begins
        when this is first asked, and what was held is over with ``spend`` or ``release``."""
        now = asyncio.get_running_loop().time()
        return max(0.0, self._held_until.setdefault(key, now + self._seconds) - now)

    def release(self, key: Hashable) -> None:
        """Nothing is on its way any more, or nobody waits for it."""
        self._held_until.pop(key, None)
