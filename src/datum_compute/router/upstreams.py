"""Connections to Instances."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from datum_compute.decisions.routing import Backend
from datum_compute.router.messages import MAX_HEAD

CONNECT_SECONDS = 3.0
"""For an Instance to accept. A guess: the next one is on the same machine too."""
IDLE_SECONDS = 1.0
"""How long an unused connection stays open. Short, because an Instance that sleeps when nobody is
connected counts it; long enough to serve a page with all it loads."""


@dataclass(eq=False, slots=True)
class Upstream:
    """One connection to an Instance."""

    backend: Backend
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    is_reused: bool = False
    expiry: asyncio.TimerHandle | None = field(default=None)

    @property
    def is_open(self) -> bool:
        return not self.writer.is_closing() and not self.reader.at_eof()

    def abort(self) -> None:
        self.writer.transport.abort()


class Upstreams:
    """The connections of one router, and how many requests each Instance has."""

    def __init__(self) -> None:
        self._loads: Counter[Backend] = Counter()
        self._idle: defaultdict[Backend, list[Upstream]] = defaultdict(list)

    def load(self, backend: Backend) -> int:
        return self._loads[backend]

    def reuse(self, backend: Backend) -> Upstream | None:
        """One that has been used, for a request that is safe to try again: the Instance may be
        about to close it. The caller releases it."""
        idle = self._idle.get(backend, [])
        while idle:
            found = idle.pop()
            if found.expiry is not None:
                found.expiry.cancel()
            if found.is_open:
                found.is_reused = True
                self._loads[backend] += 1
                return found
            found.abort()
        self._idle.pop(backend, None)
        return None

    async def connect(self, backend: Backend) -> Upstream:
        """A new one. The caller releases it. Raises ``OSError``, and ``TimeoutError`` among
        them."""
        self._loads[backend] += 1
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(
                    backend.address, backend.port, limit=MAX_HEAD
                )
            return Upstream(backend, reader, writer)
        except BaseException:
            self._forget_request(backend)
            raise

    def release(self, upstream: Upstream, *, reusable: bool) -> None:
        self._forget_request(upstream.backend)
        if not reusable or not upstream.is_open:
            upstream.abort()
            return
        self._idle[upstream.backend].append(upstream)
        loop = asyncio.get_running_loop()
        upstream.expiry = loop.call_later(IDLE_SECONDS, self._expire, upstream)

    def close(self) -> None:
        for connections in self._idle.values():
            for each in connections:
                if each.expiry is not None:
                    each.expiry.cancel()
                each.abort()
        self._idle.clear()

    def _expire(self, upstream: Upstream) -> None:
        idle = self._idle[upstream.backend]
        idle.remove(upstream)
        if not idle:
            del self._idle[upstream.backend]
        upstream.abort()

    def _forget_request(self, backend: Backend) -> None:
        self._loads[backend] -= 1
        if self._loads[backend] <= 0:
            del self._loads[backend]
