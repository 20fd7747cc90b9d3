"""TCP sockets, connected to the first of a host's addresses that accepts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import Any

ATTEMPT_DELAY = 0.25
"""Seconds before the next address is tried beside one that has not answered (RFC 8305)."""

AddressInfo = tuple[int, int, int, str, Any]
"""As ``getaddrinfo`` gives it; the address is whatever its family has."""


async def open_socket(host: str, port: int) -> socket.socket:
    """Raises OSError: the lookup's, or that of the preferred address."""
    return await connect_first(_alternate_families(await _resolve(host, port)))


async def connect_first(addresses: list[AddressInfo]) -> socket.socket:
    """Try one address after another, and the next beside one that does not answer soon."""
    if len(addresses) == 1:
        return await _connect(addresses[0])
    attempts: set[asyncio.Task[socket.socket]] = set()
    failures: list[BaseException] = []
    try:
        while addresses or attempts:
            if addresses:
                attempts.add(asyncio.create_task(_connect(addresses.pop(0))))
            done, _ = await asyncio.wait(
                attempts,
                timeout=ATTEMPT_DELAY if addresses else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for attempt in done:
                attempts.remove(attempt)
                failure = attempt.exception()
                if failure is None:
                    return attempt.result()
                failures.append(failure)
        raise failures[0]
    finally:
        await _abandon(attempts)


async def _resolve(host: str, port: int) -> Sequence[AddressInfo]:
    try:
        # An address needs no lookup, hence no thread.
        return socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        )
    except socket.gaierror:
        loop = asyncio.get_running_loop()
        return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def _alternate_families(found: Sequence[AddressInfo]) -> list[AddressInfo]:
    """Alternate between families, beginning with the preferred one, so that a broken IPv6 or
    IPv4 costs one attempt."""
    preferred = [each for each in found if each[0] == found[0][0]]
    others = [each for each in found if each[0] != found[0][0]]
    return [each for each in chain(*zip_longest(preferred, others)) if each is not None]


async def _connect(info: AddressInfo) -> socket.socket:
    family, kind, protocol, _, address = info
    made = socket.socket(family, kind, protocol)
    try:
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _keep_alive(made)
        await asyncio.get_running_loop().sock_connect(made, address)
    except BaseException:
        made.close()
        raise
    return made


def _keep_alive(made: socket.socket) -> None:
    """Probe the peer, so that its death is noticed within about a minute: an idle watch
    sends nothing by itself."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


async def _abandon(attempts: set[asyncio.Task[socket.socket]]) -> None:
    if not attempts:
        return
    for attempt in attempts:
        attempt.cancel()
    await asyncio.wait(attempts)
    for attempt in attempts:
        if not attempt.cancelled() and attempt.exception() is None:
            attempt.result().close()
