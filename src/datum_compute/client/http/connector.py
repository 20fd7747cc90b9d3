"""Opens connections to one server: a socket, a proxy's CONNECT where there is one, then TLS.

Whatever fails here fails before a request was sent, so it is ``ConnectFailed``.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Mapping
from functools import partial

from datum_compute.client import errors
from datum_compute.client.http import server_url
from datum_compute.client.http.connection import HttpConnection
from datum_compute.client.http.faults import MAX_HEAD, MalformedResponse, fault_of
from datum_compute.client.http.proxy import proxy_authorization
from datum_compute.client.http.response_parser import ResponseParser
from datum_compute.client.http.server_url import ServerUrl
from datum_compute.client.http.sockets import open_socket

CONNECT_TIMEOUT = 10.0
"""Seconds for a connection with its TLS handshake. A guess: several round trips round the world."""


class Connector:
    """``await connector()`` opens a connection. Raises ``ConnectFailed`` alone."""

    def __init__(
        self,
        server: ServerUrl,
        *,
        tls: ssl.SSLContext | None = None,
        server_hostname: str = "",
        proxy: str = "",
        max_body: int = 0,
    ) -> None:
        """``server_hostname`` is the name expected in the certificate, if not the host's.
        Without TLS a proxy forwards each request, so there is no CONNECT."""
        self._origin = server.origin
        self._max_body = max_body
        self._tls = tls
        self._server_hostname = (server_hostname or server.host) if tls is not None else None
        self._host, self._port = server.host, server.port
        self._tunnel_request = b""
        if proxy:
            via = server_url.parse(proxy)
            self._host, self._port = via.host, via.port
            if tls is not None:
                self._tunnel_request = _encode_connect(server, proxy_authorization(proxy))

    async def __call__(self) -> HttpConnection:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                return await self._open()
        except (OSError, UnicodeError, MalformedResponse) as error:
            # UnicodeError: a host that is no name.
            reason = _describe(error)
            if isinstance(error, TimeoutError) and not error.errno:  # ours, not the socket's
                reason = f"no connection in {CONNECT_TIMEOUT:g} s"
            raise errors.ConnectFailed(
                reason, server=self._origin, fault=fault_of(error)
            ) from error

    async def _open(self) -> HttpConnection:
        sock = await open_socket(self._host, self._port)
        try:
            if self._tunnel_request:
                await _open_tunnel(sock, self._tunnel_request)
        except BaseException:
            sock.close()
            raise
        # From here on the socket belongs to asyncio, which closes it if the handshake fails.
        _, connection = await asyncio.get_running_loop().create_connection(
            partial(HttpConnection, self._origin, self._max_body),
            sock=sock,
            ssl=self._tls,
            server_hostname=self._server_hostname,
        )
        return connection


def _encode_connect(server: ServerUrl, headers: Mapping[str, str]) -> bytes:
    host = f"[{server.host}]" if ":" in server.host else server.host
    target = f"{host}:{server.port}".encode("ascii" if host.isascii() else "idna").decode("ascii")
    lines = [f"CONNECT {target} HTTP/1.1", f"host: {target}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("ascii")


async def _open_tunnel(sock: socket.socket, request: bytes) -> None:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, request)
    received = b""
    while b"\r\n\r\n" not in received:
        data = await loop.sock_recv(sock, 4096)
        received += data
        if not data or len(received) > MAX_HEAD:
            raise MalformedResponse("the proxy did not answer with an HTTP response")
    parser = ResponseParser()
    parser.feed(received)
    if not 200 <= parser.status < 300:
        raise MalformedResponse(f"the proxy refused to connect: HTTP {parser.status}")
    if not received.endswith(b"\r\n\r\n"):
        raise MalformedResponse("the proxy sent bytes before the server could")


def _describe(error: Exception) -> str:
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError | socket.gaierror):
        # The event loops put different texts beside the same number.
        return os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
    return str(error) or type(error).__name__
