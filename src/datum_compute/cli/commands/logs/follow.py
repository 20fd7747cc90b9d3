"""``logs --follow``: one stream for each instance, and a watch that finds new ones.

Lines are printed as they arrive, those of a short moment in the order of their times. A stream
that breaks off, because its city is disconnected or the server restarts, is opened again where it
ended. An instance that is replaced ends its stream; its successor is followed from its first line.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

from datum_compute.api.meta import Object
from datum_compute.cli.render.watch import MAX_FAILURES, TRANSIENT_ERRORS
from datum_compute.cli.tables import INSTANCES, NAMESPACE
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import EventType

RETRY_SECONDS = 1.0
HOLD_SECONDS = 0.3
"""How long a line waits for earlier ones of other instances. podman passes lines on every quarter
of a second."""
LONGEST_HOLD_SECONDS = 2.0
"""While lines keep coming, as those of the past do at the start. A guess."""
OVERLAP_SECONDS = 5.0
"""How far a new stream overlaps the one before: lines may be stored late. A guess."""
REMEMBERED = 10_000
"""Lines of one instance that are recognized when they come again."""

Line = tuple[datetime, str]
ReadPath = Callable[[str, str, float | None], str]
"""The path of the lines of an instance, by name and uid: of the last so many seconds, or None
where nothing of it was read yet."""


class RecentLines:
    """What was shown of one instance lately, so that it is not shown again."""

    def __init__(self) -> None:
        self._lines: deque[Line] = deque(maxlen=REMEMBERED)
        self._repeated: Counter[Line] = Counter()

    @property
    def last(self) -> datetime | None:
        return self._lines[-1][0] if self._lines else None

    def reopen(self) -> None:
        """The same lines may come once more."""
        self._repeated = Counter(self._lines)

    def is_new(self, line: Line) -> bool:
        if self._repeated[line] > 0:
            self._repeated[line] -= 1
            return False
        if self._lines and line[0] < self._lines[0][0]:
            return False  # older than all that was asked for
        self._lines.append(line)
        while (line[0] - self._lines[0][0]).total_seconds() > OVERLAP_SECONDS + 2:
            self._lines.popleft()
        return True


class Follower:
    """Runs until it is cancelled, or the server cannot be reached any more."""

    def __init__(
        self,
        client: ApiClient,
        *,
        matches: Callable[[Object], bool],
        path: ReadPath,
        parse: Callable[[str], Line],
        show: Callable[[list[tuple[datetime, str, str]]], None],
        say: Callable[[str], None],
        now: Callable[[], datetime],
    ) -> None:
        """``show`` prints lines with the names of their instances, ``say`` what is unavailable."""
        self._client = client
        self._matches = matches
        self._path = path
        self._parse = parse
        self._show = show
        self._say = say
        self._now = now
        self._present: dict[str, str] = {}
        """The uid of each instance that is there."""
        self._recent: dict[str, RecentLines] = {}
        self._readers: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unread: dict[str, str] = {}
        """Why an instance cannot be read, by its name."""
        self._waiting: list[tuple[datetime, str, str]] = []
        self._has_lines = asyncio.Event()

    async def run(self) -> None:
        self._start(self._watch())
        self._start(self._print())
        try:
            await self._failed
        finally:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._failed.done():
            self._failed.set_exception(error)

    async def _watch(self) -> None:
        failures = 0
        while True:
            try:
                async with self._client.watch(INSTANCES, NAMESPACE) as events:
                    async for event in events:
                        failures = 0
                        self._take(event.type, event.object)
            except (errors.Expired, *TRANSIENT_ERRORS):
                failures += 1
                if failures >= MAX_FAILURES:
                    raise
            await asyncio.sleep(RETRY_SECONDS)

    def _take(self, kind: EventType, instance: Object) -> None:
        name = instance.name
        if kind is EventType.DELETED:
            self._present.pop(name, None)
        elif kind is not EventType.BOOKMARK and self._matches(instance):
            self._present[name] = instance.metadata.uid
            if name not in self._readers:
                self._readers[name] = self._start(self._read(name))

    async def _read(self, name: str) -> None:
        while uid := self._present.get(name):
            recent = self._recent.setdefault(uid, RecentLines())
            recent.reopen()
            since = None
            if recent.last is not None:
                since = (self._now() - recent.last).total_seconds() + OVERLAP_SECONDS
            try:
                async with self._client.stream_lines(self._path(name, uid, since)) as lines:
                    self._unread.pop(name, None)
                    async for each in lines:
                        line = self._parse(each.decode("utf-8", "replace"))
                        if recent.is_new(line):
                            self._waiting.append((line[0], name, line[1]))
                            self._has_lines.set()
            except errors.Unavailable as error:
                if error.detail not in self._unread.values():  # once for a city
                    self._say(f"{name}: {error.detail}")
                self._unread[name] = error.detail
            except (errors.NotFound, *TRANSIENT_ERRORS):
                pass  # deleted, which the watch says too, or a matter of time
            await asyncio.sleep(RETRY_SECONDS)
            if self._present.get(name) != uid:
                self._recent.pop(uid, None)
        self._unread.pop(name, None)
        del self._readers[name]

    async def _print(self) -> None:
        loop = asyncio.get_running_loop()
        while await self._has_lines.wait():
            deadline = loop.time() + LONGEST_HOLD_SECONDS
            while self._has_lines.is_set() and loop.time() < deadline:
                self._has_lines.clear()
                await asyncio.sleep(HOLD_SECONDS)
            self._has_lines.clear()
            lines, self._waiting = self._waiting, []
            self._show(lines)
