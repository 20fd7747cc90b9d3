"""A sleeping Instance without an engine: a server on loopback that can be paused and stopped."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from socket import socket
from typing import Any

import uvloop

from datum_compute.decisions.sleep import Rest, SleepPolicy
from datum_compute.providers.container.activator import Activator, Sleeper, WakeMetrics
from datum_compute.runtime.metrics.registry import MetricsRegistry

ADDRESS = "127.77.0.1"
TARGET = "127.77.1.1"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def on_both_loops(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs a test on the loop of the product, and on the one of Python: they differ in when they
    read, and in what ends a connection."""

    @functools.wraps(test)
    def run(*args: Any, **options: Any) -> None:
        for factory in (uvloop.new_event_loop, asyncio.new_event_loop):
            with asyncio.Runner(loop_factory=factory) as runner:
                runner.run(test(*args, **options))

    return run


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


@dataclass
class FakeContainers:
    """``steps`` are those that were asked for; a start takes ``start_seconds``."""

    port: int
    handler: Handler = echo
    start_seconds: float = 0.0
    failure: Exception | None = None
    steps: list[str] = field(default_factory=list)
    _server: asyncio.Server | None = None
    _serving: set[asyncio.Task[None]] = field(default_factory=set)

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, TARGET, self.port, backlog=1024)

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self.handler(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def end(self) -> None:
        """A loop of uvloop that is closed while a handler still reads waits for ever."""
        await self.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def lower(self, rest: Rest) -> None:
        self.steps.append(rest.name)
        if self.failure is not None:
            raise self.failure
        await self.close()

    async def resume(self, rest: Rest) -> None:
        self.steps.append(f"resume {rest.name}")
        if self.failure is not None:
            raise self.failure
        if self.start_seconds:
            # Started is not listening: the port answers a while after the call has returned.
            loop = asyncio.get_running_loop()
            self._later = loop.create_task(self._listen_later())
        else:
            await self.listen()

    async def _listen_later(self) -> None:
        await asyncio.sleep(self.start_seconds)
        await self.listen()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None


@dataclass
class ActivatedInstance:
    sleeper: Sleeper
    containers: FakeContainers
    metrics: MetricsRegistry
    changes: asyncio.Event

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(ADDRESS, self.containers.port)

    async def ask(self, text: bytes = b"hello") -> bytes:
        """What comes back until the end; empty where the connection is closed instead."""
        reader, writer = await self.connect()
        try:
            writer.write(text)
            writer.write_eof()
            return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    def wakes(self, result: str) -> float:
        family = self.metrics.counter("compute_instance_wakes_total", "", "result")
        return family.value(result)


async def wait_until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while True:
            if holds():
                return
            await asyncio.sleep(0.005)


def free_port() -> int:
    """That is free on both addresses."""
    with socket() as first, socket() as second:
        first.bind((ADDRESS, 0))
        port = int(first.getsockname()[1])
        second.bind((TARGET, port))
        return port


@asynccontextmanager
async def activated_instance(
    policy: SleepPolicy | None = None,
    *,
    rest: Rest = Rest.AWAKE,
    handler: Handler = echo,
    start_seconds: float = 0.0,
) -> AsyncIterator[ActivatedInstance]:
    containers = FakeContainers(free_port(), handler, start_seconds)
    if rest is Rest.AWAKE:
        await containers.listen()
    metrics, changes, activator = MetricsRegistry(), asyncio.Event(), Activator()
    sleeper = Sleeper(
        containers,
        policy or SleepPolicy(3600.0),
        TARGET,
        containers.port,
        now=lambda: datetime.now(UTC),
        changed=changes.set,
        metrics=WakeMetrics(metrics),
        rest=rest,
        idle_seconds=3600.0 if rest is not Rest.AWAKE else 0.0,
    )
    activator.open("uid", ADDRESS, [containers.port], sleeper)
    try:
        yield ActivatedInstance(sleeper, containers, metrics, changes)
    finally:
        await activator.close_all()
        await containers.end()
