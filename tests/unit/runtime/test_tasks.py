"""Task groups: order of stopping, first error, nothing left behind."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from datum_compute.runtime.tasks import TaskGroup, gather_all


class Log:
    """Children that record when they were cancelled and when they had stopped."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def child(self, name: str, *, takes: float = 0.0) -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            self.lines.append(f"{name} cancelled")
            await asyncio.sleep(takes)
            self.lines.append(f"{name} stopped")
            raise


async def _fail(after: float, message: str) -> None:
    await asyncio.sleep(after)
    raise ValueError(message)


async def test_children_are_stopped_in_reverse_order_one_by_one() -> None:
    log = Log()

    with pytest.raises(RuntimeError, match="enough"):
        async with TaskGroup("group") as tasks:
            for name in "abc":
                tasks.start(log.child(name, takes=1), name=name)
            await asyncio.sleep(1)
            raise RuntimeError("enough")

    assert log.lines == [
        "c cancelled",
        "c stopped",
        "b cancelled",
        "b stopped",
        "a cancelled",
        "a stopped",
    ]


async def test_leaving_the_block_waits_for_the_children() -> None:
    ended: list[float] = []

    async def child(seconds: float) -> None:
        await asyncio.sleep(seconds)
        ended.append(seconds)

    async with TaskGroup("group") as tasks:
        tasks.start(child(2), name="two")
        tasks.start(child(1), name="one")

    assert ended == [1, 2]


async def test_the_first_error_is_raised_and_stops_the_other_children() -> None:
    log = Log()

    with pytest.raises(ValueError, match="first") as caught:
        async with TaskGroup("group") as tasks:
            tasks.start(log.child("a"), name="a")
            tasks.start(_fail(1, "first"), name="failing")
            await asyncio.sleep(1000)

    assert asyncio.get_running_loop().time() < 10
    assert log.lines == ["a cancelled", "a stopped"]
    assert not hasattr(caught.value, "__notes__")


async def test_an_error_while_waiting_for_children_is_raised_too() -> None:
    with pytest.raises(ValueError, match="late"):
        async with TaskGroup("group") as tasks:
            tasks.start(_fail(5, "late"), name="failing")


async def test_later_errors_become_notes() -> None:
    async def fails_when_stopped() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            raise KeyError("second")

    with pytest.raises(ValueError, match="first") as caught:
        async with TaskGroup("group") as tasks:
            tasks.start(fails_when_stopped(), name="a")
            tasks.start(_fail(1, "first"), name="b")

    assert caught.value.__notes__ == ["afterwards in group: KeyError('second')"]


async def test_cancelling_the_owner_stops_all_children_and_stays_a_cancellation() -> None:
    log = Log()

    async def owner() -> None:
        async with TaskGroup("group") as tasks:
            tasks.start(log.child("a", takes=1), name="a")
            tasks.start(log.child("b", takes=1), name="b")

    task = asyncio.create_task(owner())
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.sleep(0.5)
    task.cancel()  # a second cancellation leaves no child behind
    await asyncio.wait([task])

    assert task.cancelled()
    assert log.lines == ["b cancelled", "b stopped", "a cancelled", "a stopped"]


async def test_some_children_can_be_stopped() -> None:
    log = Log()

    async with TaskGroup("group") as tasks:
        a = tasks.start(log.child("a"), name="a")
        b = tasks.start(log.child("b"), name="b")
        c = tasks.start(log.child("c"), name="c")
        await asyncio.sleep(1)
        await tasks.stop(a, c)
        assert log.lines == ["c cancelled", "c stopped", "a cancelled", "a stopped"]
        assert not b.done()
        await tasks.stop(b)


async def test_a_closed_group_starts_nothing() -> None:
    async with TaskGroup("group") as tasks:
        pass

    with pytest.raises(RuntimeError, match="'group' does not run"):
        tasks.start(asyncio.sleep(1), name="late")


async def test_a_group_inside_a_child_ends_with_it() -> None:
    log = Log()

    async def inner() -> None:
        async with TaskGroup("inner") as tasks:
            tasks.start(log.child("deep"), name="deep")

    with pytest.raises(ValueError, match="outer"):
        async with TaskGroup("outer") as tasks:
            tasks.start(inner(), name="inner")
            await asyncio.sleep(1)
            raise ValueError("outer")

    assert log.lines == ["deep cancelled", "deep stopped"]


async def test_every_gathered_call_ends_before_the_first_error_is_raised() -> None:
    ended: list[int] = []
    running = most = 0

    async def call(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(number)
        running -= 1
        ended.append(number)
        if number == 1:
            raise ValueError("one")
        return number

    with pytest.raises(ValueError, match="one"):
        await gather_all([call(1), call(3), call(2)])
    assert ended == [1, 2, 3]

    assert await gather_all([call(2), call(0), call(3), call(0)], parallel=2) == [2, 0, 3, 0]
    assert most == 3, "all three at once before, two at a time since"


async def test_calls_that_a_cancellation_kept_from_starting_are_closed() -> None:
    async def call() -> None:
        await asyncio.sleep(1)

    calls = [call(), call()]
    gathering = asyncio.create_task(gather_all(calls))
    await asyncio.sleep(0)
    gathering.cancel()
    await asyncio.wait([gathering])

    assert [inspect.getcoroutinestate(each) for each in calls] == [inspect.CORO_CLOSED] * 2
