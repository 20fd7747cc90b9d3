"""The lines of an Instance's containers, read from the engine.

The engine frames what a container writes on its two streams; a line may be cut over frames. A
reader that follows goes on over restarts of the container, until the Instance is removed.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from datetime import UTC, datetime

from datum_compute.client.transport import close_stream
from datum_compute.providers.container.engine import (
    ContainerEngine,
    EngineRefused,
    EngineUnreachable,
)
from datum_compute.providers.container.spec import LABEL_UID
from datum_compute.providers.protocol import LogLine

HEADER = struct.Struct(">BxxxI")
LONGEST_LINE = 256 * 1024
"""A longer line is cut into several."""
RETRY_SECONDS = 1.0
"""Until a reader that follows looks again for the container, or for the engine."""


class ContainerLogs:
    def __init__(self, engine: Callable[[], ContainerEngine]) -> None:
        self._engine = engine
        self._removed: dict[str, asyncio.Event] = {}
        """Set when an Instance is removed; only for those that are followed."""

    def record_removal(self, uid: str) -> None:
        if removed := self._removed.pop(uid, None):
            removed.set()

    async def lines(
        self, uid: str, *, tail: int | None, since: datetime | None, follow: bool
    ) -> AsyncIterator[LogLine]:
        if not follow:
            for line in await self._past(uid, tail, since):
                yield line
            return
        removed = self._removed.setdefault(uid, asyncio.Event())
        queue: asyncio.Queue[LogLine | None] = asyncio.Queue(maxsize=1000)
        reader = asyncio.get_running_loop().create_task(
            self._follow(uid, tail, since, removed, queue), name=f"logs of {uid}"
        )
        try:
            while (found := await queue.get()) is not None:
                yield found
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def _past(self, uid: str, tail: int | None, since: datetime | None) -> list[LogLine]:
        """The lines of all its containers, by time."""
        found: list[LogLine] = []
        for container in await self._containers(uid):
            found += [line async for line in self._read(container, tail, since, follow=False)]
        found.sort(key=lambda line: line.at)
        return found if tail is None else found[max(0, len(found) - tail) :]

    async def _follow(
        self,
        uid: str,
        tail: int | None,
        since: datetime | None,
        removed: asyncio.Event,
        queue: asyncio.Queue[LogLine | None],
    ) -> None:
        """One reader for each container, for as long as the Instance is there."""
        readers: dict[str, asyncio.Task[None]] = {}
        try:
            while not removed.is_set():
                try:
                    for container in await self._containers(uid):
                        if container not in readers:
                            work = self._follow_one(container, tail, since, queue)
                            readers[container] = asyncio.get_running_loop().create_task(work)
                except (EngineUnreachable, EngineRefused):
                    pass  # the engine is away; it is asked again
                try:
                    await asyncio.wait_for(removed.wait(), RETRY_SECONDS)
                except TimeoutError:
                    continue
            # What was written until the end is read to its end.
            if readers:
                await asyncio.wait(readers.values(), timeout=RETRY_SECONDS)
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
        queue: asyncio.Queue[LogLine | None],
    ) -> None:
        """The stream ends whenever the container does; then it goes on where it ended."""
        last: datetime | None = None
        repeated = 0
        while True:
            skip, seen = repeated, 0
            try:
                async with aclosing(self._read(container, tail, last or since, follow=True)) as new:
                    async for line in new:
                        # Reading anew begins with the lines of the last second.
                        if last is not None and seen < skip and line.at == last:
                            seen += 1
                            continue
                        repeated = repeated + 1 if line.at == last else 1
                        last = line.at
                        await queue.put(line)
            except EngineRefused as error:
                if error.status == 404:
                    return
            except EngineUnreachable:
                pass
            tail = None if last is not None else tail
            await asyncio.sleep(RETRY_SECONDS)

    async def _containers(self, uid: str) -> list[str]:
        return sorted(str(each["Id"]) for each in await self._engine().containers({LABEL_UID: uid}))

    async def _read(
        self, container: str, tail: int | None, since: datetime | None, *, follow: bool
    ) -> AsyncGenerator[LogLine, None]:
        seconds = int(since.timestamp()) if since is not None else 0
        rest = {1: b"", 2: b""}
        chunks = self._engine().logs(container, tail=tail, since=seconds, follow=follow)
        async with aclosing(_frames(chunks)) as frames:
            async for kind, content in frames:
                *lines, rest[kind] = (rest.get(kind, b"") + content).split(b"\n")
                if len(rest[kind]) > LONGEST_LINE:
                    lines.append(rest[kind])
                    rest[kind] = b""
                for line in lines:
                    parsed = parse_line(line)
                    if parsed is not None and (since is None or parsed.at >= since):
                        yield parsed
        for left in rest.values():
            if left and (parsed := parse_line(left)) is not None:
                yield parsed


async def _frames(chunks: AsyncIterator[bytes]) -> AsyncGenerator[tuple[int, bytes], None]:
    """Which stream, and what was written on it; a frame that was cut off is dropped."""
    buffer = b""
    try:
        async for chunk in chunks:
            buffer += chunk
            while len(buffer) >= HEADER.size:
                kind, size = HEADER.unpack_from(buffer)
                if len(buffer) < HEADER.size + size:
                    break
                yield kind, buffer[HEADER.size : HEADER.size + size]
                buffer = buffer[HEADER.size + size :]
    finally:
        await close_stream(chunks)


def parse_line(line: bytes) -> LogLine | None:
    """A line as the engine writes it: a time, a space, the text. None where there is no time."""
    stamp, _, text = line.decode(errors="replace").partition(" ")
    try:
        at = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return LogLine(at.astimezone(UTC), text.rstrip("\r"))
