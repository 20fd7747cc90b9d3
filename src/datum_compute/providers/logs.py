"""The lines of an Instance's containers, from whatever keeps them.

Each container has lines of its own; they are merged by time. A reader that follows goes on over
restarts of a container, until the Instance is removed.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import Protocol

from datum_compute.providers.protocol import LinesAway, LogLine

LONGEST_LINE = 256 * 1024
"""A longer line is cut into several."""
LOOK_SECONDS = 30.0
"""Until a reader that follows looks again for containers, unless a change is recorded before."""
FIRST_RETRY_SECONDS = 1.0
"""Until what keeps the lines is asked again after it did not answer; doubled each time, up to
``LOOK_SECONDS``."""
LAST_LINES_SECONDS = 1.0
"""How long the lines of a removed Instance are still read."""


class ContainerGone(Exception):
    """The container was removed, and its lines with it."""


class ContainerLines(Protocol):
    """The lines of single containers. Both methods raise ``LinesAway``."""

    async def containers(self, uid: str) -> Sequence[str]:
        """A key for each container of the Instance with this uid."""
        ...

    def read(
        self, container: str, tail: int | None, since: datetime | None, *, follow: bool
    ) -> AsyncGenerator[LogLine, None]:
        """From the last ``tail`` lines on, or all. Raises ``ContainerGone``. With ``follow``, until
        the container ends."""
        ...


class _Follower:
    """What one reader waits for: a change of the Instance, or its removal."""

    def __init__(self) -> None:
        self.removed = False
        self.changed = asyncio.Event()

    def wake(self) -> None:
        """Wakes all who wait; who waits from now on waits for the next change."""
        self.changed.set()
        self.changed = asyncio.Event()


class FollowableLogs:
    """The lines of Instances; see ``LogSource``."""

    def __init__(self, source: ContainerLines) -> None:
        self._source = source
        self._followers: dict[str, set[_Follower]] = {}

    def record_change(self, uid: str) -> None:
        """The containers of an Instance may have changed: one was created, started or ended."""
        for follower in self._followers.get(uid, ()):
            follower.wake()

    def record_removal(self, uid: str) -> None:
        for follower in self._followers.get(uid, ()):
            follower.removed = True
            follower.wake()

    async def lines(
        self, uid: str, *, tail: int | None, since: datetime | None, follow: bool
    ) -> AsyncIterator[LogLine]:
        if not follow:
            async with aclosing(self._past(uid, tail, since)) as past:
                async for line in past:
                    yield line
            return
        follower = _Follower()
        self._followers.setdefault(uid, set()).add(follower)
        queue: asyncio.Queue[LogLine | None] = asyncio.Queue(maxsize=1000)
        reader = asyncio.get_running_loop().create_task(
            self._follow(uid, tail, since, follower, queue), name=f"logs of {uid}"
        )
        try:
            while (found := await queue.get()) is not None:
                yield found
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
            self._followers[uid].discard(follower)
            if not self._followers[uid]:
                del self._followers[uid]

    async def _past(
        self, uid: str, tail: int | None, since: datetime | None
    ) -> AsyncGenerator[LogLine, None]:
        """The lines of all its containers, by time. They are read as they are taken: a program may
        have written more than there is memory."""
        names = await self._source.containers(uid)
        merged = _merge([self._past_of(each, tail, since) for each in names])
        async with aclosing(merged):
            if tail is None or len(names) < 2:
                async for line in merged:
                    yield line
                return
            last: deque[LogLine] = deque(maxlen=tail)
            async for line in merged:
                last.append(line)
        for line in last:
            yield line

    async def _past_of(
        self, container: str, tail: int | None, since: datetime | None
    ) -> AsyncGenerator[LogLine, None]:
        """What is written while it is read comes after the last ``tail`` lines: after so many it
        ends."""
        if tail == 0:
            return
        taken = 0
        with suppress(ContainerGone):
            async with aclosing(self._source.read(container, tail, since, follow=False)) as lines:
                async for line in lines:
                    yield line
                    taken += 1
                    if taken == tail:
                        return

    async def _follow(
        self,
        uid: str,
        tail: int | None,
        since: datetime | None,
        follower: _Follower,
        queue: asyncio.Queue[LogLine | None],
    ) -> None:
        """One reader for each container, for as long as the Instance is there."""
        readers: dict[str, asyncio.Task[None]] = {}
        failed = 0
        try:
            while not follower.removed:
                changed = follower.changed
                try:
                    for container in await self._source.containers(uid):
                        if container not in readers:
                            work = self._follow_one(container, tail, since, follower, queue)
                            readers[container] = asyncio.get_running_loop().create_task(work)
                    failed = 0
                except LinesAway:
                    failed += 1
                await _wait(changed, failed)
            # What was written until the end is read to its end.
            if readers:
                await asyncio.wait(readers.values(), timeout=LAST_LINES_SECONDS)
        finally:
            for reader in readers.values():
                reader.cancel()
            await asyncio.gather(*readers.values(), return_exceptions=True)
        await queue.put(None)

    async def _follow_one(
        self,
        container: str,
        tail: int | None,
        since: datetime | None,
        follower: _Follower,
        queue: asyncio.Queue[LogLine | None],
    ) -> None:
        """The stream ends whenever the container does; then it goes on where it ended."""
        last: datetime | None = None
        repeated = failed = 0
        while True:
            changed = follower.changed
            skip, seen = repeated, 0
            try:
                async with aclosing(
                    self._source.read(container, tail, last or since, follow=True)
                ) as new:
                    async for line in new:
                        failed = 0
                        # Reading anew begins with the lines of the last second.
                        if last is not None and seen < skip and line.at == last:
                            seen += 1
                            continue
                        repeated = repeated + 1 if line.at == last else 1
                        last = line.at
                        await queue.put(line)
                failed = 0
            except ContainerGone:
                return
            except LinesAway:
                failed += 1
            tail = None if last is not None else tail
            await _wait(changed, failed)


async def _merge(
    sources: Sequence[AsyncGenerator[LogLine, None]],
) -> AsyncGenerator[LogLine, None]:
    """By time. The lines of one source keep their order, also those of the same time: podman has
    whole seconds."""
    heads: list[tuple[datetime, int, LogLine]] = []

    async def take(index: int) -> None:
        line = await anext(sources[index], None)
        if line is not None:
            heapq.heappush(heads, (line.at, index, line))

    try:
        for index in range(len(sources)):
            await take(index)
        while heads:
            _, index, line = heapq.heappop(heads)
            yield line
            await take(index)
    finally:
        for each in sources:
            await each.aclose()


async def _wait(changed: asyncio.Event, failed: int) -> None:
    """Until a change is recorded, or it is time to look again."""
    seconds = FIRST_RETRY_SECONDS * 2 ** min(failed - 1, 16) if failed else LOOK_SECONDS
    with suppress(TimeoutError):
        await asyncio.wait_for(changed.wait(), min(seconds, LOOK_SECONDS))


class LineSplitter:
    """Cuts what a stream brings into lines with a time."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, content: bytes) -> list[LogLine]:
        *lines, self._rest = (self._rest + content).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            lines.append(self._rest)
            self._rest = b""
        return [line for line in map(parse_line, lines) if line is not None]

    def feed_frame(self, content: bytes) -> list[LogLine]:
        """A frame begins with a time, also where it continues a long line."""
        if self._rest and parse_line(content) is not None:
            content = content.partition(b" ")[2]
        return self.feed(content)

    def end(self) -> list[LogLine]:
        """What is left when the stream has ended without a line end."""
        return self.feed(b"\n") if self._rest else []


def parse_line(line: bytes) -> LogLine | None:
    """A line as engines and Kubernetes write it: a time, a space, the text. None where there is
    no time."""
    stamp, _, text = line.decode(errors="replace").partition(" ")
    try:
        at = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return LogLine(at.astimezone(UTC), text.rstrip("\r"))
