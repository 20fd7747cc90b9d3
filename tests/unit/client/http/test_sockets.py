"""The first address that accepts is the one that is used."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from datum_compute.client.http.sockets import AddressInfo, connect_first

pytestmark = pytest.mark.realtime


def info(listener: socket.socket) -> AddressInfo:
    return (socket.AF_INET, socket.SOCK_STREAM, 0, "", listener.getsockname())


@contextmanager
def bound(*, backlog: int | None) -> Iterator[socket.socket]:
    """Refuses connections unless it has a backlog."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if backlog is not None:
            listener.listen(backlog)
        yield listener


@contextmanager
def silent() -> Iterator[socket.socket]:
    """Its backlog is full, so further connections are neither accepted nor refused."""
    with bound(backlog=0) as listener, ExitStack() as stack:
        for _ in range(2):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener


async def peer_of(*listeners: socket.socket) -> object:
    with await connect_first([info(each) for each in listeners]) as connected:
        return connected.getpeername()


async def test_a_refusing_address_is_skipped() -> None:
    with bound(backlog=None) as refusing, bound(backlog=5) as accepting:
        assert await peer_of(refusing, accepting) == accepting.getsockname()


async def test_a_silent_address_is_not_waited_for() -> None:
    with silent() as first, bound(backlog=5) as accepting:
        async with asyncio.timeout(5):
            assert await peer_of(first, accepting) == accepting.getsockname()


async def test_the_failure_of_the_preferred_address_is_raised() -> None:
    with bound(backlog=None) as refusing, bound(backlog=None) as other:
        with pytest.raises(ConnectionRefusedError):
            await peer_of(refusing, other)
        with pytest.raises(ConnectionRefusedError):
            await peer_of(refusing)


async def test_a_cancelled_connect_leaves_no_attempt() -> None:
    with silent() as first, silent() as second:
        before = asyncio.all_tasks()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.4):
                await peer_of(first, second)

        assert asyncio.all_tasks() == before
