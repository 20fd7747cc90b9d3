"""The loop under every asynchronous test."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from datum_compute.testing import loop as virtual

PROGRAM = """
import asyncio
from datum_compute.testing import loop

async def main():
    seen = []
    async def worker(name):
        for step in range(5):
            await asyncio.sleep(1)
            seen.append(f"{name}{step}")
    async with asyncio.TaskGroup() as tasks:
        for name in "abcdef":
            tasks.create_task(worker(name))
    return seen

print(" ".join(loop.run(main(), seed=7)))
"""


async def _interleaving() -> list[str]:
    seen: list[str] = []

    async def worker(name: str) -> None:
        for step in range(3):
            await asyncio.sleep(1)
            seen.append(f"{name}{step}")

    async with asyncio.TaskGroup() as tasks:
        for name in "abcd":
            tasks.create_task(worker(name))
    return seen


async def test_an_hour_of_virtual_time_passes_at_once() -> None:
    loop = asyncio.get_running_loop()

    await asyncio.sleep(3600)

    assert loop.time() == 3600


def test_seed_zero_keeps_the_order_of_asyncio() -> None:
    assert virtual.run(_interleaving())[:4] == ["a0", "b0", "c0", "d0"]


def test_a_seed_fixes_the_order_and_seeds_differ() -> None:
    orders = [virtual.run(_interleaving(), seed=seed) for seed in (1, 1, 2, 3)]

    assert orders[0] == orders[1]
    assert len({tuple(order) for order in orders}) == 3


def test_the_order_does_not_depend_on_the_process() -> None:
    """Neither hash seeds nor addresses may leak into a run."""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
        ).stdout
        for hash_seed in ("1", "2", "random")
    }

    assert len(outputs) == 1


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_callbacks_outside_tasks_keep_their_order(seed: int) -> None:
    async def main() -> list[int]:
        seen: list[int] = []
        for number in range(10):
            asyncio.get_running_loop().call_soon(seen.append, number)
        await asyncio.sleep(0.1)
        return seen

    assert virtual.run(main(), seed=seed) == list(range(10))


def test_timers_due_together_fire_in_the_order_they_were_set() -> None:
    async def main() -> list[int]:
        seen: list[int] = []
        for number in range(50):
            asyncio.get_running_loop().call_later(1, seen.append, number)
        await asyncio.sleep(2)
        return seen

    assert virtual.run(main()) == list(range(50))


def test_waiting_for_ever_is_an_error_that_names_who_waits() -> None:
    async def never() -> None:
        await asyncio.get_running_loop().create_future()

    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(never(), name="the forgotten one")

    with pytest.raises(virtual.Deadlock, match=r"the forgotten one: .*never"):
        virtual.run(main())


def test_endless_work_without_passing_time_is_an_error_that_names_it() -> None:
    async def storm() -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.sleep(5)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(storm(), name="the busy one")

    with pytest.raises(virtual.Livelock, match=r"at 5: (.|\n)*the busy one: .*storm"):
        virtual.run(main())


def test_a_ticking_clock_does_not_hide_a_wait_that_never_ends() -> None:
    async def main() -> None:
        for _ in range(1_000_000):
            await asyncio.sleep(1)

    with pytest.raises(virtual.TimeLimitReached, match="100 virtual seconds"):
        virtual.run(main(), limit=100)


def test_threads_are_refused_by_name() -> None:
    async def executor() -> None:
        await asyncio.to_thread(print)

    async def threadsafe() -> None:
        asyncio.get_running_loop().call_soon_threadsafe(print)

    with pytest.raises(RuntimeError, match="run_in_executor"):
        virtual.run(executor())
    with pytest.raises(RuntimeError, match="call_soon_threadsafe"):
        virtual.run(threadsafe())


def test_tasks_left_over_are_cancelled_and_awaited() -> None:
    ended: list[str] = []

    async def lingering() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(1)
            ended.append("lingering")

    async def main() -> asyncio.Task[None]:
        task = asyncio.create_task(lingering())
        await asyncio.sleep(1)
        return task

    task = virtual.run(main())

    assert task.cancelled()
    assert ended == ["lingering"]


def test_an_error_that_is_never_retrieved_fails_the_run() -> None:
    async def failing() -> None:
        raise ValueError("unseen")

    async def main() -> None:
        task = asyncio.create_task(failing())
        await asyncio.sleep(1)
        del task

    with pytest.raises(virtual.Unhandled) as caught:
        virtual.run(main())
    assert isinstance(caught.value.__cause__, ValueError)


def test_an_unfinished_generator_is_closed() -> None:
    closed: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(1)
            closed.append("numbers")

    async def main() -> None:
        async for _ in numbers():
            break
        await asyncio.sleep(5)

    virtual.run(main())

    assert closed == ["numbers"]


def test_cancelled_timeouts_do_not_accumulate() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual.VirtualLoop)
        for _ in range(2000):
            async with asyncio.timeout(10_000):
                await asyncio.sleep(0.001)
        return len(loop._scheduled)

    assert virtual.run(main()) < 300
