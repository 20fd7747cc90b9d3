"""The server on a port: TLS and HTTP by uvicorn, one small ASGI application between.

The application turns what uvicorn read into a :class:`Request`, hands it to the server and
sends the answer. A watch is sent chunk by chunk: the head goes out at once, a slow reader
makes ``send`` wait, and while it waits the watcher's own bounded buffer fills. When the
client goes away, the stream is closed, which frees the watcher.

Nobody may hold a connection for nothing: a request has so long to arrive, a reader so long
to go on reading, and a head may be only so large.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from datum_compute.apiserver import codec, errors
from datum_compute.apiserver.http.certificates import ensure_certificates
from datum_compute.apiserver.server import ApiServer
from datum_compute.client.transport import Handler, HttpRequest, HttpResponse, close_stream
from datum_compute.env import Environment

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

BACKLOG = 2048
KEEP_ALIVE_SECONDS = 300
"""An idle connection lives longer than clients keep theirs: whoever closes first while the
other writes makes a request fail whose fate is unknown."""
GRACE_SECONDS = 2
"""How long requests may take to end when the server goes down."""
MAX_HEAD = 2**20
"""Bytes of a request before its body: the real server's limit."""
CLIENT_TIMEOUT_SECONDS = 60.0
"""How long a request may take to arrive, and a reader to take what was sent. The real server
gives a request as long from its first byte to its answer."""


class Application:
    """ASGI on one side, the transport's records on the other."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            body = await _body(scope, receive)
        except _ClientGone:
            return
        if body is None:
            response = errors.too_large(codec.MAX_BODY).response()
        else:
            response = await self._handler(_request(scope, body))
        if response.stream is None:
            await _send_whole(send, response)
        else:
            await _send_stream(receive, send, response, response.stream)


class _ClientGone(Exception):
    """The connection ended before the request did. Half a request is none: options cut off a
    deletion would make it another deletion, and half a YAML document is a document."""


async def _body(scope: dict[str, Any], receive: Receive) -> bytes | None:
    """The whole body, or None when it is larger than allowed."""
    if scope["method"] in ("GET", "HEAD"):
        return b""
    parts: list[bytes] = []
    size = 0
    more = True
    while more and size <= codec.MAX_BODY:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientGone
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
    return b"".join(parts) if size <= codec.MAX_BODY else None


def _request(scope: dict[str, Any], body: bytes) -> HttpRequest:
    query = scope["query_string"]
    return HttpRequest(
        scope["method"],
        scope["path"],
        tuple(parse_qsl(query.decode("latin-1"), keep_blank_values=True)) if query else (),
        {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
        body,
    )


def _head(response: HttpResponse, length: int | None) -> dict[str, Any]:
    headers = [
        (name.encode("latin-1"), value.encode("latin-1", "replace"))
        for name, value in response.headers.items()
    ]
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    return {"type": "http.response.start", "status": response.status, "headers": headers}


async def _send_whole(send: Send, response: HttpResponse) -> None:
    await send(_head(response, len(response.body)))
    await send({"type": "http.response.body", "body": response.body})


async def _send_stream(
    receive: Receive, send: Send, response: HttpResponse, stream: AsyncIterator[bytes]
) -> None:
    gone = asyncio.create_task(_close_when_gone(receive, stream))
    try:
        await send(_head(response, None))
        async for chunk in stream:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        gone.cancel()
        await close_stream(stream)
        await asyncio.gather(gone, return_exceptions=True)


async def _close_when_gone(receive: Receive, stream: AsyncIterator[bytes]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    await close_stream(stream)


class _Gathering:
    """A transport that puts on the wire once per turn of the loop what was written in it, or
    when it is told that an answer is whole.

    Uvicorn writes the head of an answer and its body apart; over TLS that would be two
    records, encrypted and sent one by one. Only ``write`` differs from the real transport.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def flush(self) -> None:
        if self._parts:
            parts, self._parts = self._parts, []
            if not self._transport.is_closing():
                self._transport.write(b"".join(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


_HEAD_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"connection: close\r\ncontent-length: 0\r\n\r\n"
)


class _Protocol(HttpToolsProtocol):
    """Uvicorn's protocol with bounds on what a client may send and for how long."""

    def __init__(self, patience: float, **rest: Any) -> None:
        super().__init__(**rest)
        self._patience = patience
        self._arriving: asyncio.TimerHandle | None = None
        self._leaving: asyncio.TimerHandle | None = None
        self._in_head = True
        self._head_size = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        loop = asyncio.get_running_loop()
        super().connection_made(cast(asyncio.Transport, _Gathering(transport, loop)))
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        _disarm(self._arriving, self._leaving)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if not self._in_head:
            return
        self._head_size += len(data)
        if self._head_size > MAX_HEAD and not self.transport.is_closing():
            if self.cycle is None or self.cycle.response_complete:
                self.transport.write(_HEAD_TOO_LARGE)
            self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_size = True, 0
        self._expect_request()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        _disarm(self._arriving)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        # The client has waited long enough: on a busy loop the next turn is far.
        cast(_Gathering, self.transport).flush()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._leaving = self.loop.call_later(self._patience, self.transport.abort)

    def resume_writing(self) -> None:
        _disarm(self._leaving)
        super().resume_writing()

    def _expect_request(self) -> None:
        _disarm(self._arriving)
        self._arriving = self.loop.call_later(self._patience, self._give_up)

    def _give_up(self) -> None:
        if self.flow.read_paused:  # it is we who do not read, for an earlier answer is not out
            self._expect_request()
        else:
            self.transport.abort()


def _disarm(*timers: asyncio.TimerHandle | None) -> None:
    for timer in timers:
        if timer is not None:
            timer.cancel()


class _Uvicorn(uvicorn.Server):
    """Uvicorn inside somebody else's process: signals and the main loop are not its business."""

    async def open(self, listener: socket.socket) -> None:
        self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        await self.startup(sockets=[listener])

    async def close(self) -> None:
        self.config.timeout_graceful_shutdown = GRACE_SECONDS
        await self.shutdown()


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
    """Serve HTTPS on the first of ``ports`` that is free (0: any) and give the port.

    Certificates live in ``directory``. The server's own work, :meth:`ApiServer.run`, is the
    caller's to run.
    """
    certificates = ensure_certificates(directory, env)
    listener = _listen(host, ports)
    front = _Uvicorn(
        uvicorn.Config(
            Application(server.handle),
            http=cast(type[asyncio.Protocol], partial(_Protocol, client_timeout)),
            ws="none",
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            backlog=BACKLOG,
            ssl_certfile=str(certificates.certificate),
            ssl_keyfile=str(certificates.key),
        )
    )
    await front.open(listener)
    try:
        yield listener.getsockname()[1]
    finally:
        server.end_watches()
        await front.close()
        listener.close()


def _listen(host: str, ports: Sequence[int]) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in ports:
        # With the protocol named, asyncio turns Nagle's algorithm off on every connection; left
        # on, it holds each answer back until the client's delayed acknowledgement, 40 ms later.
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
