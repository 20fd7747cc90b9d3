"""One client's connection: HTTP/1.1 parsed by httptools, one response after the other.

A request goes to the handler only once all of it has arrived: a deletion whose options are cut
off must not run with the default options. Pipelined requests wait in order, and reading pauses
meanwhile. What is long is sent part by part, the next when the client has taken the one before; a
watch is sent chunk by chunk. When the client disconnects, or is slow for too long, the stream is
closed, which frees the watcher. A client may switch to another protocol where the handler agrees:
from then on both directions are plain streams of bytes.

Limits protect the server from idle and hostile clients: on the time a request takes to arrive, on
the time a client stops reading, and on the size of heads and bodies.
"""

from __future__ import annotations

import asyncio
import http
from collections import deque
from collections.abc import AsyncIterator
from typing import cast
from urllib.parse import parse_qsl, unquote

import httptools
import msgspec

from datum_compute.apiserver import codec, errors
from datum_compute.apiserver.request import impersonation
from datum_compute.client.transport import (
    AnswerNow,
    Handler,
    HttpRequest,
    HttpResponse,
    close_stream,
)
from datum_compute.log import get_logger

KEEP_ALIVE_SECONDS = 300
"""Longer than clients keep idle connections: if the server closed one while a client writes, the
client could not tell whether its request was processed."""
MAX_HEAD = 2**20
"""Bytes of a request that are not its body: the real server's limit for the head. Here trailers
and the sizes of chunks count too."""
MAX_HEADERS = 2000
"""Headers of a request. A guess: clients send a dozen, and each one costs time."""

WRITE_BYTES = 64 * 1024
"""Bytes that are written at once, and that wait in a connection before it is asked for no more."""

_NEVER = float("inf")
_BODILESS = ("GET", "HEAD")
_GIVEN_ONCE = ("authorization", "content-type")
"""Headers that decide who asks for what. Given twice, a proxy might read the one and the server
the other, so such a request is refused."""
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_HEAD_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"connection: close\r\ncontent-length: 0\r\n\r\n"
)
_NOT_HTTP = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"connection: close\r\ncontent-length: 31\r\n\r\nInvalid HTTP request received.\n"
)
_PHRASES = {status.value: status.phrase for status in http.HTTPStatus}
_STATUS_LINES = {code: f"HTTP/1.1 {code} {_PHRASES.get(code, '')}\r\n" for code in range(100, 600)}
"""Every code: an admission may deny with one that has no standard phrase."""
_PLAIN_NAMES = {
    spelled.encode(): name
    for name in (
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "host",
        "user-agent",
    )
    for spelled in (name, name.title())
}
"""The headers of nearly every request that are taken as they are."""
_CONTROLS = dict.fromkeys((*range(9), *range(10, 32), 127), "?")
"""Control characters in a header's value are replaced: some would end the value or the head."""

_log = get_logger(__name__)


class _Exchange(msgspec.Struct):
    """A request, and what its response depends on."""

    request: HttpRequest | None
    """None if it was refused while it arrived."""
    keep_alive: bool
    response: HttpResponse | None = None
    """Where it is known already. None without a request: the bytes were not HTTP."""


