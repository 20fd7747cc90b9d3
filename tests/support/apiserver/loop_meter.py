"""How an event loop goes on while a request is carried out."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopMeter:
    """Counts the turns of the loop, and the CPU time of its longest one. Other threads, other
    processes and the garbage collector do not count."""

    def __init__(self) -> None:
        self.turns = 0
        self.longest_seconds = 0.0

    async def measure(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        gc.collect()
        gc.disable()
        try:
            before = time.thread_time()
            while not task.done():
                await asyncio.sleep(0)
                now = time.thread_time()
                self.turns += 1
                self.longest_seconds = max(self.longest_seconds, now - before)
                before = now
        finally:
            gc.enable()
        return await task
