"""The four promises of the queue, one by one and against a model."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from datum_compute.runtime.backoff import Backoff
from datum_compute.runtime.queue import Queue
from datum_compute.testing import loop as virtual


def _queue(chance: float = 0.5) -> Queue[str]:
    return Queue(Backoff(1.0, 30.0), lambda: chance)


async def _drain(queue: Queue[str]) -> list[str]:
    """What is ready now, handed out and done."""
    taken = []
    while len(queue):
        key = await queue.get()
        taken.append(key)
        queue.done(key)
    return taken


async def test_keys_come_in_the_order_added_and_once() -> None:
    queue = _queue()
    for key in "abcab":
        queue.add(key)

    assert await _drain(queue) == ["a", "b", "c"]


async def test_a_key_added_while_it_runs_runs_again_and_not_at_once() -> None:
    queue = _queue()
    queue.add("a")
    running = await queue.get()

    queue.add("a")
    queue.add("a")
    assert len(queue) == 0

    queue.done(running)
    assert await _drain(queue) == ["a"]


async def test_delayed_adds_keep_the_soonest() -> None:
    queue = _queue()
    queue.add_after("a", 10)
    queue.add_after("a", 3)
    queue.add_after("a", 20)

    assert await queue.get() == "a"
    assert asyncio.get_running_loop().time() == 3
    queue.done("a")
    await asyncio.sleep(100)
    assert len(queue) == 0


async def test_a_run_answers_delayed_adds_made_before_it() -> None:
    queue = _queue()
    queue.add_after("a", 10)
    queue.add("a")
    assert await _drain(queue) == ["a"]

    await asyncio.sleep(20)

    assert len(queue) == 0


async def test_a_delayed_add_made_while_running_counts() -> None:
    queue = _queue()
    queue.add("a")
    await queue.get()
    queue.add_after("a", 5)
    queue.done("a")

    assert await queue.get() == "a"
    assert asyncio.get_running_loop().time() == 5


async def test_retries_grow_until_forgotten() -> None:
    queue = _queue(chance=0.5)

    delays = [queue.retry("a") for _ in range(7)]
    queue.forget("a")

    assert delays == [0.5, 1, 2, 4, 8, 15, 15]
    assert queue.retry("a") == 0.5
    assert queue.retry("a", at_least=7) == 7


async def test_waiting_workers_get_one_key_each() -> None:
    queue = _queue()
    got: list[str] = []

    async def worker() -> None:
        got.append(await queue.get())

    async with asyncio.TaskGroup() as tasks:
        for _ in range(3):
            tasks.create_task(worker())
        await asyncio.sleep(1)
        for key in "abc":
            queue.add(key)

    assert sorted(got) == ["a", "b", "c"]


async def test_a_cancelled_worker_passes_its_turn_on() -> None:
    queue = _queue()
    first = asyncio.create_task(queue.get())
    second = asyncio.create_task(queue.get())
    await asyncio.sleep(1)

    queue.add("a")
    first.cancel()

    assert await second == "a"
    assert first.cancelled()


async def test_statistics_tell_what_is_where() -> None:
    queue = _queue()
    for key in "ab":
        queue.add(key)
    queue.add_after("c", 5)
    await queue.get()

    now = queue.statistics()

    assert (now.ready, now.running, now.delayed, now.adds) == (1, 1, 1, 2)


async def test_a_key_that_is_delayed_over_and_over_does_not_pile_up() -> None:
    queue = _queue()
    for _ in range(1000):
        queue.add_after("a", 300)
        queue.add("a")
        await _drain(queue)

    assert len(queue._heap) < 100


@dataclass
class Model:
    """What the promises say, written without regard for speed."""

    now: float = 0.0
    ready: list[str] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    again: set[str] = field(default_factory=set)
    due: dict[str, tuple[float, int]] = field(default_factory=dict)
    order: int = 0

    def add(self, key: str) -> None:
        if key in self.running:
            self.again.add(key)
        elif key not in self.ready:
            self.ready.append(key)

    def add_after(self, key: str, delay: float) -> None:
        if delay <= 0:
            self.add(key)
        elif key not in self.due or self.now + delay < self.due[key][0]:
            self.order += 1
            self.due[key] = (self.now + delay, self.order)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for key, (when, _) in sorted(self.due.items(), key=lambda item: item[1]):
            if when <= self.now:
                del self.due[key]
                self.add(key)

    def get(self) -> str:
        key = self.ready.pop(0)
        self.running.append(key)
        self.due.pop(key, None)
        return key

    def done(self, key: str) -> None:
        self.running.remove(key)
        if key in self.again:
            self.again.discard(key)
            self.add(key)


_KEYS = st.sampled_from("abcd")
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), _KEYS),
        st.tuples(st.just("after"), _KEYS, st.integers(0, 5)),
        st.tuples(st.just("get")),
        st.tuples(st.just("done"), st.integers(0, 3)),
        st.tuples(st.just("time"), st.integers(1, 4)),
    ),
    max_size=60,
)


@given(_STEPS)
def test_every_history_agrees_with_the_model(steps: list[tuple[str, ...]]) -> None:
    virtual.run(_compare(steps))


async def _compare(steps: list[tuple[str, ...]]) -> None:
    queue, model = _queue(), Model()
    for step in steps:
        match step:
            case ("add", key):
                queue.add(key)
                model.add(key)
            case ("after", key, delay):
                queue.add_after(key, float(delay))
                model.add_after(key, float(delay))
            case ("get",) if model.ready:
                assert await queue.get() == model.get()
            case ("done", number) if model.running:
                key = model.running[int(number) % len(model.running)]
                queue.done(key)
                model.done(key)
            case ("time", seconds):
                await asyncio.sleep(float(seconds))
                model.pass_time(float(seconds))
        assert len(queue) == len(model.ready)
        now = queue.statistics()
        assert (now.running, now.delayed) == (len(model.running), len(model.due))
    queue.close()
