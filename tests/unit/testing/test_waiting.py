"""Waiting for a state of the world."""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.testing.waiting import NotYet, eventually


async def test_returns_when_it_holds() -> None:
    loop = asyncio.get_running_loop()

    await eventually(lambda: loop.time() > 5, "five seconds")

    assert 5 < loop.time() < 6


async def test_questions_may_wait_themselves() -> None:
    async def answer() -> bool:
        await asyncio.sleep(1)
        return True

    await eventually(answer, "an answer")


async def test_gives_up_with_what_was_missing() -> None:
    with pytest.raises(NotYet, match="not within 10 s: the impossible"):
        await eventually(lambda: False, "the impossible", within=10)
    with pytest.raises(NotYet, match=r"\['b'\]"):
        await eventually(lambda: False, lambda: ["b"], within=10)
