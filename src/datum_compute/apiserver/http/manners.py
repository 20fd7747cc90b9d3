"""What a response over HTTP has besides its content: the time, an id, and the form of its bytes.

Clients in the same process get responses without it.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from email.utils import format_datetime
from itertools import count

import msgspec

from datum_compute.apiserver.printing.list_stream import ListStream
from datum_compute.apiserver.request.context import is_true
from datum_compute.client.transport import (
    AnswerNow,
    Handler,
    HttpRequest,
    HttpResponse,
    close_stream,
)
from datum_compute.env import Environment

MAX_PRETTY = 128 * 1024
"""Bytes of a response that is indented: deep lists become a hundred and fifty times as long."""
MIN_COMPRESSED = 128 * 1024
"""Bytes from which a response is compressed, as upstream."""
_LEVEL = 1
"""Of compression: some 1 ms for each 128 KiB, measured; higher levels take several times that."""
_MAX_ID = 64


class PoliteHandler:
    """Finishes the responses of another handler."""

    def __init__(
        self, handler: Handler, env: Environment, answer_now: AnswerNow | None = None
    ) -> None:
        self._handler = handler
        self._answer_now = answer_now
        self._env = env
        self._ids = count()
        self._first_id = env.new_uid()[:-12].encode()
        """An id of its own would cost as much as the rest of a small response."""
        self._date, self._date_ends = b"", 0.0

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._finished(request, await self._handler(request))

    def now(self, request: HttpRequest) -> HttpResponse | None:
        """The response where the handler has it at once."""
        response = self._answer_now(request) if self._answer_now is not None else None
        return self._finished(request, response) if response is not None else None

    def _finished(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        headers, body, stream = response.headers, response.body, response.stream
        if given := request.headers.get("audit-id"):
            headers = {"audit-id": given[:_MAX_ID], **headers}
            lines = self._now()
        else:
            lines = b"audit-id: %b%012x\r\n%b" % (self._first_id, next(self._ids), self._now())
        if (
            0 < len(body) <= MAX_PRETTY
            and request.query
            and is_true(dict(request.query), "pretty")
            and _is_json(response)
        ):
            body = msgspec.json.format(body, indent=2) + b"\n"
        if "gzip" in request.headers.get("accept-encoding", ""):
            if len(body) >= MIN_COMPRESSED:
                body = zlib.compress(body, _LEVEL, wbits=_GZIP)
                headers = {**headers, **_COMPRESSED}
            elif isinstance(stream, ListStream):
                stream = _CompressedStream(stream)
                headers = {**headers, **_COMPRESSED}
        return HttpResponse(response.status, headers, body, stream, response.taken, lines)

    def _now(self) -> bytes:
        """The line with the time of the clock, which is looked at once a second."""
        time = asyncio.get_running_loop().time()
        if time >= self._date_ends:
            now = self._env.now()
            self._date = b"date: %b\r\n" % format_datetime(now, usegmt=True).encode()
            self._date_ends = time + 1.0 - now.microsecond / 1e6
        return self._date


_GZIP = 31
_COMPRESSED = {"content-encoding": "gzip", "vary": "Accept-Encoding"}


def _is_json(response: HttpResponse) -> bool:
    return response.headers.get("content-type", "").startswith("application/json")


class _CompressedStream:
    """A stream of the same content in gzip."""

    def __init__(self, stream: AsyncIterator[bytes]) -> None:
        self._stream = stream
        self._compressor = zlib.compressobj(_LEVEL, wbits=_GZIP)
        self._is_done = False

    def __aiter__(self) -> _CompressedStream:
        return self

    async def __anext__(self) -> bytes:
        while not self._is_done:
            try:
                chunk = self._compressor.compress(await anext(self._stream))
            except StopAsyncIteration:
                self._is_done = True
                chunk = self._compressor.flush()
            if chunk:
                return chunk
        raise StopAsyncIteration

    async def aclose(self) -> None:
        await close_stream(self._stream)
