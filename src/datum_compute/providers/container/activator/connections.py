"""A client's connection and the one to its Instance, joined: bytes are copied both ways.

Each side is read only as fast as the other takes it. The end of one direction is passed on and
leaves the other open, so a client may close its half and wait for the answer.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from socket import SO_DONTROUTE, SO_LINGER, SOL_SOCKET, socket
from typing import cast

DIAL_SECONDS = 5.0
"""For a program that runs and takes no connection from its queue. A guess."""
ATTEMPT_SECONDS = 0.25
"""One attempt to reach a program that starts: an address that was silent may answer the next one
sooner than the repetition of the first."""
RETRY_SECONDS = 0.003


class _Side(asyncio.Protocol):
    """One of the two connections. What arrives before the other is there is kept: an event loop
    may read before it can be paused."""

    __slots__ = ("_early", "_ended", "_on_end", "other", "transport")

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self._early: list[bytes] = []
        self._ended = False
        self.other: _Side | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def join(self, other: _Side) -> None:
        """Pass on what has arrived, and everything from now on."""
        self.other = other
        if other.transport is None or self.transport is None:
            for each in (self.transport, other.transport):
                if each is not None:
                    each.abort()  # the other one was lost
            return
        early, self._early = self._early, []
        other.transport.writelines(early)
        if self._ended:
            self._pass_end(other.transport)
        elif early:
            self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self._early.append(data)
            if self.transport is not None and self.transport.is_reading():
                self.transport.pause_reading()
        elif self.other.transport is not None:
            self.other.transport.write(data)

    def eof_received(self) -> bool:
        """True keeps it open: what the other side still sends is passed on."""
        self._ended = True
        if self.other is None:
            return True
        transport = self.other.transport
        if transport is None or transport.is_closing():
            return False
        self._pass_end(transport)
        return not self.other._ended

    def _pass_end(self, transport: asyncio.Transport) -> None:
        if self.other is not None and self.other._ended:
            transport.close()
            if self.transport is not None:
                self.transport.close()
        else:
            transport.write_eof()

    def pause_writing(self) -> None:
        if (other := self.other) is not None and other._is_read():
            cast("asyncio.Transport", other.transport).pause_reading()

    def resume_writing(self) -> None:
        if (other := self.other) is not None and other._is_read():
            cast("asyncio.Transport", other.transport).resume_reading()

    def _is_read(self) -> bool:
        transport = self.transport
        return transport is not None and not self._ended and not transport.is_closing()

    def connection_lost(self, error: Exception | None) -> None:
        other, self.other = self.other, None
        self.transport = None
        if other is not None and other.transport is not None:
            if error is None:
                other.transport.close()  # what is buffered is still sent
            else:
                other._reset()
        self._on_end()

    def _reset(self) -> None:
        """So that its peer does not take what it got for all there was."""
        transport = cast("asyncio.Transport", self.transport)
        if (sock := transport.get_extra_info("socket")) is not None:
            sock.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()


async def join(client: socket, instance: socket, on_end: Callable[[], None]) -> None:
    """Take both sockets over; ``on_end`` is called once, when both are closed. Where this raises,
    it is not called, and the sockets are closed."""
    left = 2

    def ended() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            on_end()

    loop = asyncio.get_running_loop()
    sides = [_Side(ended), _Side(ended)]
    made: list[asyncio.BaseTransport] = []
    try:
        for side, sock in zip(sides, (client, instance), strict=True):
            transport, _ = await loop.create_connection(lambda side=side: side, sock=sock)  # type: ignore[misc]
            made.append(transport)
    except BaseException:
        left = -1
        for each in made:
            cast("asyncio.Transport", each).abort()
        client.close()
        instance.close()
        raise
    first, second = sides
    first.join(second)
    second.join(first)


async def dial(address: str, port: int, seconds: float) -> socket:
    """A connection to this port. Raises ``OSError``, also where it takes too long."""
    loop = asyncio.get_running_loop()
    sock = socket()
    sock.setblocking(False)
    # The engine removes a network while no container is on it. Its addresses then lead to the
    # gateway of this machine, where something else may answer.
    sock.setsockopt(SOL_SOCKET, SO_DONTROUTE, 1)
    try:
        async with asyncio.timeout(seconds):
            await loop.sock_connect(sock, (address, port))
    except BaseException:
        sock.close()
        raise
    return sock


async def dial_until(address: str, port: int, deadline: float) -> socket:
    """As soon as the port answers: started does not mean listening. Raises ``OSError`` where it
    does not by the loop's time ``deadline``."""
    loop = asyncio.get_running_loop()
    while True:
        left = deadline - loop.time()
        try:
            return await dial(address, port, min(ATTEMPT_SECONDS, max(RETRY_SECONDS, left)))
        except OSError:
            if loop.time() >= deadline:
                raise
        await asyncio.sleep(RETRY_SECONDS)
