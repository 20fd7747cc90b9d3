"""The addresses of Instances that sleep, and the connections that wait until one is awake.

Of an Instance that is being woken at most :data:`MOST_HELD` connections are taken. The next ones
wait in the kernel's queue of the address, :data:`BACKLOG` of them, and what comes beyond is tried
again by the client's kernel: none is refused for being early, and the memory it takes is bounded.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable

from datum_compute.log import get_logger
from datum_compute.providers.container.activator import connections
from datum_compute.providers.container.activator.sleeper import Sleeper, WakeFailed

logger = get_logger(__name__)

MOST_HELD = 100
"""Connections of one Instance that are accepted and not connected to it yet."""
BACKLOG = 1024
ACCEPTED_AT_ONCE = 64
"""So that one address does not keep the loop to itself."""
NO_FILES_SECONDS = 0.1
"""Until connections are accepted again, when this process has too many files open."""


class _Address:
    """The listening sockets of one Instance."""

    __slots__ = ("_held", "_is_listening", "_sockets", "_tasks", "sleeper")

    def __init__(self, sleeper: Sleeper, sockets: dict[socket.socket, int]) -> None:
        self.sleeper = sleeper
        self._sockets = sockets
        self._held = 0
        self._is_listening = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._listen()

    def _listen(self) -> None:
        if not self._is_listening and self._held < MOST_HELD:
            loop = asyncio.get_running_loop()
            for each, port in self._sockets.items():
                loop.add_reader(each, self._accept, each, port)
            self._is_listening = bool(self._sockets)

    def _pause(self) -> None:
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            loop.remove_reader(each)
        self._is_listening = False

    def _accept(self, listening: socket.socket, port: int) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            if self._held >= MOST_HELD:
                self._pause()
                return
            try:
                client, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # too many open files, for one
                logger.warning("connection not accepted", error=str(error))
                self._pause()
                asyncio.get_running_loop().call_later(NO_FILES_SECONDS, self._listen)
                return
            client.setblocking(False)
            self._held += 1
            self.sleeper.acquire()
            task = asyncio.get_running_loop().create_task(self._connect(client, port))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _connect(self, client: socket.socket, port: int) -> None:
        """Join the client with its Instance; where that cannot be, its connection is closed."""
        sleeper = self.sleeper
        is_joined = False
        try:
            loop = asyncio.get_running_loop()
            deadline = loop.time() + sleeper.policy.wake_seconds
            if await sleeper.wait_awake():
                # Another port of it may be slower than the one that has answered.
                found = sleeper.take_connection(port) or await connections.dial_until(
                    sleeper.address, port, deadline
                )
            else:
                found = await connections.dial(sleeper.address, port, connections.DIAL_SECONDS)
            await connections.join(client, found, sleeper.release)
            is_joined = True
        except (OSError, WakeFailed):
            pass  # a failed waking is reported by the Instance
        finally:
            self._held -= 1
            if not is_joined:
                client.close()
                sleeper.release()
            self._listen()

    async def close(self) -> None:
        self._pause()
        for each in self._sockets:
            each.close()
        self._sockets = {}
        self.sleeper.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Activator:
    """All addresses of one cell's Instances that sleep, by uid."""

    def __init__(self) -> None:
        self._addresses: dict[str, _Address] = {}

    def open(self, uid: str, address: str, ports: Iterable[int], sleeper: Sleeper) -> None:
        """Listen on the ports of this address. Raises ``OSError`` where one is taken."""
        sockets: dict[socket.socket, int] = {}
        try:
            for port in ports:
                sock = socket.socket()
                sockets[sock] = port
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.setblocking(False)
                sock.bind((address, port))
                sock.listen(BACKLOG)
        except OSError:
            for sock in sockets:
                sock.close()
            raise
        self._addresses[uid] = _Address(sleeper, sockets)

    async def close(self, uid: str) -> None:
        """Stop listening. Connections that are joined go on until they end."""
        if (found := self._addresses.pop(uid, None)) is not None:
            await found.close()

    async def close_all(self) -> None:
        for uid in list(self._addresses):
            await self.close(uid)
