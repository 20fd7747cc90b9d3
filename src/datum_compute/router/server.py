"""Accepts connections and answers their requests, one after the other."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from datum_compute.decisions.routing import DOMAIN, HttpRoute, RequestedHost, parse_host
from datum_compute.log import get_logger
from datum_compute.router import messages
from datum_compute.router.exchange import (
    RETRY_AFTER_SECONDS,
    ClientConnection,
    Exchanges,
    RouterRefusal,
)
from datum_compute.router.messages import BadMessage, RequestHead

MAX_CONNECTIONS = 4096
"""Of clients at once. A guess, four times what was measured."""
HEAD_SECONDS = 60.0
"""For the next request to arrive, from the end of the one before."""
LINGER_SECONDS = 2.0
"""How long the rest of a request that was refused is read: a connection that is closed before is
reset, and the client may lose the answer."""
GRACE_SECONDS = 2.0
"""How long requests may take to end when the router stops."""
MOST_NAMES = 20
"""Hosts that an answer to an unknown one lists."""

_log = get_logger(__name__)


class Routes(Protocol):
    def find(self, host: RequestedHost) -> HttpRoute | None: ...

    def names(self) -> list[str]:
        """``workload.project`` of each."""
        ...


class Router:
    """Serves the routes of a table."""

    def __init__(
        self, table: Routes, *, unserved: str = "", max_connections: int = MAX_CONNECTIONS
    ) -> None:
        """``unserved`` is why no Instance can be connected to, where none can. Beyond
        ``max_connections`` the one that has been idle longest is closed for the next."""
        self._max_connections = max_connections
        self._table = table
        self._unserved = unserved
        self._exchanges = Exchanges()
        self._connections: dict[asyncio.Task[None], bool] = {}
        """Each with whether it has a request."""
        self._port = 0
        self.is_ready = False
        """Whether the table is filled; until then every host is unknown."""

    @asynccontextmanager
    async def serve(self, host: str, ports: Sequence[int]) -> AsyncIterator[int]:
        """Listen on the first of ``ports`` that is free (0: any) and yield it."""
        server = await self._listen(host, ports)
        self._port = server.sockets[0].getsockname()[1]
        try:
            yield self._port
        finally:
            server.close()
            for task, is_busy in list(self._connections.items()):
                if not is_busy:
                    task.cancel()
            if self._connections:
                await asyncio.wait(list(self._connections), timeout=GRACE_SECONDS)
            for task in list(self._connections):
                task.cancel()
            if self._connections:
                await asyncio.wait(list(self._connections))
            self._exchanges.upstreams.close()

    async def _listen(self, host: str, ports: Sequence[int]) -> asyncio.Server:
        for port in ports:
            try:
                return await asyncio.start_server(
                    self._on_connection, host, port, limit=messages.MAX_HEAD, backlog=1024
                )
            except OSError as error:
                if error.errno != errno.EADDRINUSE or port == ports[-1]:
                    raise
        raise ValueError("no port to listen on was given")

    def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= self._max_connections:
            idle = next((task for task, busy in self._connections.items() if not busy), None)
            if idle is None:
                writer.transport.abort()
                return
            del self._connections[idle]
            idle.cancel()
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._connections[task] = False
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._connections.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            # Our bug in one connection does not end the others.
            _log.error("connection failed", exc_info=error)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        client = ClientConnection(reader, writer, peer[0] if peer else "")
        task = asyncio.current_task()
        assert task is not None
        try:
            keep_alive = True
            while keep_alive:
                self._connections.pop(task, None)  # to the end: the first is idle longest
                self._connections[task] = False
                client.is_body_read = True
                keep_alive = await self._serve_one(client, task)
            if not client.is_body_read:
                await _linger(client)
            writer.close()
        except (ConnectionError, TimeoutError):
            writer.transport.abort()  # also in the middle of an answer, which is then no whole one
        except asyncio.CancelledError:
            writer.transport.abort()
            raise

    async def _serve_one(self, client: ClientConnection, task: asyncio.Task[None]) -> bool:
        """Returns whether the connection can take another request."""
        request: RequestHead | None = None
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = await messages.read_head(client.reader)
            if not head:
                return False
            self._connections[task] = True
            request = messages.parse_request(head)
            host = parse_host(request.host)
            route = self._find(request, host)
            return await self._exchanges.forward(
                client, request, route, lambda: self._table.find(host) if host else None
            )
        except BadMessage as error:
            client.is_body_read = False
            refusal = RouterRefusal(error.status, "BadRequest", f"The request is refused: {error}.")
        except RouterRefusal as error:
            refusal = error
        return await self._refuse(client, request, refusal)

    def _find(self, request: RequestHead, host: RequestedHost | None) -> HttpRoute:
        """Raises RouterRefusal where no Instance can be tried."""
        if not self.is_ready:
            raise RouterRefusal(503, "Starting", "The platform is starting.", RETRY_AFTER_SECONDS)
        route = self._table.find(host) if host is not None else None
        if host is None or route is None:
            raise RouterRefusal(404, "UnknownHost", self._describe_unknown(request.host, host))
        if self._unserved:
            raise RouterRefusal(503, "NotServed", f"{host.workload}: {self._unserved}.")
        if not any(each.backends for each in route.cities):
            there = ", ".join(
                f"{each.city}: {len(each.backends)} of {each.instances}" for each in route.cities
            )
            stopped = f" {host.workload} is stopped." if route.suspended else ""
            raise RouterRefusal(
                503,
                "NoAvailableInstance",
                f"No instance of {host.workload} is available ({there}).{stopped}",
                RETRY_AFTER_SECONDS,
            )
        return route

    def _describe_unknown(self, host: str, parsed: RequestedHost | None) -> str:
        if parsed is not None and parsed.city:
            whole = self._table.find(RequestedHost(parsed.project, parsed.workload))
            if whole is not None:
                cities = ", ".join(each.city for each in whole.cities)
                return f"{parsed.workload} is in {cities}, not in {parsed.city.upper()}."
        names = self._table.names()
        if not names:
            return f'No workload is served at "{host}"; none has an HTTP port yet.'
        lines = [f"  http://{each}.{DOMAIN}:{self._port}" for each in names[:MOST_NAMES]]
        if len(names) > MOST_NAMES:
            lines.append(f"  and {len(names) - MOST_NAMES} more")
        return "\n".join([f'No workload is served at "{host}". These are:', *lines])

    async def _refuse(
        self, client: ClientConnection, request: RequestHead | None, refusal: RouterRefusal
    ) -> bool:
        if request is not None and request.framing != messages.EMPTY:
            client.is_body_read = False
        keep_alive = request is not None and request.keep_alive and client.is_body_read
        head, body = messages.render_refusal(
            refusal.status,
            refusal.reason,
            str(refusal),
            as_json=request is not None and request.accepts_json,
            retry_after=refusal.retry_after,
        )
        end = b"\r\n" if keep_alive else b"connection: close\r\n\r\n"
        is_head = request is not None and request.method == "HEAD"
        messages.send(client.writer, head + end + (b"" if is_head else body))
        async with asyncio.timeout(HEAD_SECONDS):
            await client.writer.drain()
        return keep_alive


async def _linger(client: ClientConnection) -> None:
    """Read the rest of a request that was not wanted, for a while."""
    messages.send_end(client.writer)
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            while await client.reader.read(messages.CHUNK):
                pass
    except TimeoutError:
        pass
