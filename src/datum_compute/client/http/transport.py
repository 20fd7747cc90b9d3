"""The transport over HTTP, to any Kubernetes API server.

A transport is bound to one origin: a request brings a path, never a host, and redirects come
back as they are, so a credential cannot travel elsewhere. Plain requests share a bounded
number of connections; streams are not counted, so however many watches are open, a plain
request never waits for one of them to end.

``ConnectFailed`` is raised only for what surely came before the request was sent. No request
is sent twice.
"""

from __future__ import annotations

import asyncio
import ssl

from datum_compute.client import errors
from datum_compute.client.http import server_url
from datum_compute.client.http.connector import Connector
from datum_compute.client.http.pool import ConnectionPool
from datum_compute.client.http.proxy import proxy_authorization
from datum_compute.client.http.request_encoder import RequestEncoder
from datum_compute.client.http.server_url import ServerUrl
from datum_compute.client.http.tls import client_context
from datum_compute.client.streams import Deadline
from datum_compute.client.transport import HttpRequest, HttpResponse, asks_for_stream

MAX_CONNECTIONS = 64
"""Plain requests at once. Kubernetes serves 400 reads and 200 writes at once to all clients."""


class HttpTransport:
    """Carries requests to ``base_url``, an origin without a path."""

    def __init__(
        self,
        base_url: str,
        *,
        tls: ssl.SSLContext | None = None,
        ca_pem: bytes = b"",
        server_hostname: str = "",
        proxy: str = "",
        max_connections: int = MAX_CONNECTIONS,
        max_body: int = 0,
    ) -> None:
        """``tls`` wins over ``ca_pem``; with neither, the system's authorities are trusted.
        ``server_hostname`` is the name expected in the certificate, if not the host's.
        ``proxy`` is its URL, with a user and password if it needs them; the environment is
        not read here. A response with more than ``max_body`` bytes, unless that is 0, fails."""
        server = _parse_origin(base_url)
        self._origin = server.origin
        if server.scheme == "http":
            tls = None
        elif tls is None:
            tls = client_context(ca_pem)
        headers = {"host": server.authority}
        if not server.authority.isascii():
            headers["host"] = server.authority.encode("idna").decode("ascii")
        before_path = ""
        if proxy and tls is None:  # it forwards each request, so it needs the whole URL
            headers |= proxy_authorization(proxy)
            before_path = self._origin
        self._encoder = RequestEncoder(headers, before_path)
        connector = Connector(
            server, tls=tls, server_hostname=server_hostname, proxy=proxy, max_body=max_body
        )
        self._pool = ConnectionPool(connector, server=self._origin, max_idle=max_connections)
        self._slots = asyncio.Semaphore(max_connections)
        self._is_closed = False

    async def send(self, request: HttpRequest, *, timeout: float | None = None) -> HttpResponse:
        if self._is_closed:
            raise errors.ConnectFailed("the transport is closed", server=self._origin)
        encoded = self._encoder.encode(request)
        try:
            with Deadline(timeout):
                if asks_for_stream(request):
                    return await self._exchange(request, encoded, stream=True)
                async with self._slots:
                    return await self._exchange(request, encoded, stream=False)
        except TimeoutError as error:
            within = f"within {timeout:g} s" if timeout else "in time"
            raise errors.TimedOut(f"no answer {within}", server=self._origin) from error

    async def close(self) -> None:
        """Close all connections, those of open streams too."""
        self._is_closed = True
        await self._pool.close()

    def reconnect(self) -> None:
        """Use no connection again that was opened until now; requests in flight may end."""
        self._pool.reconnect()

    async def _exchange(
        self, request: HttpRequest, encoded: bytes, *, stream: bool
    ) -> HttpResponse:
        connection = await self._pool.acquire()
        try:
            if request.before_send is not None:
                request.before_send()  # after every wait, and in the step that writes
            response = await connection.exchange(
                request.method, encoded, stream=stream, outgoing=request.stream
            )
        except BaseException:
            connection.abort()  # the response may still come, and belongs to no other request
            raise
        if response.stream is None:
            self._pool.release(connection)
        return response


def _parse_origin(base_url: str) -> ServerUrl:
    url = server_url.parse(base_url)
    if url.scheme not in ("https", "http") or not url.host:
        raise ValueError(f"{base_url!r} is not an http or https URL")
    if not url.is_server or url.path.strip("/"):
        raise ValueError(f"{base_url!r} must be an origin: scheme, host and port only")
    return url
