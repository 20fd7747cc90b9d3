"""The sockets of one transport, so that closing it leaves none behind."""

from __future__ import annotations

import asyncio
import socket
from typing import Any


class Sockets:
    """The library closes TLS connections politely in the background, which may outlast the
    loop; when the transport is closed there is nobody left to be polite to.
    """

    def __init__(self) -> None:
        self._open: list[socket.socket] = []

    def make(self, address: Any) -> socket.socket:
        """A socket that notices within about a minute that its peer is gone.

        An idle watch sends nothing, so without probes a dead server would stay unnoticed.
        """
        family, kind, protocol = address[:3]
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, option):
                made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        self._open = [*self._still_open(), made]
        return made

    async def wait_shut(self) -> None:
        for each in self._still_open():
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # not connected, or the peer was faster
        # The loop learns of it at its next look at the sockets; the rest is a few callbacks.
        for _ in range(100):
            if not self._still_open():
                break
            await asyncio.sleep(0)

    def _still_open(self) -> list[socket.socket]:
        return [each for each in self._open if each.fileno() >= 0]
