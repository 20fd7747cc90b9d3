"""The subresource ``log``: lines as plain text, from a source outside the server.

The server stores no lines. A :class:`LogSubresource` says which kind has them, on planes of
which types, and where they come from. A client gets the lines there are in one response or,
with ``follow``, a stream that ends with the source, the object, the server or the connection.

Discovery does not list it: there it would be part of a definition, and a
CustomResourceDefinition cannot declare it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from datum_compute.api.planes import PlaneType
from datum_compute.apiserver import errors
from datum_compute.apiserver.kinds.served_kind import ServedKind
from datum_compute.apiserver.objects.planes import Plane
from datum_compute.apiserver.request.context import RequestContext
from datum_compute.apiserver.storage.protocol import StoreEvent
from datum_compute.client.streams import InterruptibleStream
from datum_compute.client.transport import HttpResponse, close_stream
from datum_compute.env import Environment

SUBRESOURCE = "log"
LINGER_SECONDS = 1.0
"""How long a stream may go on after its object is deleted: the source's last lines come at about
the same time. A guess."""

BATCH_BYTES = 256 * 1024
"""Of lines that are sent at once: a log may be larger than the memory of the server."""

TimedLine = tuple[datetime, str]

_FLAGS = {"": False, "false": False, "0": False, "False": False}
_FLAGS |= {"true": True, "1": True, "True": True}


class LogsUnavailable(Exception):
    """The lines cannot be reached; the message says why."""


class ReadLines(Protocol):
    def __call__(
        self,
        plane: str,
        obj: Mapping[str, Any],
        *,
        tail: int | None,
        since: datetime | None,
        follow: bool,
    ) -> AsyncIterator[TimedLine]:
        """The lines of an object of a plane, oldest first. Raises ``LogsUnavailable``, also when
        they are read."""
        ...


@dataclass(frozen=True, slots=True)
class LogSubresource:
    """Which objects have lines, and their source."""

    resource: str
    """Plural and group: ``instances.compute.datumapis.com``."""
    plane_types: frozenset[PlaneType]
    read: ReadLines

    def matches(self, plane: Plane, kind: ServedKind) -> bool:
        return kind.resource.group_resource == self.resource and plane.type in self.plane_types


async def get(logs: LogSubresource, call: RequestContext, env: Environment) -> HttpResponse:
    stored = call.existing()
    stamped, follow = _flag(call, "timestamps"), _flag(call, "follow")
    tail, since = call.number("tailLines"), _since(call, env)
    obj = call.plane.writer.read(call.kind, stored)
    try:
        lines = logs.read(call.plane.name, obj, tail=tail, since=since, follow=follow)
        if follow:
            stream = LogStream(call, lines, stamped=stamped)
            return HttpResponse(200, errors.TEXT_HEADERS, stream=stream)
        batches = _batches(lines, stamped)
        first = await anext(batches, b"")
    except LogsUnavailable as error:
        raise errors.ApiError(503, "ServiceUnavailable", str(error)) from error
    if len(first) < BATCH_BYTES:
        return HttpResponse(200, errors.TEXT_HEADERS, first)
    return HttpResponse(200, errors.TEXT_HEADERS, stream=_after(first, batches))


async def _batches(lines: AsyncIterator[TimedLine], stamped: bool) -> AsyncGenerator[bytes, None]:
    """The lines there are, some at a time; all but the last have :data:`BATCH_BYTES` or more."""
    parts, size = [], 0
    try:
        async for each in lines:
            part = _rendered(each, stamped)
            parts.append(part)
            size += len(part)
            if size >= BATCH_BYTES:
                yield b"".join(parts)
                parts, size = [], 0
        yield b"".join(parts)
    finally:
        await close_stream(lines)


async def _after(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(rest):
        yield first
        async for each in rest:
            yield each


def _flag(call: RequestContext, key: str) -> bool:
    text = call.query.get(key, "")
    found = _FLAGS.get(text)
    if found is None:
        raise errors.bad_request(f'invalid value "{text}" for {key}: must be true or false')
    return found


def _since(call: RequestContext, env: Environment) -> datetime | None:
    seconds = call.number("sinceSeconds")
    if seconds is None:
        return None
    try:
        return env.now() - timedelta(seconds=seconds)
    except OverflowError:
        return None  # before all times: every line


def _rendered(line: TimedLine, stamped: bool) -> bytes:
    at, text = line
    stamp = f"{at:%Y-%m-%dT%H:%M:%S.%f}000Z " if stamped else ""
    return f"{stamp}{text}\n".encode()


class LogStream:
    """Lines as they come, until some time after their object is deleted."""

    def __init__(
        self, call: RequestContext, lines: AsyncIterator[TimedLine], *, stamped: bool
    ) -> None:
        self._table = call.table
        self._place = (call.target.namespace, call.target.name)
        self._lines = InterruptibleStream(lines)
        self._stamped = stamped
        self._timer: asyncio.TimerHandle | None = None
        self._usage = call.usage
        self._has_ended = False
        self._usage.open_watch()
        self._table.add_sink(self)

    def offer(self, event: StoreEvent, shared: dict[Any, bytes]) -> None:
        if event.deleted and (event.after.namespace, event.after.name) == self._place:
            loop = asyncio.get_running_loop()
            self._timer = self._timer or loop.call_later(LINGER_SECONDS, self.end)

    def end(self) -> None:
        """No more lines, whether or not the source has more."""
        if self._has_ended:
            return
        self._has_ended = True
        self._usage.close_watch()
        self._table.remove_sink(self)
        if self._timer is not None:
            self._timer.cancel()
        self._lines.interrupt(StopAsyncIteration())

    def __aiter__(self) -> LogStream:
        return self

    async def __anext__(self) -> bytes:
        try:
            return _rendered(await anext(self._lines), self._stamped)
        except StopAsyncIteration:
            self.end()
            raise

    async def aclose(self) -> None:
        """The client reads no more."""
        is_being_read = self._lines.is_being_read
        self.end()
        if not is_being_read:  # else the cancellation ends the source
            await self._lines.aclose()
