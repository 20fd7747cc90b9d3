"""How the lines of an Instance are followed while its containers come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime, timedelta

import pytest

from datum_compute.providers.logs import LOOK_SECONDS, ContainerGone, FollowableLogs
from datum_compute.providers.protocol import LinesAway, LogLine
from datum_compute.testing.environment import START

UID = "u1"


class _Engine:
    """Containers in memory, each with its lines; counts how often it is asked."""

    def __init__(self) -> None:
        self.lines: dict[str, list[LogLine]] = {}
        self.answers = True
        self.asked = 0

    def write(self, container: str, text: str) -> None:
        lines = self.lines.setdefault(container, [])
        lines.append(LogLine(START + timedelta(seconds=len(lines)), text))

    async def containers(self, uid: str) -> list[str]:
        self._ask()
        return sorted(self.lines)

    async def read(
        self, container: str, tail: int | None, since: datetime | None, *, follow: bool
    ) -> AsyncGenerator[LogLine, None]:
        """Ends after the lines there are, as where the container has ended."""
        self._ask()
        if container not in self.lines:
            raise ContainerGone(container)
        lines = list(self.lines[container])
        for line in lines if tail is None else lines[max(0, len(lines) - tail) :]:
            if since is None or line.at >= since:
                yield line

    def _ask(self) -> None:
        self.asked += 1
        if not self.answers:
            raise LinesAway("the engine is away")


class _Reader:
    def __init__(self, logs: FollowableLogs) -> None:
        self.texts: list[str] = []
        self._logs = logs
        self.task = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        async for line in self._logs.lines(UID, tail=None, since=None, follow=True):
            self.texts.append(line.text)


@pytest.fixture
def engine() -> _Engine:
    return _Engine()


@pytest.fixture
def logs(engine: _Engine) -> FollowableLogs:
    return FollowableLogs(engine)


async def test_a_reader_waits_for_changes_and_asks_seldom(
    engine: _Engine, logs: FollowableLogs
) -> None:
    engine.write("web", "one")
    reader = _Reader(logs)
    await asyncio.sleep(LOOK_SECONDS * 100 - 1)
    assert reader.texts == ["one"]
    # The list and the one container, once in each interval.
    assert engine.asked <= 200
    reader.task.cancel()


async def test_a_restarted_container_is_read_on_at_once_when_the_change_is_reported(
    engine: _Engine, logs: FollowableLogs
) -> None:
    engine.write("web", "one")
    reader = _Reader(logs)
    await asyncio.sleep(0.1)
    engine.write("web", "two")
    logs.record_change(UID)
    await asyncio.sleep(0.1)
    assert reader.texts == ["one", "two"]
    reader.task.cancel()


async def test_a_new_container_is_found_at_once_when_the_change_is_reported(
    engine: _Engine, logs: FollowableLogs
) -> None:
    reader = _Reader(logs)
    await asyncio.sleep(0.1)
    engine.write("web", "one")
    logs.record_change(UID)
    await asyncio.sleep(0.1)
    assert reader.texts == ["one"]
    reader.task.cancel()


async def test_an_engine_that_is_away_is_asked_less_and_less_often(
    engine: _Engine, logs: FollowableLogs
) -> None:
    engine.answers = False
    reader = _Reader(logs)
    await asyncio.sleep(LOOK_SECONDS * 10)
    assert engine.asked <= 16
    engine.answers = True
    engine.write("web", "one")
    await asyncio.sleep(LOOK_SECONDS)
    assert reader.texts == ["one"]
    reader.task.cancel()


async def test_a_reader_ends_with_the_last_lines_of_a_removed_instance(
    engine: _Engine, logs: FollowableLogs
) -> None:
    engine.write("web", "one")
    reader = _Reader(logs)
    await asyncio.sleep(0.1)
    engine.write("web", "last")
    logs.record_removal(UID)
    await reader.task
    assert reader.texts == ["one", "last"]


async def test_the_past_of_two_containers_is_merged_by_time_and_keeps_their_order(
    engine: _Engine, logs: FollowableLogs
) -> None:
    engine.lines = {
        name: [
            LogLine(START + timedelta(seconds=number // 3), f"{name}{number}")
            for number in range(6)
        ]
        for name in ("a", "b")
    }

    async def past(tail: int | None) -> list[str]:
        found = logs.lines(UID, tail=tail, since=None, follow=False)
        return [line.text async for line in found]

    merged = ["a0", "a1", "a2", "b0", "b1", "b2", "a3", "a4", "a5", "b3", "b4", "b5"]
    assert await past(None) == merged
    assert await past(4) == merged[-4:]


async def test_an_engine_that_is_away_has_no_past(engine: _Engine, logs: FollowableLogs) -> None:
    engine.answers = False
    with pytest.raises(LinesAway):
        [line async for line in logs.lines(UID, tail=None, since=None, follow=False)]
