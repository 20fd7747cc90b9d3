"""Heads and bodies of HTTP/1.1 messages on streams.

A head is read whole, parsed strictly and written anew, and a body is framed anew, so that nothing
of how one side wrote a message reaches the other: what is ambiguous about where a message ends is
refused here and cannot mean two things behind the router.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

import httptools

MAX_HEAD = 32 * 1024
"""Bytes of a head; Node's and Go's servers take 16 KiB and 1 MiB."""
MAX_HEADERS = 200
CHUNK = 64 * 1024
"""Bytes of a body that are moved at once."""
_MAX_CHUNK_LINE = 1024
_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-connection proxy-authenticate proxy-authorization te trailer"
    b" transfer-encoding upgrade".split()
)
_WRITTEN_ANEW = frozenset(
    b"host content-length forwarded x-forwarded-for x-forwarded-host x-forwarded-proto".split()
)
_LENGTH = frozenset({b"content-length"})
_SWITCHABLE = b"websocket"
"""The protocol to which a connection may switch. Not h2c: requests within would not be routed."""

Headers = list[tuple[bytes, bytes]]


class BadMessage(Exception):
    """What was read is not HTTP as the router takes it; the message says why."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Framing:
    """How the end of a body is found: after ``length`` bytes, by chunks, or, with neither, when
    the connection is closed."""

    length: int | None = None
    chunked: bool = False


EMPTY = Framing(0)


@dataclass(frozen=True, slots=True)
class RequestHead:
    method: str
    target: bytes
    host: str
    headers: Headers
    framing: Framing
    keep_alive: bool
    is_http_1_1: bool
    upgrade: bytes = b""
    """The protocol that the client wants to switch to."""
    accepts_json: bool = False

    @property
    def is_safe(self) -> bool:
        """Whether it may be sent a second time, to another Instance."""
        return self.method in ("GET", "HEAD", "OPTIONS") and self.framing == EMPTY

    def render(self, peer: str) -> bytes:
        """As the Instance gets it."""
        lines = [self.method.encode(), b" ", self.target, b" HTTP/1.1\r\nhost: "]
        host = self.host.encode("latin-1")
        lines += [host, b"\r\n", *_fields(self.headers, _WRITTEN_ANEW)]
        lines += [b"x-forwarded-for: ", peer.encode(), b"\r\nx-forwarded-host: ", host]
        lines.append(b"\r\nx-forwarded-proto: http\r\n")
        if self.upgrade:
            lines += [b"connection: upgrade\r\nupgrade: ", self.upgrade, b"\r\n"]
        if self.framing != EMPTY or self.method in ("POST", "PUT", "PATCH"):
            lines += _framing_fields(self.framing)
        return b"".join([*lines, b"\r\n"])


@dataclass(frozen=True, slots=True)
class ResponseHead:
    status: int
    reason: bytes
    headers: Headers
    framing: Framing
    keep_alive: bool
    bodiless: bool

    @property
    def is_interim(self) -> bool:
        return 100 <= self.status < 200 and self.status != 101

    def render(self, framing: Framing, *, keep_alive: bool) -> bytes:
        """As the client gets it. Without a body the Instance's length is repeated, since it says
        what a GET would return."""
        lines = [b"HTTP/1.1 %d " % self.status, self.reason, b"\r\n"]
        lines += _fields(self.headers, frozenset() if self.bodiless else _LENGTH)
        if self.status == 101:
            lines += [b"connection: upgrade\r\nupgrade: ", _SWITCHABLE, b"\r\n"]
        elif not self.is_interim:
            lines += _framing_fields(framing) if not self.bodiless else []
            if not keep_alive:
                lines.append(b"connection: close\r\n")
        return b"".join([*lines, b"\r\n"])


class _Fields:
    """Collects what httptools finds in a head."""

    def __init__(self) -> None:
        self.url = b""
        self.reason = b""
        self.headers: Headers = []
        self.is_complete = False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_status(self, status: bytes) -> None:
        self.reason += status

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.is_complete = True


