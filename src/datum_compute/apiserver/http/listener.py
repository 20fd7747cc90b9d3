"""A handler on a port: the API server over TLS, and plain HTTP for this machine alone."""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from datum_compute.apiserver.http.certificates import Certificates, ensure_certificates
from datum_compute.apiserver.http.connection import HttpServerConnection
from datum_compute.apiserver.http.manners import PoliteHandler
from datum_compute.apiserver.http.open_connections import OpenConnections, connection_limit
from datum_compute.apiserver.server import ApiServer
from datum_compute.client.transport import Handler
from datum_compute.env import Environment

BACKLOG = 2048
ACCEPTED_AT_ONCE = 64
"""Connections accepted before other work goes on. A guess."""
NO_FILES_SECONDS = 0.1
"""How long to wait where the process, or the machine, has no file left for a connection."""
GRACE_SECONDS = 2
"""How long requests may take to end when the server shuts down."""
CLIENT_TIMEOUT_SECONDS = 60.0
"""How long a request may take to arrive, and a client to read what was sent; the real server's
limit for a whole request."""


@asynccontextmanager
async def serve(
    server: ApiServer,
    env: Environment,
    *,
    directory: Path,
    host: str = "127.0.0.1",
    ports: Sequence[int] = (0,),
    client_timeout: float = CLIENT_TIMEOUT_SECONDS,
    max_connections: int | None = None,
) -> AsyncIterator[int]:
    """Serve HTTPS on the first of ``ports`` that is free (0: any) and yield the port.

    Certificates live in ``directory``. The caller runs the server's background work,
    :meth:`ApiServer.run`. Without ``max_connections`` the limit on files decides.
    """
    if max_connections is None:
        max_connections = connection_limit(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    handler = PoliteHandler(server.handle, env, server.answer_now)
    connections = OpenConnections(
        lambda: HttpServerConnection(handler, client_timeout, handler.now),
        _tls(ensure_certificates(directory, env)),
        max_connections,
    )
    async with _accepting(_listen(host, ports), connections, server.end_watches) as port:
        yield port


@asynccontextmanager
async def serve_plain(
    handler: Handler, *, host: str, end: Callable[[], None], max_connections: int
) -> AsyncIterator[int]:
    """Serve HTTP on a free port of a loopback address and yield the port. ``end`` ends the open
    streams when the server shuts down."""
    connections = OpenConnections(
        lambda: HttpServerConnection(handler, CLIENT_TIMEOUT_SECONDS), None, max_connections
    )
    async with _accepting(_listen(host, (0,)), connections, end) as port:
        yield port


@asynccontextmanager
async def _accepting(
    listener: socket.socket, connections: OpenConnections, end: Callable[[], None]
) -> AsyncIterator[int]:
    listener.listen(BACKLOG)
    acceptor = _Acceptor(listener, connections)
    try:
        acceptor.resume()
        yield listener.getsockname()[1]
    finally:
        acceptor.close()
        end()
        await connections.close(GRACE_SECONDS)


class _Acceptor:
    """Accepts connections while it is not paused."""

    def __init__(self, listener: socket.socket, connections: OpenConnections) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._connections = connections
        self._timer: asyncio.TimerHandle | None = None

    def resume(self) -> None:
        self._loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                client, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    raise
                self._connections.close_one()
                self._loop.remove_reader(self._listener)
                self._timer = self._loop.call_later(NO_FILES_SECONDS, self.resume)
                return
            self._connections.take(client, address[0])


def _tls(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.certificate, certificates.key)
    return context


def _listen(host: str, ports: Sequence[int]) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in ports:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE or port == ports[-1]:
                raise
        else:
            listener.setblocking(False)
            return listener
    raise ValueError("no port to listen on was given")
