"""Whatever is done to a queue, in whatever order, it does what a simple model does."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from datum_compute.runtime.backoff import Backoff
from datum_compute.runtime.workqueue.queue import Queue
from datum_compute.testing.loop import VirtualLoop

KEYS = st.sampled_from(["a1", "a2", "a3", "b1", "b2", "c1"])
"""The letter is the lane."""
BACKOFF = Backoff(1.0, 6.0)


def _lane(key: str) -> str:
    return key[0]


@dataclass
class Model:
    """The promises, written without regard for speed."""

    workers: int = 0
    now: float = 0.0
    moment: int = 0
    ready: list[str] = field(default_factory=list)
    in_line_since: dict[str, int] = field(default_factory=dict)
    running: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    due: dict[str, tuple[float, int]] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)

    def tick(self) -> int:
        self.moment += 1
        return self.moment

    def add(self, key: str) -> None:
        if key in self.running:
            self.again.append(key)
        elif key not in self.ready:
            self.ready.append(key)
            self.in_line_since.setdefault(_lane(key), self.tick())

    def add_after(self, key: str, delay: float) -> None:
        if delay <= 0:
            self.add(key)
        elif key not in self.due or self.now + delay < self.due[key][0]:
            self.due[key] = (self.now + delay, self.tick())

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for key, (when, _) in sorted(self.due.items(), key=lambda item: item[1]):
            if when <= self.now:
                del self.due[key]
                self.add(key)

    def next_key(self) -> str | None:
        """The lane that is in line for longest and holds less than the rest of the workers,
        and of that the key that waits for longest."""
        lanes = [lane for lane in self.in_line_since if self.may_have_more(lane)]
        if not lanes:
            return None
        lane = min(lanes, key=lambda name: self.in_line_since[name])
        key = next(key for key in self.ready if _lane(key) == lane)
        self.ready.remove(key)
        del self.in_line_since[lane]
        if any(_lane(other) == lane for other in self.ready):
            self.in_line_since[lane] = self.tick()
        self.running.append(key)
        self.due.pop(key, None)
        return key

    def may_have_more(self, lane: str) -> bool:
        held = [key for key in self.running if _lane(key) == lane]
        return not self.workers or len(held) < self.workers - len(self.running)

    def done(self, key: str) -> None:
        self.running.remove(key)
        if key in self.again:
            self.again = [other for other in self.again if other != key]
            self.add(key)

    def drop(self, lane: str) -> None:
        self.ready = [key for key in self.ready if _lane(key) != lane]
        self.again = [key for key in self.again if _lane(key) != lane]
        self.due = {key: due for key, due in self.due.items() if _lane(key) != lane}
        self.failures = {key: n for key, n in self.failures.items() if _lane(key) != lane}
        self.in_line_since.pop(lane, None)


class QueueMachine(RuleBasedStateMachine):
    workers = 0

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.chance = 0.0
        self.queue = self.loop.run_until_complete(self._made())
        self.model = Model(self.workers)
        self.waiting: list[asyncio.Task[str]] = []

    async def _made(self) -> Queue[str]:
        return Queue(BACKOFF, lambda: self.chance, _lane, workers=self.workers)

    @rule(keys=st.lists(KEYS, min_size=1, max_size=4))
    def add(self, keys: list[str]) -> None:
        for key in keys:
            self.queue.add(key)
            self.model.add(key)

    @rule(key=KEYS, delay=st.integers(0, 5))
    def add_after(self, key: str, delay: int) -> None:
        self.queue.add_after(key, float(delay))
        self.model.add_after(key, float(delay))

    @rule(key=KEYS, chance=st.sampled_from([0.0, 0.25, 0.5, 1.0]), at_least=st.integers(0, 2))
    def retry(self, key: str, chance: float, at_least: int) -> None:
        self.chance = chance
        failures = self.model.failures.get(key, 0)
        self.model.failures[key] = failures + 1
        expected = max(float(at_least), min(6.0, 2.0**failures) * chance)

        assert self.queue.retry(key, at_least=float(at_least)) == expected
        self.model.add_after(key, expected)

    @rule(key=KEYS, chance=st.sampled_from([0.0, 0.5]))
    def retry_soon(self, key: str, chance: float) -> None:
        self.chance = chance
        self.queue.retry_soon(key, 2.0)
        self.model.add_after(key, 2.0 * chance)

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.queue.forget(key)
        self.model.failures.pop(key, None)

    @precondition(lambda self: not self.workers or self.busy() < self.workers)
    @rule()
    def get(self) -> None:
        self.waiting.append(self.loop.create_task(self.queue.get()))

    def busy(self) -> int:
        return len(self.waiting) + len(self.model.running)

    @precondition(lambda self: self.waiting)
    @rule(key=KEYS, number=st.integers(0, 3))
    def add_and_give_up_waiting(self, key: str, number: int) -> None:
        """The one that gives up may be the one the key was meant for."""
        self.queue.add(key)
        self.model.add(key)
        self.waiting.pop(number % len(self.waiting)).cancel()

    @precondition(lambda self: self.model.running)
    @rule(number=st.integers(0, 5))
    def done(self, number: int) -> None:
        key = self.model.running[number % len(self.model.running)]
        self.queue.done(key)
        self.model.done(key)

    @rule(lane=st.sampled_from("abc"))
    def drop(self, lane: str) -> None:
        self.queue.drop(lane)
        self.model.drop(lane)

    @rule(seconds=st.integers(1, 4))
    def pass_time(self, seconds: int) -> None:
        until = self.model.now + seconds
        while self.model.now < until:
            # From one due moment to the next: waiting workers are served in between.
            moments = [when for when, _ in self.model.due.values() if when < until]
            step = min([until, *moments]) - self.model.now
            self.loop.run_until_complete(asyncio.sleep(step))
            self.model.pass_time(step)
            self.agrees()

    @invariant()
    def agrees(self) -> None:
        self.loop.run_until_complete(self._settle())
        handed: list[str] = []
        while len(handed) < len(self.waiting) and (key := self.model.next_key()) is not None:
            handed.append(key)
        got = [task.result() for task in self.waiting if task.done()]
        # Who waits for longest is served first, unless it was woken for a lane with its share.
        assert got == handed if not self.workers else sorted(got) == sorted(handed)
        self.waiting = [task for task in self.waiting if not task.done()]
        now = self.queue.statistics()
        model = (len(self.model.ready), len(self.model.due), len(self.model.running))
        assert (now.ready, now.delayed, now.running) == model
        assert (self.queue._timer is not None) >= bool(self.model.due)

    async def _settle(self) -> None:
        for _ in range(6):
            await asyncio.sleep(0)

    def teardown(self) -> None:
        self.queue.close()
        self.loop.run_until_complete(self._settle())
        assert all(task.done() for task in self.waiting)
        for task in self.waiting:
            task.exception()
        self.loop.close()


class SharingMachine(QueueMachine):
    """As a controller has it: a number of workers, of whom some are kept free for others."""

    workers = 6


SETTINGS = settings(deadline=None, max_examples=40, stateful_step_count=40)
QueueMachine.TestCase.settings = SETTINGS
SharingMachine.TestCase.settings = SETTINGS
test_every_history_agrees_with_the_model = QueueMachine.TestCase
test_every_history_of_workers_that_share_agrees_with_the_model = SharingMachine.TestCase