async def read_head(reader: asyncio.StreamReader) -> bytes:
    """A whole head; empty where the other side has closed its end before the first byte. Raises
    BadMessage and ``ConnectionError``."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial.strip(b"\r\n"):
            raise ConnectionResetError("the connection was closed within a head") from error
        return b""
    except asyncio.LimitOverrunError as error:
        raise BadMessage(f"the head is longer than {MAX_HEAD} bytes", 431) from error
    if len(head) > MAX_HEAD:
        raise BadMessage(f"the head is longer than {MAX_HEAD} bytes", 431)
    return head.lstrip(b"\r\n")


def _parse(
    parser: httptools.HttpRequestParser | httptools.HttpResponseParser, fields: _Fields, head: bytes
) -> None:
    # Some parsers take a lone CR or LF for the end of a line, and others do not.
    if not head.count(b"\r\n") == head.count(b"\n") == head.count(b"\r") or b"\0" in head:
        raise BadMessage("a line of the head does not end in CR LF")
    try:
        parser.feed_data(head)
    except httptools.HttpParserUpgrade:
        pass
    except httptools.HttpParserError as error:
        raise BadMessage(f"this is not HTTP/1.1: {error}") from error
    if not fields.is_complete:
        raise BadMessage("the head is not complete")
    if len(fields.headers) > MAX_HEADERS:
        raise BadMessage(f"there are more than {MAX_HEADERS} headers", 431)


def parse_request(head: bytes) -> RequestHead:
    """Raises BadMessage."""
    fields = _Fields()
    parser = httptools.HttpRequestParser(fields)
    _parse(parser, fields, head)
    headers = fields.headers
    method, version = parser.get_method().decode("ascii"), parser.get_http_version()
    if method == "CONNECT":
        raise BadMessage("CONNECT is not served", 405)
    if version not in ("1.0", "1.1"):
        raise BadMessage(f"HTTP/{version} is not served", 505)
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1:
        raise BadMessage("the header Host is given twice")
    host, target = hosts[0] if hosts else b"", fields.url
    if not target.startswith(b"/") and target != b"*":
        host, target = _absolute(target)
    is_1_1 = version == "1.1"
    tokens = _tokens(headers, b"connection")
    upgrade = _value(headers, b"upgrade") if b"upgrade" in tokens and is_1_1 else b""
    framing = _framing(headers, is_1_1) or EMPTY
    return RequestHead(
        method,
        target,
        host.decode("latin-1"),
        _end_to_end(headers, tokens),
        framing,
        is_1_1 and b"close" not in tokens,
        is_1_1,
        upgrade if upgrade.lower() == _SWITCHABLE and framing == EMPTY else b"",
        b"json" in _value(headers, b"accept"),
    )


def _absolute(target: bytes) -> tuple[bytes, bytes]:
    """Host and path of a target in absolute form, whose host counts instead of the header's."""
    try:
        parts = urlsplit(target.decode("ascii"))
    except ValueError as error:
        raise BadMessage("the target of the request is not a path") from error
    if parts.scheme != "http" or "@" in parts.netloc or not parts.netloc:
        raise BadMessage("the target of the request is not a path")
    query = f"?{parts.query}" if parts.query else ""
    return parts.netloc.encode(), f"{parts.path or '/'}{query}".encode()


def parse_response(head: bytes, *, to: str) -> ResponseHead:
    """``to`` is the method of the request. Raises BadMessage."""
    fields = _Fields()
    parser = httptools.HttpResponseParser(fields)
    _parse(parser, fields, head)
    status, is_1_1 = parser.get_status_code(), parser.get_http_version() == "1.1"
    tokens = _tokens(fields.headers, b"connection")
    bodiless = to == "HEAD" or status < 200 or status in (204, 304)
    framing = EMPTY if bodiless else _framing(fields.headers, is_1_1) or Framing()
    headers = _end_to_end(fields.headers, tokens)
    if to != "HEAD" and (status < 200 or status == 204):
        headers = [each for each in headers if each[0] != b"content-length"]
    keep_alive = is_1_1 and b"close" not in tokens and framing != Framing()
    return ResponseHead(status, fields.reason, headers, framing, keep_alive, bodiless)


def _framing(headers: Headers, is_1_1: bool) -> Framing | None:
    """None where the headers tell nothing about the body."""
    lengths = [value for name, value in headers if name == b"content-length"]
    codings = [value.strip().lower() for name, value in headers if name == b"transfer-encoding"]
    if codings:
        if lengths:
            raise BadMessage("both Content-Length and Transfer-Encoding are given")
        if codings != [b"chunked"] or not is_1_1:
            raise BadMessage("the only Transfer-Encoding is chunked, given once", 501)
        return Framing(chunked=True)
    if not lengths:
        return None
    if len(lengths) > 1:
        raise BadMessage("the header Content-Length is given twice")
    if not lengths[0].isdigit() or len(lengths[0]) > 18:
        raise BadMessage("Content-Length is not a number")
    return Framing(int(lengths[0]))


