"""The queue on the loop that production uses, which keeps time in whole milliseconds."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from datum_compute.runtime.backoff import Backoff
from datum_compute.runtime.workqueue.queue import Queue


@pytest.mark.realtime
def test_delays_below_a_millisecond_are_kept() -> None:
    """For those, uvloop's timer handle has no due time."""

    async def both() -> set[str]:
        queue: Queue[str] = Queue(Backoff(1.0, 30.0), lambda: 0.5)
        queue.add_after("one", 0.0002)
        queue.add_after("other", 0.0001)
        async with asyncio.timeout(10):
            return {await queue.get(), await queue.get()}

    # Which of them is first depends on how quickly the two lines above ran.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(both()) == {"one", "other"}
