"""Waits for a state, and reports what is missing when it is not reached in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

TIMEOUT_SECONDS = 300.0
"""Seconds within which a platform must settle; virtual time makes them cheap."""

POLL_SECONDS = 0.25


async def eventually(
    what: str,
    find_missing: Callable[[], Awaitable[str]],
    *,
    within: float = TIMEOUT_SECONDS,
    every: float = POLL_SECONDS,
) -> None:
    """Poll until nothing is missing. ``find_missing`` returns what is, or an empty string."""
    missing = "never checked"
    try:
        async with asyncio.timeout(within):
            while True:
                missing = await find_missing()
                if not missing:
                    return
                await asyncio.sleep(every)
    except TimeoutError:
        raise AssertionError(f"{what}: after {within:.0f}s still: {missing}") from None
