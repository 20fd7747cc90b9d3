"""The promises of the queue, one by one; those of client-go's workqueue are among them.

``test_queue_model.py`` holds them against a model.
"""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.runtime.backoff import Backoff
from datum_compute.runtime.workqueue.queue import Queue, QueueClosed


def _queue(chance: float = 0.5) -> Queue[str]:
    return Queue(Backoff(1.0, 30.0), lambda: chance)


async def _drain(queue: Queue[str]) -> list[str]:
    """Take and finish all keys that are ready now."""
    taken = []
    while len(queue):
        key = await queue.get()
        taken.append(key)
        queue.done(key)
    return taken


async def test_keys_are_handed_out_once_in_the_order_added() -> None:
    queue = _queue()
    for key in "abcab":
        queue.add(key)

    assert await _drain(queue) == ["a", "b", "c"]


async def test_a_key_added_while_it_runs_runs_again_afterwards() -> None:
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


async def test_a_run_cancels_delayed_adds_made_before_it() -> None:
    queue = _queue()
    queue.add_after("a", 10)
    queue.add("a")
    assert await _drain(queue) == ["a"]

    await asyncio.sleep(20)

    assert len(queue) == 0


async def test_a_delayed_add_made_while_running_is_kept() -> None:
    queue = _queue()
    queue.add("a")
    await queue.get()
    queue.add_after("a", 5)
    queue.done("a")

    assert await queue.get() == "a"
    assert asyncio.get_running_loop().time() == 5


async def test_retry_delays_grow_until_the_key_is_forgotten() -> None:
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


async def test_a_key_of_a_cancelled_worker_goes_to_another() -> None:
    queue = _queue()
    first = asyncio.create_task(queue.get())
    second = asyncio.create_task(queue.get())
    await asyncio.sleep(1)

    queue.add("a")
    first.cancel()

    assert await second == "a"
    assert first.cancelled()


async def test_statistics_count_keys_by_state() -> None:
    queue = _queue()
    for key in "ab":
        queue.add(key)
    queue.add_after("c", 5)
    await queue.get()

    now = queue.statistics()

    assert (now.ready, now.running, now.delayed, now.adds) == (1, 1, 1, 2)


async def test_repeated_delayed_adds_of_a_key_do_not_accumulate() -> None:
    queue = _queue()
    for _ in range(1000):
        queue.add_after("a", 300)
        queue.add("a")
        await _drain(queue)

    assert len(queue._heap) < 100


async def _waiters(queue: Queue[str], count: int) -> list[asyncio.Task[str]]:
    tasks = [asyncio.create_task(queue.get()) for _ in range(count)]
    await asyncio.sleep(1)
    return tasks


async def test_lanes_are_served_in_rotation_and_keep_their_order() -> None:
    queue = Queue[str](Backoff(1.0, 30.0), lambda: 0.5, lambda key: key[0])
    for key in ("a1", "a2", "a3", "a4", "b1", "b2", "c1"):
        queue.add(key)

    assert await _drain(queue) == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]


async def test_a_lane_with_a_hundred_thousand_keys_delays_others_by_one_key() -> None:
    queue = Queue[str](Backoff(1.0, 30.0), lambda: 0.5, lambda key: key.partition("/")[0])
    for number in range(100_000):
        queue.add(f"large/{number}")

    queue.done(await queue.get())
    queue.add("small/1")
    queue.add("small/2")

    assert [await queue.get() for _ in range(4)] == ["large/1", "small/1", "large/2", "small/2"]


async def test_a_lane_that_becomes_active_again_is_served_after_waiting_lanes() -> None:
    queue = Queue[str](Backoff(1.0, 30.0), lambda: 0.5, lambda key: key[0])
    for key in ("a1", "b1", "c1"):
        queue.add(key)
    first = await queue.get()
    queue.done(first)
    queue.add("a2")

    assert [first, *await _drain(queue)] == ["a1", "b1", "c1", "a2"]


