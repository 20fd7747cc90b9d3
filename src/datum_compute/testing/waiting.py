"""Waiting for the world to become as it should, with a reason when it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable

STEP_SECONDS = 0.05
"""Between two looks. On virtual time this costs nothing; on real time, a glance."""


class NotYet(AssertionError):
    """The world has not become as expected within the time given."""


async def eventually(
    holds: Callable[[], bool | Awaitable[bool]],
    what: str | Callable[[], object],
    *,
    within: float = 60.0,
) -> None:
    """Return once ``holds`` answers yes. ``what`` says what was expected, or is asked for
    what there is instead, when time is up."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    while True:
        answer = holds()
        if isawaitable(answer):
            answer = await answer
        if answer:
            return
        if loop.time() >= deadline:
            missing = what() if callable(what) else what
            raise NotYet(f"not within {within:g} s: {missing}")
        await asyncio.sleep(STEP_SECONDS)
