"""One connection to a server: a request goes out, its response comes in, then the next.

A connection never repeats a request. Whatever ends it while a response is awaited is
``Disconnected``: the server may have acted on the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

from datum_compute.client import errors
from datum_compute.client.http.faults import MalformedResponse, fault_of
from datum_compute.client.http.response_parser import ResponseParser
from datum_compute.client.transport import HttpResponse

MAX_BUFFERED = 128 * 1024
"""Bytes of a stream kept for a slow reader before the socket is no longer read. A guess."""


class HttpConnection(asyncio.Protocol):
    """Made by a connector; kept by a pool while no request uses it."""

    def __init__(self, server: str, max_body: int = 0) -> None:
        """``server`` is for messages; ``max_body`` is the parser's."""
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._parser = ResponseParser(max_body=max_body)
        self._transport: asyncio.Transport | None = None
        self._failure: errors.Disconnected | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._in_use = False
        self._is_streaming = False
        self._is_paused = False
        self._sender: asyncio.Task[None] | None = None
        self._has_room: asyncio.Future[None] | None = None
        self.closed: asyncio.Future[None] = self._loop.create_future()
        """Done once the socket is closed."""

    @property
    def is_ready(self) -> bool:
        """Whether a request can be sent now."""
        return not self._in_use and self._failure is None and not self._is_closing()

    async def exchange(
        self,
        method: str,
        request: bytes,
        *,
        stream: bool,
        outgoing: AsyncIterator[bytes] | None = None,
    ) -> HttpResponse:
        """Write the request at once, then wait for its response: the whole of it, or with
        ``stream`` the head of a successful one. ``outgoing`` is sent once the server has switched
        protocols. Raises ``Disconnected``."""
        assert self.is_ready
        assert self._transport is not None
        self._in_use = True
        parser = self._parser
        parser.expect(method, upgrade=outgoing is not None)
        self._transport.write(request)
        while True:
            if stream and parser.has_head and parser.status < 300:
                self._is_streaming = True
                if outgoing is not None and parser.status == 101:
                    self._sender = self._loop.create_task(self._send_all(outgoing))
                return HttpResponse(parser.status, parser.headers, stream=ResponseStream(self))
            if parser.is_complete:
                self._in_use = not parser.keeps_alive
                return HttpResponse(parser.status, parser.headers, parser.take())
            await self._wait_received()

    async def read_chunk(self) -> bytes:
        """The next part of a streamed body, empty at its end. Raises ``Disconnected``."""
        while not (chunk := self._parser.take()) and not self._parser.is_complete:
            await self._wait_received()
        self._set_paused(False)
        return chunk

    def abort(self, reason: str = "the connection is closed") -> None:
        """Close without waiting for the server. A pending read raises ``Disconnected``."""
        self._fail(reason)
        if self._sender is not None:
            self._sender.cancel()
        if self._transport is not None:
            # close() would wait until the server answers the TLS shutdown.
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not isinstance: uvloop's transports are not subclasses.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if not self._in_use:
            self.abort("the server sent bytes without a request")
            return
        try:
            self._parser.feed(data)
        except MalformedResponse as error:
            self._fail(f"not a valid HTTP response: {error}", error)
            self.abort()
            return
        if self._is_streaming and self._parser.buffered > MAX_BUFFERED:
            self._set_paused(True)
        self._wake()

    def pause_writing(self) -> None:
        self._has_room = self._loop.create_future()

    def resume_writing(self) -> None:
        waiting, self._has_room = self._has_room, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if self._sender is not None:
            self._sender.cancel()
        if error is None and self._in_use and self._failure is None:
            try:
                self._parser.feed_eof()
            except MalformedResponse as malformed:
                self._fail(str(malformed), malformed)
        self._fail(str(error or "") or "the server closed the connection", error)
        if not self.closed.done():
            self.closed.set_result(None)

    def _set_paused(self, paused: bool) -> None:
        # uvloop raises on a transport that is closing.
        if paused is self._is_paused or self._transport is None or self._transport.is_closing():
            return
        self._is_paused = paused
        if paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    async def _send_all(self, outgoing: AsyncIterator[bytes]) -> None:
        """The next part once the server has taken the one before; its end is passed on."""
        assert self._transport is not None
        async for data in outgoing:
            self._transport.write(data)
            if self._has_room is not None:
                await self._has_room
        if self._transport.can_write_eof():  # not over TLS
            self._transport.write_eof()

    async def _wait_received(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, reason: str, cause: Exception | None = None) -> None:
        if self._failure is None:  # keep the first reason: later ones follow from it
            fault = fault_of(cause) if cause is not None else None
            self._failure = errors.Disconnected(reason, server=self._server, fault=fault)
            self._failure.__cause__ = cause
        self._wake()


class ResponseStream:
    """A body read as it arrives. Its connection ends with it."""

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        chunk = await self._connection.read_chunk()
        if not chunk:
            await self.aclose()
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        self._connection.abort("the stream is closed")