class _Incoming:
    """What a client sends after a request to switch protocols, as it arrives. Reading pauses
    while too much of it waits."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None

    def feed(self, data: bytes) -> None:
        self._chunks.append(data)
        self._size += len(data)
        if self._size > WRITE_BYTES and not self._transport.is_closing():
            self._transport.pause_reading()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._chunks:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        chunk = self._chunks.popleft()
        was_paused = self._size > WRITE_BYTES
        self._size -= len(chunk)
        if was_paused and self._size <= WRITE_BYTES and not self._transport.is_closing():
            self._transport.resume_reading()
        return chunk


class HttpServerConnection(asyncio.Protocol):
    """One connection. Until it is made, the client may still owe the TLS handshake."""

    def __init__(
        self, handler: Handler, client_timeout: float, answer_now: AnswerNow | None = None
    ) -> None:
        self._handler = handler
        self._answer_now = answer_now
        self._may_answer_now = False
        """Of what arrives at once one request is answered at once: others are not kept waiting."""
        self._client_timeout = client_timeout
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # set when made
        # The request that is arriving
        self._url = b""
        self._headers: dict[str, str] = {}
        self._method = ""
        self._body: list[bytes] = []
        self._body_size = 0
        self._head_size = 0
        self._header_count = 0
        self._repeated = ""
        self._in_head = True
        self._is_arriving = False
        self._is_refused = False
        self._keep_alive = True
        # The request that is handled, and those that wait
        self._task: asyncio.Task[None] | None = None
        self._stream: AsyncIterator[bytes] | None = None
        self._waiting: deque[_Exchange] = deque()
        self._is_reading = True
        self._is_parsing = True
        self._incoming: _Incoming | None = None
        self._has_switched = False
        self._is_closing_after = False
        # Deadlines and flow control
        self._deadline = _NEVER
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._drained: asyncio.Future[None] | None = None
        self._is_lost = False
        self.closed: asyncio.Future[None] = self._loop.create_future()
        """Done once the connection is lost."""
        self.silent_since: float | None = self._loop.time()
        """Since when the client owes a request, whole or in part; None while one is handled."""
        self.has_served = False
        """Whether a request has arrived."""

    @property
    def is_made(self) -> bool:
        return self._timer is not None

    # Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not isinstance: uvloop's transports are not subclasses.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BYTES)
        self._deadline = self._loop.time() + self._client_timeout
        self._timer = self._loop.call_later(self._client_timeout, self._check_deadline)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._is_parsing = False
        del self._parser  # it refers to the connection, which is then freed at once
        self.closed.set_result(None)
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
        self.resume_writing()
        # A request in progress is completed; only a stream ends with its connection.
        if self._stream is not None and self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        if self._incoming is not None:
            self._incoming.feed(data)
            return
        if not self._is_parsing or self._transport.is_closing():
            return
        self._may_answer_now = self._answer_now is not None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as switch:
            self._is_parsing = False  # handled as plain HTTP where the handler does not switch
            self._switch_input(data[switch.args[0] :])
        except httptools.HttpParserError:
            self._is_parsing = False
            if self._stream is not None:
                self._transport.abort()
            else:
                self._enqueue(_Exchange(None, keep_alive=False))
            return
        self._head_size += len(data)  # on_body takes off what was body
        if self._head_size > MAX_HEAD:
            self._is_parsing = False
            if self._task is None:
                self._transport.write(_HEAD_TOO_LARGE)
            self._transport.close()

    def _switch_input(self, rest: bytes) -> None:
        """What came with the request and after it."""
        if self._incoming is not None and rest:
            self._incoming.feed(rest)

    def pause_writing(self) -> None:
        self._drained = self._loop.create_future()
        if not self._has_switched:  # a person may stop the output of a terminal for long
            self._write_timer = self._loop.call_later(self._client_timeout, self._transport.abort)

    def resume_writing(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def _check_deadline(self) -> None:
        """Runs at least once per client timeout, so no deadline set in between is missed."""
        now = self._loop.time()
        if now >= self._deadline:
            if self._is_reading:
                # An idle connection is closed; one that is in the middle of a request is aborted.
                (self._transport.abort if self._is_arriving else self._transport.close)()
                return
            # The rest of the request is unread because an earlier response has not been sent.
            self._deadline = now + self._client_timeout
        self._timer = self._loop.call_at(
            min(self._deadline, now + self._client_timeout), self._check_deadline
        )

    # Parser

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers = {}
        self._body = []
        self._body_size = self._head_size = self._header_count = 0
        self._repeated = ""
        self._in_head = self._is_arriving = True
        self._is_refused = False
        self._deadline = self._loop.time() + self._client_timeout

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_count += 1
        if self._header_count > MAX_HEADERS:
            raise ValueError("too many headers")  # ends the parser: this is not HTTP
        if not self._in_head:
            return  # a trailer: it came after the request was judged by its head
        plain = _PLAIN_NAMES.get(name)
        if plain is not None:
            self._headers[plain] = value.decode("latin-1")
            return
        key = name.decode("latin-1").lower()
        if key in _GIVEN_ONCE and key in self._headers:
            self._repeated = key
        if key.startswith(impersonation.PREFIX) and key in self._headers:
            value = self._headers[key].encode("latin-1") + impersonation.SEPARATOR.encode() + value
        self._headers[key] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._in_head = False
        parser = self._parser
        self._method = parser.get_method().decode("ascii")
        self._keep_alive = (
            parser.should_keep_alive()
            and parser.get_http_version() != "1.0"
            and not parser.should_upgrade()
        )
        # Parsed here, so that a target that is none is refused before its body is read.
        self._url.decode("ascii")
        if self._url[:1] != b"/":
            self._url = _origin_form(self._url)
        if self._repeated:
            self._refuse(errors.bad_request(f"the header {self._repeated} is given twice"))
        elif self._headers.get("expect", "").lower() == "100-continue" and self._task is None:
            self._transport.write(_CONTINUE)

    def on_body(self, body: bytes) -> None:
        self._head_size -= len(body)
        if self._is_refused or self._method in _BODILESS:
            return
        self._body.append(body)
        self._body_size += len(body)
        if self._body_size > codec.MAX_BODY:
            self._refuse(errors.too_large(codec.MAX_BODY))

    def _refuse(self, error: errors.ApiError) -> None:
        """Respond now; the rest of the request is read and ignored."""
        self._body.clear()
        self._is_refused = True
        self._enqueue(_Exchange(None, self._keep_alive, error.response()))

    def on_message_complete(self) -> None:
        self._is_arriving = False
        self._deadline = _NEVER
        if self._is_refused:
            if self._task is None:
                self._await_next()
            return
        if self._parser.should_upgrade():
            self._incoming = _Incoming(self._transport)
        path, _, query = self._url.decode("ascii").partition("?")
        request = HttpRequest(
            self._method,
            unquote(path) if "%" in path else path,
            tuple(parse_qsl(query, keep_blank_values=True)) if query else (),
            self._headers,
            b"".join(self._body),
            stream=self._incoming,
            is_wanted=self._is_wanted,
        )
        response = self._response_now(request)
        if response is None or not self._send_now(response):
            self._enqueue(_Exchange(request, self._keep_alive, response))

    def _response_now(self, request: HttpRequest) -> HttpResponse | None:
        """The response to a request that neither waits nor has to wait for another."""
        if not self._may_answer_now or self._task is not None or self._incoming is not None:
            return None
        self._may_answer_now = False
        assert self._answer_now is not None
        return self._answer_now(request)

    def _send_now(self, response: HttpResponse) -> bool:
        """Whether the response could be sent without waiting for anything."""
        body = response.body
        if (
            len(body) > WRITE_BYTES
            or response.stream is not None
            or self._drained is not None
            or not self._keep_alive
            or self._is_closing_after
        ):
            return False
        self._transport.write(_head(response, len(body), keep_alive=True) + body)
        if response.taken is not None:
            response.taken()
        self.has_served = True
        self.silent_since = now = self._loop.time()
        self._deadline = now + KEEP_ALIVE_SECONDS
        return True

    def _is_wanted(self) -> bool:
        return not self._is_lost

    # Responses

    def _enqueue(self, exchange: _Exchange) -> None:
        self.silent_since, self.has_served = None, True
        if self._task is None:
            self._task = self._loop.create_task(self._respond(exchange))
            return
        self._waiting.append(exchange)
        if self._is_reading and self._is_parsing:
            self._is_reading = False
            self._transport.pause_reading()

    async def _respond(self, exchange: _Exchange) -> None:
        """Respond to this request and to those that wait behind it."""
        try:
            while await self._respond_to_one(exchange) and self._waiting:
                exchange = self._waiting.popleft()
        except Exception:  # noqa: BLE001 - our bug in one connection must not end the others
            _log.exception("connection failed")
            self._transport.abort()
        finally:
            self._task = None
            self.silent_since = self._loop.time()
        if self._is_lost or self._transport.is_closing():
            return
        if not self._is_reading:
            self._is_reading = True
            self._transport.resume_reading()
        if not self._is_arriving:
            self._await_next()

    def _await_next(self) -> None:
        self._deadline = self._loop.time() + KEEP_ALIVE_SECONDS

    async def _respond_to_one(self, exchange: _Exchange) -> bool:
        """Send one response. Returns whether the connection can take another."""
        request = exchange.request
        if exchange.response is not None:
            response = exchange.response
        elif request is not None:
            response = await self._handler(request)
        else:
            self._transport.write(_NOT_HTTP)
            self._transport.close()
            return False
        keep_alive = exchange.keep_alive and not self._is_closing_after
        if response.stream is not None and response.status == 101:
            await self._switch(response, response.stream)
        elif response.stream is not None:
            await self._send_stream(_head(response, None, keep_alive), response.stream)
        else:
            head = _head(response, len(response.body), keep_alive)
            bodiless = request is not None and request.method == "HEAD"
            try:
                await self._send_body(head, b"" if bodiless else response.body)
            finally:
                if response.taken is not None:
                    response.taken()
        if self._is_lost:
            return False
        if not keep_alive or self._is_closing_after:
            self._transport.close()
            return False
        return True

    async def _send_body(self, head: bytes, body: bytes) -> None:
        if self._drained is not None:
            await self._drained
        if self._is_lost:
            return
        if len(body) <= WRITE_BYTES:
            self._transport.write(head + body)  # over TLS a write is a record: both go together
        else:
            self._transport.write(head)
            await self._write(body)

    async def _write(self, content: bytes) -> None:
        """Write it part by part, each when there is room, while the client is there."""
        for start in range(0, len(content), WRITE_BYTES):
            if self._is_lost:
                return
            self._transport.write(content[start : start + WRITE_BYTES])
            if self._drained is not None:
                await self._drained
            else:
                await asyncio.sleep(0)  # a fast client does not delay others either

    async def _send_stream(self, head: bytes, stream: AsyncIterator[bytes]) -> None:
        self._stream = stream
        try:
            if self._is_lost:  # before it could be cancelled
                return
            self._transport.write(head)
            async for chunk in stream:
                if len(chunk) <= WRITE_BYTES:
                    self._transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                    if self._drained is not None:
                        await self._drained
                else:
                    self._transport.write(b"%x\r\n" % len(chunk))
                    await self._write(chunk)
                    self._transport.write(b"\r\n")
            self._transport.write(b"0\r\n\r\n")
        finally:
            self._stream = None
            await close_stream(stream)

    async def _switch(self, response: HttpResponse, stream: AsyncIterator[bytes]) -> None:
        self._stream = stream
        self._has_switched = True
        try:
            if self._is_lost:
                return
            self._transport.write(_fields(response) + b"\r\n")
            async for chunk in stream:
                await self._write(chunk)
        finally:
            self._stream = None
            await close_stream(stream)

    # Shutdown

    def shut_down(self) -> None:
        """Close now if idle, else after the response that is in progress."""
        self._is_closing_after = True
        if self._task is None:
            self._transport.close()

    def abort(self) -> None:
        """Close now. The handler of a request in progress is cancelled."""
        if self._task is not None:
            self._task.cancel()
        self._transport.abort()


def _origin_form(url: bytes) -> bytes:
    """The path and query of a target in absolute form. Raises for any other."""
    parsed = httptools.parse_url(url)
    return parsed.path + (b"?" + parsed.query if parsed.query else b"")


def _head(response: HttpResponse, length: int | None, keep_alive: bool) -> bytes:
    length_of = b"transfer-encoding: chunked" if length is None else b"content-length: %d" % length
    ends = b"" if keep_alive else b"connection: close\r\n"
    return b"%b%b%b\r\n\r\n" % (_fields(response), ends, length_of)


def _fields(response: HttpResponse) -> bytes:
    if response.headers is errors.JSON_HEADERS:
        return _JSON_HEADS[response.status] + response.lines
    lines = [_STATUS_LINES[response.status]]
    for name, value in response.headers.items():
        if not value.isprintable():
            value = value.translate(_CONTROLS)
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode("latin-1", "replace") + response.lines


_JSON_HEADS = {
    code: f"{line}content-type: application/json\r\n".encode()
    for code, line in _STATUS_LINES.items()
}
"""Of responses whose headers are those of plain JSON."""