def _framing_fields(framing: Framing) -> list[bytes]:
    if framing.chunked:
        return [b"transfer-encoding: chunked\r\n"]
    return [b"content-length: %d\r\n" % framing.length] if framing.length is not None else []


def _value(headers: Headers, name: bytes) -> bytes:
    return b",".join(value for key, value in headers if key == name)


def _tokens(headers: Headers, name: bytes) -> set[bytes]:
    return {each.strip().lower() for each in _value(headers, name).split(b",")}


def _end_to_end(headers: Headers, named: set[bytes]) -> Headers:
    """Without those for this connection alone, which the header Connection may name too. None of
    those that say where a message ends can be dropped like that: they are written anew."""
    return [each for each in headers if each[0] not in _HOP_BY_HOP and each[0] not in named]


def _fields(headers: Headers, dropped: frozenset[bytes]) -> list[bytes]:
    return [b"%b: %b\r\n" % each for each in headers if each[0] not in dropped]


async def read_body(reader: asyncio.StreamReader, framing: Framing) -> AsyncIterator[bytes]:
    """Its parts, without the framing. Raises BadMessage, and ``ConnectionError`` where it ends too
    early."""
    if framing.chunked:
        while size := await _chunk_size(reader):
            async for part in _exactly(reader, size):
                yield part
            if await _line(reader) != b"":
                raise BadMessage("a chunk is longer than it says")
        while await _line(reader):
            pass  # trailers end here, as the header TE does
    elif framing.length is not None:
        async for part in _exactly(reader, framing.length):
            yield part
    else:
        while part := await reader.read(CHUNK):
            yield part


async def _exactly(reader: asyncio.StreamReader, size: int) -> AsyncIterator[bytes]:
    while size:
        part = await reader.read(min(size, CHUNK))
        if not part:
            raise ConnectionResetError("the connection was closed within a body")
        size -= len(part)
        yield part


async def _chunk_size(reader: asyncio.StreamReader) -> int:
    digits = (await _line(reader)).partition(b";")[0].rstrip(b" \t")
    if not 0 < len(digits) <= 15 or digits.strip(b"0123456789abcdefABCDEF"):
        raise BadMessage("the size of a chunk is not a number")
    return int(digits, 16)


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        line = await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        raise ConnectionResetError("the connection was closed within a body") from error
    except asyncio.LimitOverrunError as error:
        raise BadMessage("a line of a chunk is too long") from error
    if len(line) > _MAX_CHUNK_LINE or not line.endswith(b"\r\n") or b"\r" in line[:-2]:
        raise BadMessage("a line of a chunk does not end in CR LF, or is too long")
    return line[:-2]


def send(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Raises ``ConnectionError`` where the connection is closed; some event loops raise another
    error, others none."""
    if writer.is_closing():
        raise ConnectionResetError("the connection is closed")
    writer.write(data)


def send_end(writer: asyncio.StreamWriter) -> None:
    """Close this end of the connection; the other stays open."""
    if not writer.is_closing():
        writer.write_eof()


def frame(part: bytes, framing: Framing) -> bytes:
    return b"%x\r\n%b\r\n" % (len(part), part) if framing.chunked else part


def end_of(framing: Framing) -> bytes:
    return b"0\r\n\r\n" if framing.chunked else b""


def render_refusal(
    status: int, reason: str, message: str, *, as_json: bool, retry_after: int | None
) -> tuple[bytes, bytes]:
    """Head, without its last line, and body of a response by the router itself."""
    if as_json:
        kind = "application/json"
        body = json.dumps({"code": status, "reason": reason, "message": message}).encode() + b"\n"
    else:
        kind, body = "text/plain; charset=utf-8", f"{message}\n".encode()
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "server: datum-compute",
        f"content-type: {kind}",
        f"content-length: {len(body)}",
        "cache-control: no-store",
    ]
    if retry_after is not None:
        lines.append(f"retry-after: {retry_after}")
    return ("\r\n".join(lines) + "\r\n").encode(), body
