"""The transport without a socket: requests go to a server's handler in the same loop.

The handler is a constructor argument; nothing of the server is imported here. Only what HTTP
could carry crosses: text, bytes and chunks of bytes, so the two sides share no object.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from datum_compute.client import errors
from datum_compute.client.transport import (
    Handler,
    HttpRequest,
    HttpResponse,
    ServerGone,
    asks_for_stream,
    close_stream,
)


class InProcessTransport:
    """Carries requests to ``handler``. It runs in the caller's task, so cancelling the call
    cancels the handler, as a closed connection would."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._closed = False

    async def send(self, request: HttpRequest, *, timeout: float | None = None) -> HttpResponse:
        if self._closed:
            raise errors.ConnectFailed("the transport is closed")
        try:
            async with asyncio.timeout(timeout) as scope:
                response = await self._handler(_copy(request))
                if response.stream is not None and not asks_for_stream(request):
                    return await _collect(response, response.stream)
        except ServerGone as gone:
            kind = errors.Disconnected if gone.accepted else errors.ConnectFailed
            raise kind(str(gone)) from gone
        except TimeoutError as error:
            if not scope.expired():
                raise  # from within the handler
            raise errors.TimedOut(f"no answer within {timeout:g} s") from error
        if response.taken is not None:
            response.taken()
        if response.stream is None:
            return HttpResponse(response.status, dict(response.headers), bytes(response.body))
        return HttpResponse(
            response.status, dict(response.headers), stream=_Chunks(response.stream)
        )

    async def close(self) -> None:
        self._closed = True


async def _collect(response: HttpResponse, stream: AsyncIterator[bytes]) -> HttpResponse:
    try:
        body = b"".join([chunk async for chunk in stream])
    finally:
        await close_stream(stream)
    return HttpResponse(response.status, dict(response.headers), body)


def _copy(request: HttpRequest) -> HttpRequest:
    return HttpRequest(
        request.method,
        request.path,
        tuple(request.query),
        dict(request.headers),
        bytes(request.body),
        stream=request.stream,
        with_managed_fields=False,  # the client would drop them
    )


class _Chunks:
    """The server's stream as the receiver sees it.

    Not a generator: closing one that was never started would not close the server's stream.
    """

    def __init__(self, stream: AsyncIterator[bytes]) -> None:
        self._stream = stream

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            return bytes(await anext(self._stream))
        except ServerGone as gone:
            raise errors.Disconnected(str(gone)) from gone

    async def aclose(self) -> None:
        await close_stream(self._stream)
