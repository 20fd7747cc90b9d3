"""A router on loopback sockets, and servers behind it that do as a test says."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from datum_compute.decisions.routing import Backend, CityBackends, HttpRoute, RequestedHost
from datum_compute.router.server import MAX_CONNECTIONS, Router

HOST = "127.0.0.1"
NAME = "hello.demo.localhost"
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Table:
    """The one workload is ``hello`` in project ``demo``."""

    route: HttpRoute | None = None

    def find(self, host: RequestedHost) -> HttpRoute | None:
        if (host.project, host.workload) != ("demo", "hello") or self.route is None:
            return None
        return self.route.within(host.city) if host.city else self.route

    def names(self) -> list[str]:
        return ["hello.demo"] if self.route is not None else []


@dataclass
class RouterStage:
    port: int
    table: Table
    router: Router
    stack: AsyncExitStack
    backends: list[Backend] = field(default_factory=list)

    async def add(self, answer: Answer, city: str = "DFW") -> Backend:
        """An Instance; the cities are in the order of their first one."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await answer(reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(serve, HOST, 0)
        self.stack.callback(server.close)
        return self.list(server.sockets[0].getsockname()[1], city)

    async def add_deaf(self) -> Backend:
        """An Instance to which packets are lost: its queue is full, so Linux drops them."""
        found = socket.create_server((HOST, 0), backlog=0)
        self.stack.callback(found.close)
        address = found.getsockname()
        while True:
            try:
                async with asyncio.timeout(0.1):
                    _, writer = await asyncio.open_connection(*address)
            except TimeoutError:
                return self.list(address[1])
            self.stack.callback(writer.close)

    def list(self, port: int, city: str = "DFW") -> Backend:
        backend = Backend(f"hello-{city.lower()}-{len(self.backends)}", HOST, port)
        self.backends.append(backend)
        cities = {each.city: each for each in (self.table.route or HttpRoute(())).cities}
        known = cities.get(city, CityBackends(city))
        cities[city] = CityBackends(city, (*known.backends, backend), known.instances + 1)
        self.table.route = HttpRoute(tuple(cities.values()))
        return backend

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(HOST, self.port)
        self.stack.callback(writer.close)
        return reader, writer

    async def send(self, request: bytes) -> bytes:
        """All that comes back before the router closes the connection."""
        reader, writer = await self.connect()
        writer.write(request)
        return await reader.read()

    async def get(self, path: str = "/", headers: str = "", host: str = NAME) -> bytes:
        head = f"GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}\r\n"
        return await self.send(head.encode())


@asynccontextmanager
async def router_stage(
    unserved: str = "", max_connections: int = MAX_CONNECTIONS
) -> AsyncIterator[RouterStage]:
    table = Table()
    router = Router(table, unserved=unserved, max_connections=max_connections)
    router.is_ready = True
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(router.serve(HOST, [0]))
        yield RouterStage(port, table, router, stack)


async def read_head(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


def answering(body: bytes) -> Answer:
    """Answers every request of a connection."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_head(reader)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    return answer


def replying(response: bytes) -> Answer:
    """Sends this once, and closes the connection."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(response)
        await writer.drain()

    return answer


async def hanging_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes a request and closes the connection without an answer."""
    await read_head(reader)


def free_port() -> int:
    """Where nothing listens."""
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])
