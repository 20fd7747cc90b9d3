"""A deadline ends what takes too long, and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.client.streams import Deadline


async def test_what_takes_longer_times_out_and_the_task_goes_on() -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()

    with pytest.raises(TimeoutError), Deadline(2.0):
        await asyncio.sleep(60)

    assert loop.time() - started == pytest.approx(2.0, abs=0.1)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


@pytest.mark.parametrize("seconds", [5.0, None])
async def test_what_ends_in_time_is_left_alone(seconds: float | None) -> None:
    with Deadline(seconds):
        await asyncio.sleep(1)

    await asyncio.sleep(60)


async def test_an_error_of_the_block_passes() -> None:
    with pytest.raises(KeyError), Deadline(5.0):
        raise KeyError


async def test_a_cancellation_by_others_stays_one() -> None:
    async def work() -> None:
        with Deadline(5.0):
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await asyncio.sleep(1)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_at_the_same_moment_wins() -> None:
    async def work() -> None:
        with Deadline(5.0):
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(5.0, task.cancel)

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_inner_of_two_deadlines_ends_only_its_block() -> None:
    with Deadline(30.0):
        with pytest.raises(TimeoutError), Deadline(1.0):
            await asyncio.sleep(60)
        await asyncio.sleep(1)


async def test_the_outer_of_two_deadlines_passes_through_the_inner() -> None:
    with pytest.raises(TimeoutError), Deadline(1.0):
        with Deadline(30.0):
            await asyncio.sleep(60)
        pytest.fail("the inner block ended")
