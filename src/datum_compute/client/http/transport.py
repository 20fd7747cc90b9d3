"""The transport over HTTP, to any Kubernetes API server.

A transport is bound to one origin when it is made: a request brings a path, never a host,
and redirects come back as they are, so a credential cannot travel elsewhere. Of the library
it uses what makes and keeps connections and what reads answers; its sessions would cost more
than the rest of a call. Pools are made on first use inside the running loop. Streams have
connections of their own: however many watches are open, a plain request never waits for one
of them to end.

Every error of the libraries below becomes a :class:`~.errors.TransportFailure`; only those
that surely came before the request was sent become ``ConnectFailed``.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from datum_compute.client import errors
from datum_compute.client.http.faults import fault_of
from datum_compute.client.http.proxy import proxy_authorization
from datum_compute.client.http.request_encoder import RequestEncoder
from datum_compute.client.http.sockets import Sockets
from datum_compute.client.http.tls import client_context
from datum_compute.client.transport import HttpRequest, HttpResponse

if TYPE_CHECKING:
    from aiohttp.connector import Connection
    from aiohttp.http import RawResponseMessage
    from aiohttp.streams import StreamReader

CONNECT_TIMEOUT = 10.0
"""Seconds for a connection with its TLS handshake. A guess: several round trips round the world."""
MAX_CONNECTIONS = 64
"""Plain requests at once. Kubernetes serves 400 reads and 200 writes at once for everybody."""


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
    ) -> None:
        """``tls`` wins over ``ca_pem``; with neither, the system's authorities are trusted.
        ``server_hostname`` is the name expected in the certificate, if not the host's.
        ``proxy`` is its URL, with a user and password if it wants one; none is taken from
        the environment here."""
        self._origin = _origin_of(base_url)
        if tls is None and self._origin.startswith("https:"):
            tls = client_context(ca_pem)
        self._tls = tls
        self._options: dict[str, Any] = {"server_hostname": server_hostname or None}
        always = {"host": URL(self._origin).host_port_subcomponent or ""}
        before_path = ""
        if proxy:
            # Apart, because the library shows the URL in its errors, password and all.
            authorization = proxy_authorization(proxy)
            self._options["proxy"] = URL(proxy).with_user(None)
            if tls is not None:
                self._options["proxy_headers"] = authorization
            else:  # then every request is the proxy's to read, and to be told where it goes
                always |= authorization
                before_path = self._origin
        self._scribe = RequestEncoder(always, before_path)
        self._max_connections = max_connections
        self._pools: dict[bool, _Pool] = {}
        self._retired: list[_Pool] = []
        self._sockets = Sockets()
        self._streams: dict[int, _Stream] = {}
        self._closed = False

    async def send(self, request: HttpRequest, *, timeout: float | None = None) -> HttpResponse:
        if self._closed:
            raise errors.ConnectFailed("the transport is closed", server=self._origin)
        streaming = _asks_for_stream(request)
        written = self._scribe.write(request)
        with self._failures(timeout):
            async with asyncio.timeout(timeout):
                connection = await self._pool(streaming).connect()
                try:
                    if request.before_send is not None:
                        request.before_send()  # there may have been a wait for the connection
                    message, content = await _exchange(connection, request.method, written)
                    if streaming and message.code < 300:
                        stream = self._streams[id(connection)] = _Stream(self, connection, content)
                        return HttpResponse(message.code, _headers(message), stream=stream)
                    body = await content.read()
                except BaseException:
                    connection.close()  # what would come next on it is an answer to this
                    raise
        connection.release()
        return HttpResponse(message.code, _headers(message), body)

    async def close(self) -> None:
        """Close all connections, those of open streams too."""
        self._closed = True
        for stream in list(self._streams.values()):
            stream.fail()
        self.reconnect()
        while self._retired:
            await self._retired.pop().close()
        await self._sockets.wait_shut()

    def reconnect(self) -> None:
        """Use no connection again that was made until now; what is on its way may end."""
        self._retired += self._pools.values()
        self._pools.clear()

    def _pool(self, streaming: bool) -> _Pool:
        pool = self._pools.get(streaming)
        if pool is None:
            connector = aiohttp.TCPConnector(
                ssl=self._tls if self._tls is not None else True,
                limit=0 if streaming else self._max_connections,
                socket_factory=self._sockets.make,
            )
            pool = self._pools[streaming] = _Pool(connector, self._origin, self._options)
        return pool

    @contextmanager
    def _failures(self, timeout: float | None = None) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            text = f"no answer within {timeout:g} s" if timeout else "no answer in time"
            raise failure_for(error, self._origin, text) from error
        except (aiohttp.ClientError, HttpProcessingError, OSError) as error:
            raise failure_for(error, self._origin) from error


class _Pool:
    """Connections to one origin, made as they are needed and used again."""

    _TIMEOUT = aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT)

    def __init__(
        self, connector: aiohttp.TCPConnector, origin: str, options: dict[str, Any]
    ) -> None:
        self._connector = connector
        # To the library a connection is for a request; this one says only where to.
        self._whither: Callable[[], aiohttp.ClientRequest] = partial(
            aiohttp.ClientRequest, "GET", URL(origin), **options
        )
        if "proxy" not in options:
            # Made once, unless the library will write into it.
            direct = self._whither()
            self._whither = lambda: direct

    async def connect(self) -> Connection:
        try:
            return await self._connector.connect(self._whither(), [], self._TIMEOUT)
        except TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError("no connection in time") from error
        except (asyncio.CancelledError, aiohttp.ClientConnectionError) as error:
            # The library cancels those who wait for a connection when it is closed.
            if self._connector.closed and not _is_cancelled():
                raise aiohttp.ConnectionTimeoutError("the transport is closed") from error
            raise

    async def close(self) -> None:
        await self._connector.close()


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _exchange(
    connection: Connection, method: str, written: bytes
) -> tuple[RawResponseMessage, StreamReader]:
    """Write a request; the head of its answer, and where the rest will be."""
    protocol = connection.protocol
    if protocol is None or protocol.transport is None or protocol.transport.is_closing():
        raise aiohttp.ClientConnectionResetError("the connection was closed meanwhile")
    protocol.set_response_params(skip_payload=method == "HEAD", read_until_eof=True)
    protocol.transport.write(written)
    while True:
        message, content = await protocol.read()
        if message.code >= 200 or message.code == 101:
            return message, content


class _Stream:
    """The body of an answer that does not end by itself."""

    def __init__(
        self, transport: HttpTransport, connection: Connection, content: StreamReader
    ) -> None:
        self._transport = transport
        self._connection = connection
        self._content = content

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        with self._transport._failures():
            chunk = await self._content.readany()
        if not chunk:
            await self.aclose()
            raise StopAsyncIteration
        return chunk

    def fail(self) -> None:
        """The transport is being closed; whoever waits for a chunk must learn of it."""
        self._content.set_exception(aiohttp.ClientConnectionError("closed by us"))
        self._close()

    async def aclose(self) -> None:
        self._close()

    def _close(self) -> None:
        self._transport._streams.pop(id(self._connection), None)
        # A polite end would have to read what is still to come first.
        if self._connection.transport is not None:
            self._connection.transport.abort()
        self._connection.close()


def failure_for(error: Exception, server: str = "", text: str = "") -> errors.TransportFailure:
    """The failure a lower layer's error becomes; ``text`` is for an error without one.

    In doubt it is ``Disconnected``, which claims nothing about what the server did.
    """
    kind = _failure_type(error)
    return kind(_text(error) or text, server=server, fault=fault_of(error))


def _failure_type(error: Exception) -> type[errors.TransportFailure]:
    match error:
        case (
            aiohttp.ClientConnectorError()  # refused, unreachable, DNS, TLS handshake, proxy
            | aiohttp.ConnectionTimeoutError()
            | aiohttp.ServerFingerprintMismatch()
            | aiohttp.ClientHttpProxyError()
            | aiohttp.InvalidURL()
            | aiohttp.NonHttpUrlClientError()
            | socket.gaierror()
        ):
            return errors.ConnectFailed
        case TimeoutError():
            return errors.TimedOut
        case _:
            return errors.Disconnected


def _text(error: Exception) -> str:
    # Several errors of the library have an empty text.
    return str(error) or ("" if isinstance(error, TimeoutError) else type(error).__name__)


def _origin_of(base_url: str) -> str:
    parts = urlsplit(base_url)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise ValueError(f"{base_url!r} is not an http or https URL")
    if parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError(f"{base_url!r} must be an origin: scheme, host and port only")
    return f"{parts.scheme}://{parts.netloc}"


def _asks_for_stream(request: HttpRequest) -> bool:
    return request.method == "GET" and any(
        key in ("watch", "follow") and value in ("1", "true") for key, value in request.query
    )


def _headers(message: RawResponseMessage) -> dict[str, str]:
    joined: dict[str, str] = {}
    for key, value in message.headers.items():
        key = key.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return joined
