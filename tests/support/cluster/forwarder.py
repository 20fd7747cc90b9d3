"""Passes connections from an address of a node's bridge to a port of loopback, where API servers
listen. It does for a Service with one endpoint what kube-proxy does."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Self

from tests.support.cluster.certificates import HOST

CHUNK = 64 * 1024


class Forwarder:
    """``with`` listens, in a thread with an event loop of its own."""

    def __init__(self, address: tuple[str, int], port: int) -> None:
        self._address = address
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        started = asyncio.run_coroutine_threadsafe(self._start(), self._loop)
        started.result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        host, port = self._address
        self._server = await asyncio.start_server(self._accept, host, port)

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(OSError):
                inner, outer = await asyncio.open_connection(HOST, self._port)
                try:
                    async with asyncio.TaskGroup() as both:
                        both.create_task(_copy(reader, outer))
                        both.create_task(_copy(inner, writer))
                finally:
                    outer.close()
        except* (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            self._tasks.discard(task)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while content := await reader.read(CHUNK):
        writer.write(content)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()
