"""Only so many reconciles start in one iteration of the loop, and each lane gets its share."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datum_compute.fleets.static import StaticFleet
from datum_compute.runtime.backoff import Backoff
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.request import Request
from datum_compute.runtime.tasks import TaskGroup, stop_tasks
from datum_compute.runtime.watches.mapping import itself
from datum_compute.runtime.workqueue.queue import Queue, QueueClosed
from datum_compute.runtime.workqueue.start_limiter import StartLimiter
from datum_compute.testing import loop
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.runtime.blocks import eventually, running
from tests.support.runtime.fake_plane import WIDGETS, FakePlane


class Clock:
    """Numbers the limiter of the loop while it runs."""

    def __init__(self) -> None:
        self.turn = 0
        self._handle = asyncio.get_running_loop().call_soon(self._tick)

    def _tick(self) -> None:
        self.turn += 1
        self._handle = asyncio.get_running_loop().call_soon(self._tick)

    def stop(self) -> None:
        self._handle.cancel()


async def test_a_start_is_immediate_below_the_limit() -> None:
    limiter = StartLimiter(2)
    clock = Clock()

    await limiter.acquire("a")
    await limiter.acquire("b")
    assert clock.turn == 0
    await limiter.acquire("a")
    clock.stop()

    assert 1 <= clock.turn <= 3


async def test_the_limit_is_reset_after_a_loop_iteration() -> None:
    limiter = StartLimiter(1)
    await limiter.acquire("a")
    await asyncio.sleep(1)
    clock = Clock()
    await limiter.acquire("a")
    clock.stop()

    assert clock.turn == 0


def test_a_limit_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        StartLimiter(0)


async def test_lanes_that_wait_are_served_in_rotation() -> None:
    limiter = StartLimiter(1)
    served: list[str] = []

    async def begin(lane: str) -> None:
        await limiter.acquire(lane)
        served.append(lane)

    async with TaskGroup("test") as tasks:
        for number in range(50):
            tasks.start(begin("busy"), name=f"busy {number}")
        tasks.start(begin("rare"), name="rare")
        tasks.start(begin("other"), name="other")

    assert served[:5] == ["busy", "busy", "rare", "other", "busy"]
    assert Counter(served) == {"busy": 50, "rare": 1, "other": 1}


async def test_lanes_of_a_higher_rank_start_first_and_leave_one_start_to_the_others() -> None:
    limiter = StartLimiter(4)
    served: list[str] = []

    async def begin(lane: str, rank: int) -> None:
        await limiter.acquire(lane, rank)
        served.append(lane)

    async with TaskGroup("test") as tasks:
        for number in range(4):
            tasks.start(begin("at once", 0), name=f"at once {number}")
        for number in range(20):
            tasks.start(begin("management", 0), name=f"management {number}")
        for number in range(6):
            tasks.start(begin("cell", 1), name=f"cell {number}")
        for number in range(3):
            tasks.start(begin("provider", 2), name=f"provider {number}")

    waited = [Counter(served[first : first + 4]) for first in range(4, len(served), 4)]
    assert waited[0] == {"management": 1, "provider": 3}
    assert sum(batch["cell"] for batch in waited[:4]) == 6
    pairs = itertools.pairwise(batch["management"] for batch in waited)
    assert all(first + second for first, second in pairs)
    assert Counter(served) == {"at once": 4, "management": 20, "cell": 6, "provider": 3}


_Lanes = st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.integers(0, 3)), max_size=40)
"""Callers: the lane, whether it is cancelled, and after how many iterations of the loop."""


@settings(max_examples=60)
@given(st.integers(1, 5), _Lanes, st.integers(0, 1000))
def test_every_request_starts_and_never_more_than_the_limit_per_loop_iteration(
    starts: int, callers: list[tuple[int, bool, int]], seed: int
) -> None:
    began: list[tuple[int, int]] = []

    async def main() -> None:
        limiter, clock = StartLimiter(starts), Clock()

        async def begin(number: int, lane: int, pause: int) -> None:
            for _ in range(pause):
                await asyncio.sleep(0)
            await limiter.acquire(lane)
            began.append((clock.turn, number))

        running = asyncio.get_running_loop()
        waiting = [
            running.create_task(begin(number, lane, pause), name=f"caller {number}")
            for number, (lane, _, pause) in enumerate(callers)
        ]
        await asyncio.sleep(0)
        await stop_tasks(
            [task for task, (_, cancelled, _) in zip(waiting, callers, strict=True) if cancelled]
        )
        await asyncio.gather(*waiting, return_exceptions=True)
        clock.stop()

    loop.run(main(), seed=seed)

    kept = {number for number, (_, cancelled, _) in enumerate(callers) if not cancelled}
    assert kept <= {number for _, number in began}
    # In an iteration twice the limit can begin: what the one before has granted, and what is had at
    # once. The order within one is random here, so that a turn of the clock has parts of two.
    assert all(count <= 4 * starts for count in Counter(turn for turn, _ in began).values())


def _queue(gate: asyncio.Event) -> Queue[str]:
    """A queue whose starts wait until the gate is opened."""

    async def turn() -> None:
        await gate.wait()

    return Queue(Backoff(1.0, 30.0), lambda: 0.5, workers=4, turn=turn)


def _getting(queue: Queue[str], name: str) -> asyncio.Task[str]:
    return asyncio.get_running_loop().create_task(queue.get(), name=name)


async def test_a_key_that_waits_for_its_start_is_still_in_the_queue() -> None:
    gate = asyncio.Event()
    queue = _queue(gate)
    queue.add("key")
    getting = _getting(queue, "get")
    await asyncio.sleep(1)
    queue.add("key")
    waited = len(queue)
    gate.set()

    assert await getting == "key"
    assert waited == 1
    queue.done("key")
    assert len(queue) == 0


async def test_a_worker_cancelled_while_it_waits_leaves_the_key_to_another() -> None:
    gate = asyncio.Event()
    queue = _queue(gate)
    first, second = _getting(queue, "first"), _getting(queue, "second")
    await asyncio.sleep(1)
    queue.add("key")
    await asyncio.sleep(1)
    await stop_tasks([first])
    gate.set()

    assert await second == "key"


async def test_a_worker_whose_waiting_key_is_dropped_takes_the_next_key() -> None:
    gate = asyncio.Event()
    queue = _queue(gate)
    getting = _getting(queue, "get")
    queue.add("key")
    await asyncio.sleep(1)
    queue.drop("")
    gate.set()
    await asyncio.sleep(1)
    queue.add("next")

    assert await getting == "next"


async def test_only_as_many_workers_wait_as_there_are_keys() -> None:
    taken = 0

    async def turn() -> None:
        nonlocal taken
        taken += 1
        await asyncio.sleep(1)

    queue: Queue[str] = Queue(Backoff(1.0, 30.0), lambda: 0.5, workers=8, turn=turn)
    async with TaskGroup("test") as tasks:
        getting = [tasks.start(queue.get(), name=f"get {number}") for number in range(4)]
        await asyncio.sleep(0)
        queue.add("one")
        queue.add("other")
        await asyncio.sleep(0)
        getting += [tasks.start(queue.get(), name=f"late {number}") for number in range(4)]
        await asyncio.sleep(10)
        got = [each.result() for each in getting if each.done()]
        await tasks.stop(*getting)

    assert sorted(got) == ["one", "other"]
    assert taken == 2


async def test_a_queue_closed_while_a_start_is_pending_hands_out_nothing() -> None:
    gate = asyncio.Event()
    queue = _queue(gate)
    queue.add("key")
    getting = _getting(queue, "get")
    await asyncio.sleep(1)
    queue.close()
    gate.set()

    with pytest.raises(QueueClosed):
        await getting


class Noted:
    """Reconciles that only look, and in which turn of the loop each was."""

    def __init__(self, expected: int) -> None:
        self._clock: Clock | None = None  # from the first run on: no time passes beside it
        self._expected = expected
        self.limiter: Counter[int] = Counter()
        self.names: list[str] = []
        self.complete = asyncio.Event()

    async def __call__(self, request: Request) -> None:
        self._clock = self._clock or Clock()
        self.limiter[self._clock.turn] += 1
        self.names.append(request.name)
        if len(self.names) == self._expected:
            self._clock.stop()
            self.complete.set()


def _controllers(
    env: SimulatedEnvironment, noted: Noted, plane: FakePlane, count: int
) -> list[Controller]:
    fleet = StaticFleet("fleet", {"one": plane}, env)
    watches = [Watch(fleet, WIDGETS, itself)]
    return [Controller(f"c{number}", fleet, noted, watches=watches) for number in range(count)]


@pytest.mark.parametrize(("starts", "at_most"), [(1, 2), (4, 8), (None, None)])
async def test_controllers_that_share_a_limiter_yield_the_loop(
    starts: int | None, at_most: int | None
) -> None:
    env, plane, noted = SimulatedEnvironment(), FakePlane(), Noted(200)
    for number in range(40):
        plane.put(f"w{number}")
    limiter = StartLimiter(starts) if starts else None
    manager = Manager("test", env, start_limiter=limiter)
    manager.add(*_controllers(env, noted, plane, 5))
    async with running(manager):
        await noted.complete.wait()

    most = max(noted.limiter.values())
    assert most <= at_most if at_most else most > 8
    assert Counter(noted.names) == {f"w{number}": 5 for number in range(40)}


async def test_a_reconcile_that_waits_for_another_does_not_block_it() -> None:
    env, plane = SimulatedEnvironment(), FakePlane()
    plane.put("waits")
    plane.put("comes")
    come = asyncio.Event()
    ended: list[str] = []

    async def reconcile(request: Request) -> None:
        if request.name == "comes":
            come.set()
        await come.wait()
        ended.append(request.name)

    fleet = StaticFleet("fleet", {"one": plane}, env)
    controller = Controller("c", fleet, reconcile, watches=[Watch(fleet, WIDGETS, itself)])
    manager = Manager("test", env, start_limiter=StartLimiter(1))
    manager.add(controller)
    async with running(manager):
        await eventually(lambda: len(ended) == 2, lambda: ended)

    assert sorted(ended) == ["comes", "waits"]
