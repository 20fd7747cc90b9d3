"""How many reconciles start in one iteration of the event loop.

An iteration runs everything that is ready, and only then polls the network. Where many
controllers share one loop with a server, hundreds of reconciles may be ready at once, and a
user's request, which needs several iterations, waits for all of them each time. With a
``StartLimiter`` only so many start in each iteration. The rest follow in the next ones: no time
is lost, because the next iteration begins at once, and what one iteration writes, commits and
sends to watchers is bounded with it.

Each caller names a lane. The first start of an iteration goes to the waiting lanes in rotation, so
that a controller with one key waits for one of each other's, not for all their keys. The others go
to the lanes of the highest rank: those nearest to the end of the path of a change, so that what
they do outside of the loop, such as starting containers, goes on beside the rest of the path. A
start is a permission and is not held: a reconcile that waits for another, or for a server, delays
no other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable


class StartLimiter:
    def __init__(self, starts: int) -> None:
        """``starts`` is how many may begin in one iteration of the loop."""
        if starts < 1:
            raise ValueError(f"starts: {starts}: at least 1 must be allowed per iteration")
        self._starts = starts
        self._left = starts
        self._lanes: dict[Hashable, deque[asyncio.Future[None]]] = {}  # waiters, next first
        self._ranks: dict[Hashable, int] = {}
        self._renewal: asyncio.Handle | None = None
        """Pending whenever a caller waits."""

    async def acquire(self, lane: Hashable, rank: int = 0) -> None:
        """Return when the caller may begin; at once when no other waits and there is room. A lane
        keeps its rank."""
        if self._left > 0 and not self._lanes:
            self._use()
            return
        waiter = asyncio.get_running_loop().create_future()
        self._lanes.setdefault(lane, deque()).append(waiter)
        self._ranks[lane] = rank
        await waiter

    def _use(self) -> None:
        self._left -= 1
        if self._renewal is None:
            self._renewal = asyncio.get_running_loop().call_soon(self._renew)

    def _renew(self) -> None:
        """A new iteration of the loop."""
        self._renewal = None
        self._left = self._starts
        while self._left > 0 and (waiter := self._next_waiter()) is not None:
            waiter.set_result(None)
            self._use()

    def _next_waiter(self) -> asyncio.Future[None] | None:
        while self._lanes:
            in_rotation = self._left == self._starts
            lane = (
                next(iter(self._lanes))
                if in_rotation
                else max(self._lanes, key=self._ranks.__getitem__)
            )
            waiters = self._lanes.pop(lane)
            waiter = waiters.popleft()
            if waiters:
                self._lanes[lane] = waiters  # behind all others
            if not waiter.done():  # it may have been cancelled
                return waiter
        return None
