"""A session while a page is open: its models as they change, and the logs it follows.

The project is read only while a stream is open and shortly after. A stream pulls what it sends, so
a slow page slows nobody but itself; the connection cuts off one that reads nothing at all.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from datum_compute.cli.commands.logs.command import build_follower, chosen_instances
from datum_compute.cli.commands.logs.past import NamedLine
from datum_compute.cli.console import models
from datum_compute.cli.console.board import Board, is_detail, stream
from datum_compute.cli.console.project import CopiedProject
from datum_compute.cli.console.sessions import ConsoleSession
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError
from datum_compute.cli.main import as_command_error
from datum_compute.cli.render.printable import without_marks
from datum_compute.client import errors
from datum_compute.env import Environment

REFRESH_SECONDS = 2.0
"""After which models are computed again though nothing changed: some tell a duration."""
COMPUTE_SECONDS = 0.2
"""Between two computations of all models."""
DETAIL_SECONDS = 1.0
"""Between two computations of the details."""
IDLE_SECONDS = 60.0
"""How long the project is read on without a stream, for a page that comes back."""
LOG_LINES = 200
"""Of each instance, at the start."""
MAX_WAITING_LINES = 2000
"""Log lines that wait for a slow page; older ones are dropped, and counted."""

Start = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]
"""Starts work of a name that ends with the console."""


@dataclass
class Live(ConsoleSession):
    env: Environment
    project: CopiedProject
    board: Board
    start: Start
    streams: int = 0
    """How many are open, those of logs included."""
    focused: list[str] = field(default_factory=list)
    """What the streams of models look at, one entry for each."""
    reading: asyncio.Task[None] | None = None

    def end(self) -> None:
        self.board.end()
        if self.reading is not None:
            self.reading.cancel()

    async def watch(self, focus: str, last_event_id: str) -> AsyncIterator[bytes]:
        """The stream of models, for a page that looks at the details of ``focus``."""
        self.streams += 1
        self.focused.append(focus)
        if self.reading is None or self.reading.done():
            self.reading = self.start(self._read(), "console session")
        try:
            async for chunk in stream(self.env, self.board, focus, last_event_id):
                self.last_used = self.env.now()
                yield chunk
        finally:
            self.streams -= 1
            self.focused.remove(focus)

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        keeping = self.start(self.project.run(), "console copies")
        overview = models.Overview()
        idle_at, detailed_at = loop.time() + IDLE_SECONDS, 0.0
        detailed: set[str] = set()
        try:
            while self.streams or loop.time() < idle_at:
                if self.streams:
                    idle_at = loop.time() + IDLE_SECONDS
                if self.project.is_read:
                    await self._compute(overview)
                    wanted = {name for name in self.focused if name}
                    if loop.time() >= detailed_at or wanted - detailed:
                        await self._compute_details(wanted)
                        detailed, detailed_at = wanted, loop.time() + DETAIL_SECONDS
                await asyncio.sleep(COMPUTE_SECONDS)
                await self.project.wait_changed(REFRESH_SECONDS)
        finally:
            keeping.cancel()
            with suppress(asyncio.CancelledError):
                await keeping

    async def _compute(self, overview: models.Overview) -> None:
        found = await self.project.read(overview.compute)
        problems = {f"problems/{kind}": text for kind, text in self.project.problems.items()}
        self.board.replace({**found, **problems}, lambda key: not is_detail(key))

    async def _compute_details(self, names: set[str]) -> None:
        found: models.Models = {}
        for name in sorted(names):
            for detail in models.details(name):
                try:
                    found |= await self.project.read(detail)
                except (CommandError, errors.ClientError) as error:
                    found[f"why/{name}"] = {"error": as_command_error(error).message}
                await asyncio.sleep(0)  # others go on between two parts
        self.board.replace(found, is_detail)

    async def follow_logs(self, name: str) -> AsyncIterator[bytes]:
        """The lines of a workload or an instance: time, instance and text, each as JSON. What is
        said about an instance has no name. Raises CommandError where there is neither."""
        args = Namespace(name=name, city=None, since=None, tail=LOG_LINES)

        def choose(context: Context) -> list[dict[str, Any]]:
            context.args = args
            return chosen_instances(context)

        instances = await self.project.read(choose)
        return self._follow(self.project.context(args), instances)

    async def _follow(
        self, context: Context, instances: list[dict[str, Any]]
    ) -> AsyncIterator[bytes]:
        lines = _Lines()
        follower = build_follower(context, self.project.client(), instances, lines.show, lines.say)

        async def follow() -> None:
            try:
                await follower.run()
            except errors.ClientError as error:
                lines.say(as_command_error(error).message)
            finally:
                lines.end()

        self.streams += 1
        following = self.start(follow(), "console logs")
        try:
            yield b"\n"
            async for chunk in lines:
                yield chunk
        finally:
            self.streams -= 1
            following.cancel()


class _Lines:
    """Lines that wait for the page, in a bounded number."""

    def __init__(self) -> None:
        self._waiting: deque[list[str]] = deque(maxlen=MAX_WAITING_LINES)
        self._dropped = 0
        self._arrived = asyncio.Event()
        self._ended = False

    def show(self, lines: list[NamedLine]) -> None:
        for when, name, text in sorted(lines, key=lambda each: each[0]):
            self._push([when.isoformat(), name, without_marks(text)])

    def say(self, text: str) -> None:
        self._push(["", "", text])

    def end(self) -> None:
        self._ended = True
        self._arrived.set()

    def _push(self, line: list[str]) -> None:
        self._dropped += len(self._waiting) == MAX_WAITING_LINES
        self._waiting.append(line)
        self._arrived.set()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while not self._ended or self._waiting:
            await self._arrived.wait()
            self._arrived.clear()
            lines, dropped = list(self._waiting), self._dropped
            self._waiting.clear()
            self._dropped = 0
            if dropped:
                lines.insert(0, ["", "", f"{dropped} lines were left out"])
            if lines:
                yield b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