async def test_a_lane_whose_keys_never_finish_leaves_workers_for_other_lanes() -> None:
    """Of sixteen workers the first cluster that hangs gets eight, the next four, and so on."""
    queue = Queue[str](Backoff(1.0, 30.0), lambda: 0.5, lambda key: key[0], workers=16)
    held: list[str] = []
    for lane in "abcd":
        for number in range(100):
            queue.add(f"{lane}{number}")
        tasks = [asyncio.create_task(queue.get()) for _ in range(16 - len(held))]
        await asyncio.sleep(1)
        held += [task.result() for task in tasks if task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.sleep(0)

    lanes = [key[0] for key in held]
    assert [lanes.count(lane) for lane in "abcd"] == [8, 4, 2, 1]


async def test_a_lane_gets_another_worker_when_one_of_its_keys_is_done() -> None:
    queue = Queue[str](Backoff(1.0, 30.0), lambda: 0.5, workers=4)
    for key in "abc":
        queue.add(key)
    first, second = await queue.get(), await queue.get()
    third = asyncio.create_task(queue.get())
    await asyncio.sleep(1)
    assert (first, second, third.done()) == ("a", "b", False)

    queue.done("a")

    assert await third == "c"


async def test_a_key_is_never_processed_by_two_workers() -> None:
    queue = _queue()
    running: list[str] = []
    runs: list[str] = []

    async def worker() -> None:
        while True:
            key = await queue.get()
            assert key not in running
            running.append(key)
            await asyncio.sleep(0.7)
            running.remove(key)
            runs.append(key)
            queue.done(key)

    workers = [asyncio.create_task(worker()) for _ in range(5)]
    for _ in range(30):
        for key in "abc":
            queue.add(key)
        await asyncio.sleep(0.1)
    await asyncio.sleep(10)
    for task in workers:
        task.cancel()
    await asyncio.wait(workers)

    assert {task.cancelled() for task in workers} == {True}
    # 30 adds within 3 s of each key, runs of 0.7 s: at most one more than fit, never 30.
    assert all(4 <= runs.count(key) <= 6 for key in "abc")


async def test_keys_added_while_they_run_keep_the_order_of_the_others() -> None:
    queue = _queue()
    for key in "ab":
        queue.add(key)
    first = await queue.get()
    queue.add("a")
    queue.add("c")
    queue.done(first)

    assert await _drain(queue) == ["b", "c", "a"]


async def test_done_without_another_add_queues_nothing() -> None:
    queue = _queue()
    queue.add("a")
    queue.done(await queue.get())
    queue.done("never handed out")

    assert len(queue) == 0
    assert queue.statistics().running == 0


async def test_no_wakeup_is_lost_among_many_workers() -> None:
    """Every key finds a waiting worker, though some of them give up in the same moment."""
    queue = _queue()
    tasks = await _waiters(queue, 50)
    for number in range(30):
        queue.add(f"k{number:02}")
    for task in tasks[:20]:
        task.cancel()
    await asyncio.sleep(1)

    got = sorted(task.result() for task in tasks if task.done() and not task.cancelled())
    assert got == [f"k{number:02}" for number in range(30)]
    assert len(queue) == 0
    assert all(task.done() for task in tasks)


async def test_a_delayed_add_does_not_delay_an_immediate_one() -> None:
    queue = _queue()
    queue.add_after("a", 1000)
    queue.add("b")

    assert await queue.get() == "b"
    assert asyncio.get_running_loop().time() == 0


async def test_delayed_keys_come_in_the_order_of_their_times() -> None:
    queue = _queue()
    for key, delay in (("c", 3.0), ("a", 1.0), ("b", 2.0), ("d", 3.0)):
        queue.add_after(key, delay)
    got = []
    for _ in range(4):
        key = await queue.get()
        got.append((key, asyncio.get_running_loop().time()))
        queue.done(key)

    assert got == [("a", 1), ("b", 2), ("c", 3), ("d", 3)]


async def test_a_delay_of_zero_is_an_immediate_add() -> None:
    queue = _queue()
    queue.add_after("a", 0)
    queue.add_after("b", -1)

    assert await _drain(queue) == ["a", "b"]
    assert queue._timer is None


async def test_failures_of_one_key_do_not_slow_another() -> None:
    queue = _queue(chance=0.5)
    for _ in range(10):
        queue.retry("bad")

    assert queue.retry("good") == 0.5
    assert queue.retry("bad") == 15


async def test_an_immediate_add_is_not_delayed_by_failures() -> None:
    queue = _queue(chance=0.5)
    for _ in range(10):
        queue.retry("a")
    queue.add("a")

    assert await queue.get() == "a"
    assert asyncio.get_running_loop().time() == 0


async def test_full_jitter_spreads_retries_between_zero_and_the_ceiling() -> None:
    chances = iter([0.0, 0.25, 0.999])
    queue = Queue[str](Backoff(8.0, 30.0), lambda: next(chances))

    delays = [queue.retry(key) for key in "abc"]

    assert delays == [0.0, 2.0, 7.992]


async def test_closing_ends_every_wait_and_every_timer() -> None:
    queue = _queue()
    tasks = await _waiters(queue, 3)
    queue.add_after("later", 100)

    queue.close()
    await asyncio.wait(tasks)

    assert all(isinstance(task.exception(), QueueClosed) for task in tasks)
    assert queue._timer is None
    with pytest.raises(QueueClosed):
        await queue.get()


async def test_a_closed_queue_accepts_no_keys_and_lets_running_ones_end() -> None:
    queue = _queue()
    queue.add("running")
    queue.add("ready")
    running = await queue.get()
    queue.add(running)

    queue.close()
    queue.add("late")
    queue.add_after("later", 5)
    queue.retry("failed")
    queue.done(running)

    now = queue.statistics()
    assert (now.ready, now.delayed, now.running) == (0, 0, 0)
    assert queue._timer is None


async def test_dropping_a_lane_removes_only_its_keys() -> None:
    queue = Queue[str](Backoff(1.0, 30.0), lambda: 0.5, lambda key: key[0])
    queue.add("a1")
    running = await queue.get()
    for key in ("a1", "a2", "b1"):
        queue.add(key)
    queue.add_after("a3", 5)
    queue.add_after("b2", 7)
    for _ in range(5):
        queue.retry("a4")

    queue.drop("a")
    queue.done(running)

    assert await _drain(queue) == ["b1"]
    assert queue.retry("a4") == 0.5
    assert [await queue.get(), await queue.get()] == ["a4", "b2"]
    assert asyncio.get_running_loop().time() == 7


async def test_dropping_the_last_delayed_key_cancels_its_timer() -> None:
    queue = _queue()
    queue.add_after("a", 5)

    queue.drop("")

    assert queue._timer is None
    assert queue.statistics().delayed == 0
