"""Waiting for a state of the world, in a way that tells what was missing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

TIMEOUT_SECONDS = 300.0
"""Seconds within which a platform is to settle; on virtual time they cost nothing."""

POLL_SECONDS = 0.25


async def eventually(
    what: str,
    look: Callable[[], Awaitable[str]],
    *,
    within: float = TIMEOUT_SECONDS,
    every: float = POLL_SECONDS,
) -> None:
    """Look until nothing is missing. ``look`` answers what still is, or an empty text."""
    missing = "nothing was looked at"
    try:
        async with asyncio.timeout(within):
            while True:
                missing = await look()
                if not missing:
                    return
                await asyncio.sleep(every)
    except TimeoutError:
        raise AssertionError(f"{what}: after {within:.0f}s still: {missing}") from None
