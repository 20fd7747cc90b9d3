"""The queue between events and workers.

- **Fair**: keys of one lane are handed out in the order in which they became ready, and
  lanes with ready keys take turns. A controller has a lane per cluster, so a cluster with a
  hundred thousand keys delays another cluster by one key, not by a hundred thousand.
- **Reserved**: a lane holds fewer keys than there are workers left over, so however long the
  keys of a cluster run, because its server hangs, there is a worker for the next cluster.
  One lane gets half of the workers, a second half of the rest, and so on.
- **Deduplicated**: a key added many times before it is handed out is handed out once, and a key
  never runs twice at once.
- **Re-addable while running**: a key added while it runs is handed out again after
  ``done``, because that run may have read before the change.
- **Delayed**: a delayed add becomes ready at its time; of several for one key the soonest
  counts, and handing the key out answers all of them, since a run reads everything and
  returns when it wants to run again.

A worker may have to wait for a ``turn`` first; until then the key is not handed out.

There is one timer per queue, for the soonest delayed key, and no task. Every step takes the
same time however many keys and lanes there are, but for delayed adds, which are sorted, and
``drop``, which visits all of them.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from datum_compute.runtime.backoff import Backoff

K = TypeVar("K", bound=Hashable)


class QueueClosed(Exception):
    """There will be no further keys."""


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    ready: int
    delayed: int
    running: int
    adds: int
    """Adds that made a key ready; repeated ones are not counted."""
    retries: int


def _one_lane(_: Hashable) -> str:
    return ""


class Queue(Generic[K]):
    def __init__(
        self,
        backoff: Backoff,
        chance: Callable[[], float],
        lane: Callable[[K], str] = _one_lane,
        *,
        workers: int = 0,
        turn: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """``chance`` is uniform in [0, 1); ``lane`` names the lane a key waits in;
        ``workers`` is how many call ``get``; up to 1, nothing is reserved; ``turn`` is
        awaited before a key is handed out."""
        self._loop = asyncio.get_running_loop()
        self._backoff = backoff
        self._chance = chance
        self._lane = lane
        self._workers = workers
        self._turn = turn
        self._lanes: dict[str, deque[K]] = {}  # only those with ready keys
        self._turns: deque[str] = deque()  # the same lanes, next one first
        self._queued: set[K] = set()  # sets here are never iterated
        self._running: set[K] = set()
        self._held: dict[str, int] = {}  # running keys of each lane that has some
        self._again: dict[K, None] = {}
        self._due: dict[K, tuple[float, int]] = {}  # when, and the number of the push
        self._heap: list[tuple[float, int, K]] = []  # may hold pushes that do not count any more
        self._pushes = 0
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0  # uvloop's handle does not have it for very short delays
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._coming = 0  # workers that were woken for a key and wait for their turn
        self._failures: dict[K, int] = {}
        self._adds = 0
        self._retries = 0
        self._closed = False

    def __len__(self) -> int:
        return len(self._queued)

    def add(self, key: K) -> None:
        if key in self._running:
            self._again[key] = None
        elif key not in self._queued and not self._closed:
            self._queued.add(key)
            lane = self._lane(key)
            keys = self._lanes.get(lane)
            if keys is None:
                self._lanes[lane] = deque((key,))
                self._turns.append(lane)
            else:
                keys.append(key)
            self._adds += 1
            self._wake()

    def add_after(self, key: K, delay: float) -> None:
        if delay <= 0:
            self.add(key)
            return
        when = self._loop.time() + delay
        known = self._due.get(key)
        if self._closed or (known is not None and known[0] <= when):
            return
        self._pushes += 1
        self._due[key] = (when, self._pushes)
        self._push(key)
        self._set_timer()

    def retry(self, key: K, *, at_least: float = 0.0) -> float:
        """Add again after a delay that grows with each retry until ``forget``."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self._retries += 1
        delay = max(at_least, self._backoff.delay(failures, self._chance()))
        self.add_after(key, delay)
        return delay

    def retry_soon(self, key: K, within: float) -> None:
        """Add again after up to ``within`` seconds, without counting it as a failure."""
        self.add_after(key, within * self._chance())

    def forget(self, key: K) -> None:
        """The key succeeded: its next failure is a first one again."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key; the caller must call ``done`` for it. Raises :class:`QueueClosed`."""
        while True:
            await self._wait_ready()
            if self._turn is not None:
                await self._wait_turn(self._turn)
            place = self._next_place()
            if place is not None:  # else another worker took it, or the key was dropped
                return self._hand_out(place)

    async def _wait_ready(self) -> None:
        """Until there is a key to hand out for which no other worker was woken."""
        while self._next_place() is None or len(self._queued) <= self._coming:
            if self._closed:
                raise QueueClosed
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if not waiter.cancelled():
                    self._wake()  # wake another worker for it
                raise

    async def _wait_turn(self, turn: Callable[[], Awaitable[None]]) -> None:
        """The key stays in the queue meanwhile: what is added again is still one run."""
        self._coming += 1
        try:
            await turn()
        except asyncio.CancelledError:
            self._coming -= 1
            self._wake()
            raise
        self._coming -= 1

    def _next_place(self) -> int | None:
        """Where in ``_turns`` the lane is whose turn it is. Lanes that hold their share keep
        their place, and as each of them holds a key, there are no more of them than workers."""
        left = self._workers - len(self._running)
        for place, lane in enumerate(self._turns):
            if self._workers <= 1 or self._held.get(lane, 0) < left:
                return place
        return None

    def _hand_out(self, place: int) -> K:
        lane = self._turns[place]
        del self._turns[place]
        keys = self._lanes[lane]
        key = keys.popleft()
        if keys:
            self._turns.append(lane)
        else:
            del self._lanes[lane]
        self._queued.discard(key)
        self._running.add(key)
        self._held[lane] = self._held.get(lane, 0) + 1
        self._due.pop(key, None)
        return key

    def done(self, key: K) -> None:
        if key not in self._running:
            return
        self._running.discard(key)
        lane = self._lane(key)
        self._held[lane] -= 1
        if not self._held[lane]:
            del self._held[lane]
        if self._workers:
            self._wake()  # a lane that held its share may have one more
        if key in self._again:
            del self._again[key]
            self.add(key)

    def drop(self, lane: str) -> None:
        """Nothing more of this lane: neither keys that wait nor counts of failures. Keys that
        run end their run, and do not come again for what was added before now."""
        keys = self._lanes.pop(lane, None)
        if keys is not None:
            self._turns.remove(lane)
            self._queued.difference_update(keys)
        for kept in (self._again, self._due, self._failures):
            for key in [key for key in kept if self._lane(key) == lane]:
                kept.pop(key)
        self._set_timer()

    def close(self) -> None:
        """Let nothing wait any more: no key, no timer, no call of ``get``. What is added from
        now on is ignored; keys that run may still be ``done``."""
        self._closed = True
        self._lanes.clear()
        self._turns.clear()
        self._queued.clear()
        self._again.clear()
        self._due.clear()
        self._failures.clear()
        self._set_timer()
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def statistics(self) -> QueueStatistics:
        return QueueStatistics(
            len(self._queued), len(self._due), len(self._running), self._adds, self._retries
        )

    def _wake(self) -> None:
        while self._waiters and len(self._queued) > self._coming:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _push(self, key: K) -> None:
        when, number = self._due[key]
        heapq.heappush(self._heap, (when, number, key))
        if len(self._heap) > 64 + 2 * len(self._due):
            self._heap = [entry for entry in self._heap if self._counts(entry)]
            heapq.heapify(self._heap)

    def _counts(self, entry: tuple[float, int, K]) -> bool:
        when, number, key = entry
        return self._due.get(key) == (when, number)

    def _set_timer(self) -> None:
        while self._heap and not self._counts(self._heap[0]):
            heapq.heappop(self._heap)
        soonest = self._heap[0][0] if self._heap else None
        if self._timer is not None:
            if soonest is not None and self._timer_at <= soonest:
                return
            self._timer.cancel()
            self._timer = None
        if soonest is not None:
            self._timer_at = soonest
            self._timer = self._loop.call_at(soonest, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._heap and self._heap[0][0] <= now:
            entry = heapq.heappop(self._heap)
            if self._counts(entry):
                del self._due[entry[2]]
                self.add(entry[2])
        self._set_timer()
