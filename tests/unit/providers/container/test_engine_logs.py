"""Lines of an engine that goes on sending what the container writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from datum_compute.providers.container import engine as engine_module
from datum_compute.providers.container.engine import ContainerEngine
from datum_compute.providers.container.logs import HEADER, EngineLogs
from datum_compute.providers.protocol import LinesAway, LogLine

pytestmark = pytest.mark.realtime

BEGAN = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
DATE = "date: Thu, 01 Jan 2026 12:00:00 GMT\r\n"


def _frame(at: datetime) -> bytes:
    line = f"{at:%Y-%m-%dT%H:%M:%SZ} of {at:%S}\n".encode()
    return HEADER.pack(1, len(line)) + line


class _Engine:
    """A line of each second, the first of two seconds ago; ``lines`` of them, then silence."""

    def __init__(self, lines: int, date: str = DATE) -> None:
        self._lines = lines
        self._date = date
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\n{self._date}transfer-encoding: chunked\r\n\r\n".encode())
        for number in range(self._lines):
            frame = _frame(BEGAN + timedelta(seconds=number - 2))
            writer.write(f"{len(frame):x}\r\n".encode() + frame + b"\r\n")

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


@asynccontextmanager
async def _logs_of(served: _Engine, directory: Path) -> AsyncIterator[EngineLogs]:
    path = str(directory / "engine.sock")
    async with (
        await asyncio.start_unix_server(served.serve, path),
        ContainerEngine(path) as engine,
    ):
        yield EngineLogs(lambda: engine)
        served.close()


async def _read(logs: EngineLogs) -> list[LogLine]:
    async with asyncio.timeout(10):
        return [line async for line in logs.read("c", None, None, follow=False)]


async def test_a_read_ends_with_the_second_in_which_it_began(tmp_path: Path) -> None:
    async with _logs_of(_Engine(lines=10), tmp_path) as logs:
        found = await _read(logs)

    assert [line.text for line in found] == ["of 58", "of 59", "of 00"]


@pytest.mark.parametrize("date", [DATE, ""], ids=["with a time", "without a time"])
async def test_an_engine_that_falls_silent_in_its_answer_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, date: str
) -> None:
    monkeypatch.setattr(engine_module, "CALL_SECONDS", 0.05)
    async with _logs_of(_Engine(lines=1, date=date), tmp_path) as logs:
        with pytest.raises(LinesAway, match="broke off"):
            await _read(logs)
