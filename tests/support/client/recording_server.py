"""A transport that is its own server: it records what arrives, and answers with success."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from datum_compute.client.transport import HttpRequest, HttpResponse


class RecordingServer:
    """Answers each request with the number of those that arrived so far; a watch gets what
    :meth:`push` is given from then on."""

    def __init__(self) -> None:
        self.arrived: list[str] = []
        """Method and path of each request that is no watch."""
        self.closed = 0
        """How many watches their readers closed."""
        self._watches: list[asyncio.Queue[bytes]] = []

    async def send(self, request: HttpRequest, *, timeout: float | None = None) -> HttpResponse:
        if "watch" in dict(request.query):
            self._watches.append(asyncio.Queue())
            return HttpResponse(200, stream=self._messages(self._watches[-1]))
        self.arrived.append(f"{request.method} {request.path}")
        return HttpResponse(200, body=str(len(self.arrived)).encode())

    async def close(self) -> None: ...

    def push(self, message: bytes) -> None:
        for watch in self._watches:
            watch.put_nowait(message)

    async def _messages(self, queue: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
        try:
            while True:
                yield await queue.get()
        finally:
            self.closed += 1
