"""A read that does not follow ends, however fast a container writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime, timedelta

import pytest

from datum_compute.providers.logs import FollowableLogs
from datum_compute.providers.protocol import LogLine
from datum_compute.testing.environment import START


class _Writing:
    """A container that writes faster than it is read."""

    async def containers(self, uid: str) -> list[str]:
        return [uid]

    async def read(
        self, container: str, tail: int | None, since: datetime | None, *, follow: bool
    ) -> AsyncGenerator[LogLine, None]:
        number = 0
        while True:
            await asyncio.sleep(0)
            yield LogLine(START + timedelta(seconds=number), str(number))
            number += 1


@pytest.mark.parametrize("tail", [0, 1, 3])
async def test_the_last_lines_end_while_the_container_writes_on(tail: int) -> None:
    lines = FollowableLogs(_Writing()).lines("u1", tail=tail, since=None, follow=False)

    async with asyncio.timeout(5):
        found = [line.text async for line in lines]

    assert found == [str(number) for number in range(tail)]
