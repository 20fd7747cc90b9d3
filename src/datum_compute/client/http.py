"""The transport over HTTP, to any Kubernetes API server.

A transport is bound to one origin when it is made: a request brings a path, never a host,
and redirects come back as they are, so a credential cannot travel elsewhere. Sessions are
made on first use inside the running loop. Streams have connections of their own: however
many watches are open, a plain request never waits for one of them to end.

Every error of the libraries below becomes a :class:`~.errors.TransportFailure`; only those
that surely came before the request was sent become ``ConnectFailed``.
"""

from __future__ import annotations

import asyncio
import io
import re
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
from yarl import URL

from datum_compute.client import errors
from datum_compute.client.proxy import proxy_authorization
from datum_compute.client.tls import client_context
from datum_compute.client.transport import Request, Response

CONNECT_TIMEOUT = 10.0
"""Seconds for a connection with its TLS handshake. A guess: several round trips round the world."""
MAX_CONNECTIONS = 64
"""Plain requests at once. Kubernetes serves 400 reads and 200 writes at once for everybody."""
_PLAIN = re.compile(r"[A-Za-z0-9/._~:@-]*").fullmatch


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
        self._options: dict[str, Any] = {"allow_redirects": False}
        if server_hostname:
            self._options["server_hostname"] = server_hostname
        self._plain_headers: dict[str, str] = {}
        if proxy:
            # Apart, because the library shows the URL in its errors, password and all.
            authorization = proxy_authorization(proxy)
            self._options["proxy"] = URL(proxy).with_user(None)
            if tls is not None:
                self._options["proxy_headers"] = authorization
            else:  # then every request is the proxy's to read
                self._plain_headers = authorization
        self._max_connections = max_connections
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        self._retired: list[aiohttp.ClientSession] = []
        self._sockets = _Sockets()
        self._streams: dict[int, _Stream] = {}
        self._closed = False

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        if self._closed:
            raise errors.ConnectFailed(f"{self._origin}: the transport is closed")
        streaming = _asks_for_stream(request)
        with self._failures(timeout):
            async with asyncio.timeout(timeout):
                response = await self._session(streaming).request(
                    request.method,
                    self._url(request),
                    headers={**request.headers, **self._plain_headers},
                    data=_payload(request.body),
                    **self._options,
                )
                if streaming and response.status < 300:
                    stream = self._streams[id(response)] = _Stream(self, response)
                    return Response(response.status, _headers(response), stream=stream)
                async with response:
                    body = await response.read()
        return Response(response.status, _headers(response), body)

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
        self._retired += self._sessions.values()
        self._sessions.clear()

    def _url(self, request: Request) -> URL:
        text = self._origin + _quoted(request.path)
        if request.query:
            text += "?" + _encoded(request.query)
        # Already encoded: the library would else resolve dots and decode escapes.
        return URL(text, encoded=True)

    def _session(self, streaming: bool) -> aiohttp.ClientSession:
        if streaming not in self._sessions:
            connector = aiohttp.TCPConnector(
                ssl=self._tls if self._tls is not None else True,
                limit=0 if streaming else self._max_connections,
                socket_factory=self._sockets.make,
            )
            session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT),
                trust_env=False,
            )
            # The library repeats a PUT or DELETE whose connection broke; whether that makes
            # sense only the caller knows. It offers no public switch.
            session._retry_connection = False
            self._sessions[streaming] = session
        return self._sessions[streaming]

    @contextmanager
    def _failures(self, timeout: float | None = None) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            failure = failure_for(error)
            text = f"no answer within {timeout:g} s" if timeout else "no answer in time"
            raise type(failure)(f"{self._origin}: {_text(error) or text}") from error
        except (aiohttp.ClientError, OSError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not self._closed:
                raise  # the library says "Session is closed" this way; anything else is a bug
            failure = failure_for(error)
            raise type(failure)(f"{self._origin}: {_text(error)}") from error


class _Stream:
    """The body of an answer that does not end by itself."""

    def __init__(self, transport: HttpTransport, response: aiohttp.ClientResponse) -> None:
        self._transport = transport
        self._response = response

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        with self._transport._failures():
            chunk = await self._response.content.readany()
        if not chunk:
            await self.aclose()
            raise StopAsyncIteration
        return chunk

    def fail(self) -> None:
        """The transport is being closed; whoever waits for a chunk must learn of it."""
        self._response.content.set_exception(aiohttp.ClientConnectionError("closed by us"))
        self._close()

    async def aclose(self) -> None:
        self._close()

    def _close(self) -> None:
        self._transport._streams.pop(id(self._response), None)
        # A polite end would have to read what is still to come first.
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        self._response.close()


def failure_for(error: Exception) -> errors.TransportFailure:
    """The failure a lower layer's error stands for.

    In doubt it is ``Disconnected``, which claims nothing about what the server did.
    """
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
            return errors.ConnectFailed(_text(error))
        case TimeoutError():
            return errors.TimedOut(_text(error))
        case RuntimeError():
            return errors.ConnectFailed("the transport is closed")
        case _:
            return errors.Disconnected(_text(error))


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


def _quoted(path: str) -> str:
    if _PLAIN(path):  # nearly every name is, and quoting takes its time
        return path
    return quote(path, safe="/:@!$&'()*+,;=~")


@lru_cache(maxsize=256)  # a client says the same few things in every call
def _encoded(query: tuple[tuple[str, str], ...]) -> str:
    return urlencode(query)


def _payload(body: bytes) -> bytes | io.BytesIO | None:
    if len(body) > 2**20:
        return io.BytesIO(body)  # the library wants to send large bodies in pieces
    return body or None  # an empty body would still be given a content type


def _asks_for_stream(request: Request) -> bool:
    return any(
        key in ("watch", "follow") and value in ("1", "true") for key, value in request.query
    )


def _headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    joined: dict[str, str] = {}
    for key, value in response.headers.items():
        key = key.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return joined


class _Sockets:
    """The sockets of one transport, so that closing it leaves none behind.

    The library closes TLS connections politely in the background, which may outlast the
    loop; when the transport is closed there is nobody left to be polite to.
    """

    def __init__(self) -> None:
        self._open: list[socket.socket] = []

    def make(self, address: Any) -> socket.socket:
        """A socket that notices within about a minute that its peer is gone.

        An idle watch sends nothing, so without probes a dead server would stay unnoticed.
        """
        family, kind, protocol = address[:3]
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, option):
                made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        self._open = [*self._still_open(), made]
        return made

    async def wait_shut(self) -> None:
        for each in self._still_open():
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # not connected, or the peer was faster
        # The loop learns of it at its next look at the sockets; the rest is a few callbacks.
        for _ in range(100):
            if not self._still_open():
                break
            await asyncio.sleep(0)

    def _still_open(self) -> list[socket.socket]:
        return [each for each in self._open if each.fileno() >= 0]
