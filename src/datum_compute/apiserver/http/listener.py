"""The server on a port, over TLS."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from datum_compute.apiserver.http.certificates import Certificates, ensure_certificates
from datum_compute.apiserver.http.connection import HttpServerConnection
from datum_compute.apiserver.server import ApiServer
from datum_compute.env import Environment

BACKLOG = 2048
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
) -> AsyncIterator[int]:
    """Serve HTTPS on the first of ``ports`` that is free (0: any) and yield the port.

    Certificates live in ``directory``. The caller runs the server's background work,
    :meth:`ApiServer.run`.
    """
    context = _tls(ensure_certificates(directory, env))
    listener = _listen(host, ports)
    connections: set[HttpServerConnection] = set()
    acceptor = await asyncio.get_running_loop().create_server(
        lambda: HttpServerConnection(server.handle, connections, client_timeout),
        sock=listener,
        ssl=context,
        backlog=BACKLOG,
    )
    try:
        yield listener.getsockname()[1]
    finally:
        acceptor.close()
        server.end_watches()
        await _shut_down(connections)


def _tls(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.certificate, certificates.key)
    return context


async def _shut_down(connections: set[HttpServerConnection]) -> None:
    for connection in list(connections):
        connection.shut_down()
    await _wait_closed(connections, GRACE_SECONDS)
    for connection in list(connections):
        connection.abort()
    await _wait_closed(connections, GRACE_SECONDS)


async def _wait_closed(connections: set[HttpServerConnection], timeout: float) -> None:
    if connections:
        await asyncio.wait([each.closed for each in connections], timeout=timeout)


def _listen(host: str, ports: Sequence[int]) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in ports:
        # With the protocol named, asyncio turns Nagle's algorithm off on every connection; left
        # on, it delays each response until the client's delayed acknowledgement, 40 ms later.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
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
