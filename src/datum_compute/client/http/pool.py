"""The connections of one transport, opened when needed and used again.

An idle connection is dropped when its server closes it, when it has been idle for long, and
on :meth:`ConnectionPool.reconnect`. Idle ones are used last in, first out, so that a quiet
client keeps few.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from datum_compute.client import errors
from datum_compute.client.http.connection import HttpConnection

IDLE_SECONDS = 45.0
"""How long a connection is kept without use: long, since to open another over TLS takes more time
of the processor than several requests. Below the idle limits of servers and proxies, a minute or
more, so that a request rarely meets one that its server is closing."""

Connect = Callable[[], Coroutine[Any, Any, HttpConnection]]
"""Opens a connection. Raises ``ConnectFailed`` alone."""


class ConnectionPool:
    def __init__(self, connect: Connect, *, server: str, max_idle: int) -> None:
        """``server`` is for messages."""
        self._connect = connect
        self._server = server
        self._max_idle = max_idle
        self._idle: list[tuple[float, HttpConnection]] = []
        """The oldest first, with the time since when."""
        self._open: dict[HttpConnection, int] = {}
        """Idle or in use, with the generation in which it was opened."""
        self._generation = 0
        self._opening: set[asyncio.Task[HttpConnection]] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def acquire(self) -> HttpConnection:
        """A connection that is ready in this very step. Raises ``ConnectFailed``."""
        while self._idle:
            since, connection = self._idle.pop()
            if asyncio.get_running_loop().time() - since > IDLE_SECONDS:
                connection.abort()
            elif connection.is_ready:
                return connection
        if self._is_closed:
            raise self._failure("the transport is closed")
        connection = await self._wait_opened()
        if not connection.is_ready:
            is_ours = self._is_closed
            raise self._failure("the transport is closed" if is_ours else "closed by the server")
        return connection

    def release(self, connection: HttpConnection) -> None:
        """Keep the connection for another request, if it can carry one."""
        is_current = self._open.get(connection) == self._generation
        if not is_current or not connection.is_ready or len(self._idle) >= self._max_idle:
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        self._idle.append((loop.time(), connection))
        if self._sweeper is None:
            self._sweeper = loop.call_later(IDLE_SECONDS, self._sweep)

    def reconnect(self) -> None:
        """Use no connection again that was opened until now; requests in flight may end."""
        self._generation += 1
        self._abort_idle()

    async def close(self) -> None:
        """Abort every connection, and wait until their sockets are closed."""
        self._is_closed = True
        self._abort_idle()
        for task in self._opening:
            task.cancel()
        for connection in self._open:
            connection.abort("the transport is closed")
        remaining: list[asyncio.Future[Any]] = [*self._opening]
        remaining += [connection.closed for connection in self._open]
        if remaining:
            await asyncio.wait(remaining)

    async def _wait_opened(self) -> HttpConnection:
        # In another task, so that close() can cancel it without cancelling the caller.
        task = asyncio.create_task(self._open_connection(self._generation))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and task.exception() is None:
                task.result().abort()
            raise
        if task.cancelled():
            raise self._failure("the transport is closed")
        return task.result()

    async def _open_connection(self, generation: int) -> HttpConnection:
        connection = await self._connect()
        self._open[connection] = generation
        connection.closed.add_done_callback(lambda _: self._open.pop(connection, None))
        return connection

    def _failure(self, reason: str) -> errors.ConnectFailed:
        return errors.ConnectFailed(reason, server=self._server)

    def _abort_idle(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for _, connection in self._idle:
            connection.abort()
        self._idle.clear()

    def _sweep(self) -> None:
        """Drop what has been idle for long, and come back when the next one will be."""
        loop = asyncio.get_running_loop()
        # The sum that the timer is set to, which rounding makes differ from a difference.
        while self._idle and self._idle[0][0] + IDLE_SECONDS <= loop.time():
            self._idle.pop(0)[1].abort()
        self._sweeper = None
        if self._idle:
            self._sweeper = loop.call_at(self._idle[0][0] + IDLE_SECONDS, self._sweep)
