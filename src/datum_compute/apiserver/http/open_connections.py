"""The connections of a server: how many may be open, and which one is closed to make room.

Every connection is a file of the process, and one that says nothing costs its client nothing. So
both numbers are bounded below the limit on files: of all connections, and of those from one
address. Beyond a bound the connection that has been silent longest is closed, first among those
that never sent a request, the TLS handshake included; where none is silent, the new one is.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

from datum_compute.apiserver.http.connection import HttpServerConnection
from datum_compute.log import get_logger

MAX_CONNECTIONS = 10_000
"""Open at once, where the limit on files allows it. A guess, ten times what was measured."""
OTHER_FILES = 128
"""Files left for what is no connection: the store, the log, the connections of controllers. A
guess: a platform with fifty cells has some thirty open."""
HANDSHAKE_SECONDS = 10.0
"""For TLS to be agreed on. A guess: several round trips round the world."""

_log = get_logger(__name__)


def connection_limit(file_limit: int) -> int:
    """How many connections a process may have open that may have so many files open."""
    # Never more than three quarters, however few there are.
    return max(1, min(MAX_CONNECTIONS, file_limit - OTHER_FILES, file_limit * 3 // 4))


class _OpenConnection:
    """One socket, from its arrival on."""

    def __init__(self, address: str, connection: HttpServerConnection) -> None:
        self.address = address
        self.connection = connection
        self.handshake: asyncio.Task[None] | None = None

    @property
    def is_silent(self) -> bool:
        return self.connection.silent_since is not None

    @property
    def usefulness(self) -> tuple[bool, float]:
        """Of a silent one: the least useful is closed first."""
        return self.connection.has_served, self.connection.silent_since or 0.0

    def close(self) -> None:
        if self.handshake is not None:
            self.handshake.cancel()
        else:
            self.connection.abort()


class OpenConnections:
    """Takes sockets, makes connections of them, and holds those until they are closed."""

    def __init__(
        self, make: Callable[[], HttpServerConnection], context: ssl.SSLContext | None, limit: int
    ) -> None:
        """Without a ``context`` connections are plain."""
        self._make = make
        self._context = context
        self._limit = limit
        self._limit_per_address = max(1, limit * 3 // 4)
        self._open: dict[_OpenConnection, None] = {}  # the oldest first
        self._per_address: dict[str, int] = {}
        self._is_crowded = False

    def take(self, client: socket.socket, address: str) -> None:
        """Begin a connection on an accepted socket; it is closed where there is no room."""
        if not self._make_room(address):
            client.close()
            return
        client.setblocking(False)
        # Else each response would wait for the client's delayed acknowledgement, 40 ms later.
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened = _OpenConnection(address, self._make())
        self._open[opened] = None
        self._per_address[address] = self._per_address.get(address, 0) + 1
        opened.handshake = asyncio.get_running_loop().create_task(self._begin(client, opened))
        opened.connection.closed.add_done_callback(lambda _: self._forget(opened))

    def close_one(self) -> None:
        """Close the connection that is needed least, if one is silent."""
        self._close_silent(None)

    async def close(self, grace_seconds: float) -> None:
        """Close all: idle ones at once, others when they have responded, or after this time."""
        for each in list(self._open):
            if each.handshake is not None:
                each.handshake.cancel()
            else:
                each.connection.shut_down()
        await self._wait_closed(grace_seconds)
        for each in list(self._open):
            each.close()
        await self._wait_closed(grace_seconds)

    async def _begin(self, client: socket.socket, opened: _OpenConnection) -> None:
        loop = asyncio.get_running_loop()
        try:
            # A client that does not complete the handshake is not worth a line in the log.
            with suppress(OSError, TimeoutError):
                await loop.connect_accepted_socket(
                    lambda: opened.connection,
                    client,
                    ssl=self._context,
                    ssl_handshake_timeout=HANDSHAKE_SECONDS if self._context else None,
                )
        finally:
            opened.handshake = None
            if not opened.connection.is_made:
                client.close()
                self._forget(opened)

    def _forget(self, opened: _OpenConnection) -> None:
        if opened not in self._open:
            return
        del self._open[opened]
        left = self._per_address[opened.address] - 1
        if left:
            self._per_address[opened.address] = left
        else:
            del self._per_address[opened.address]
        if len(self._open) < self._limit // 2:
            self._is_crowded = False

    def _make_room(self, address: str) -> bool:
        if self._per_address.get(address, 0) >= self._limit_per_address:
            return self._close_silent(address)
        return len(self._open) < self._limit or self._close_silent(None)

    def _close_silent(self, address: str | None) -> bool:
        """Close the least useful silent connection, of this address or of any."""
        self._report(address)
        silent = [
            each
            for each in self._open
            if each.is_silent and (address is None or each.address == address)
        ]
        if not silent:
            return False
        found = min(silent, key=lambda each: each.usefulness)
        found.close()
        self._forget(found)
        return True

    def _report(self, address: str | None) -> None:
        """Once until there is room again: a line for each connection would fill the log."""
        if not self._is_crowded:
            self._is_crowded = True
            _log.warning(
                "too many connections: silent ones are closed, and new ones where none is silent",
                open=len(self._open),
                limit=self._limit,
                address=address or "all",
            )

    async def _wait_closed(self, timeout: float) -> None:
        waiting: list[asyncio.Future[None]] = [
            each.handshake if each.handshake is not None else each.connection.closed
            for each in self._open
        ]
        if waiting:
            await asyncio.wait(waiting, timeout=timeout)
