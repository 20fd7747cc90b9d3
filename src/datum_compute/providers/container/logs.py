"""The lines of an Instance's containers, read from the engine.

The engine frames what a container writes on its two streams; a long line is cut over frames.
A read that does not follow ends with the second in which it began, by the engine's clock: a
container that writes faster than it is read would have no end.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from datetime import datetime, timedelta

from datum_compute.client.transport import close_stream
from datum_compute.providers.container.engine import (
    ContainerEngine,
    EngineRefused,
    EngineUnreachable,
)
from datum_compute.providers.logs import ContainerGone, LineSplitter
from datum_compute.providers.protocol import LinesAway, LogLine
from datum_compute.providers.sandbox import LABEL_UID

HEADER = struct.Struct(">BxxxI")


class EngineLogs:
    """See ``ContainerLines``."""

    def __init__(self, engine: Callable[[], ContainerEngine]) -> None:
        self._engine = engine

    async def containers(self, uid: str) -> list[str]:
        try:
            found = await self._engine().containers({LABEL_UID: uid})
        except (EngineUnreachable, EngineRefused) as error:
            raise LinesAway(str(error)) from error
        return sorted(str(each["Id"]) for each in found)

    async def read(
        self, container: str, tail: int | None, since: datetime | None, *, follow: bool
    ) -> AsyncGenerator[LogLine, None]:
        seconds = int(since.timestamp()) if since is not None else 0
        streams = {1: LineSplitter(), 2: LineSplitter()}
        try:
            began, chunks = await self._engine().logs(
                container, tail=tail, since=seconds, follow=follow
            )
            end = None if began is None or follow else began + timedelta(seconds=1)
            async with aclosing(split_frames(chunks)) as frames:
                async for kind, content in frames:
                    for line in streams.setdefault(kind, LineSplitter()).feed_frame(content):
                        if end is not None and line.at >= end:
                            return
                        if since is None or line.at >= _as_exact(since, line.at):
                            yield line
        except EngineRefused as error:
            kind_of = ContainerGone if error.status == 404 else LinesAway
            raise kind_of(str(error)) from error
        except EngineUnreachable as error:
            raise LinesAway(str(error)) from error
        for each in streams.values():
            for line in each.end():
                yield line


def _as_exact(since: datetime, at: datetime) -> datetime:
    """podman tells times in whole seconds: a line of the second in which it begins may be newer."""
    return since if at.microsecond else since.replace(microsecond=0)


async def split_frames(chunks: AsyncIterator[bytes]) -> AsyncGenerator[tuple[int, bytes], None]:
    """Which stream, and what was written on it; a frame that was cut off is dropped."""
    buffer = b""
    try:
        async for chunk in chunks:
            buffer += chunk
            start = 0
            while len(buffer) >= start + HEADER.size:
                kind, size = HEADER.unpack_from(buffer, start)
                end = start + HEADER.size + size
                if len(buffer) < end:
                    break
                yield kind, buffer[start + HEADER.size : end]
                start = end
            buffer = buffer[start:]
    finally:
        await close_stream(chunks)
