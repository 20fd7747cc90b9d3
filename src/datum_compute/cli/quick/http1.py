"""One connection that GETs over HTTP/1.1, for the plain reader.

The standard library's client parses headers with the email package, which takes longer to load than
the rest of a short command. This one supports what API servers send and refuses the rest:

- a request is sent in one piece, and its response is read in full before the next one, at once or
  chunk by chunk;
- a body ends with its last chunk, else by ``Content-Length``, else when the server closes;
- heads, chunks' sizes and bodies have limits, so a hostile server cannot fill the memory;
- redirects and errors are returned like any response, and nothing is decompressed, because no
  compressed response is requested.

Invalid HTTP raises :class:`MalformedResponse`, and network errors raise ``OSError``; after either
the connection is closed.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

from datum_compute.client.http.faults import MAX_HEAD, MalformedResponse

if TYPE_CHECKING:
    import ssl

MAX_BODY = 1 << 30
"""Bytes of a response. A guess: a page of 500 objects of the largest size an API server keeps
(1.5 MB) is below it, and it still fits into memory."""
MAX_CHUNK_LINE = 1024
"""Bytes of a chunk's size with its extensions."""
MAX_INTERIM = 10
"""1xx responses before the final one."""

_RECEIVED_AT_ONCE = 256 * 1024
_NAME = frozenset(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_HEXADECIMAL = frozenset(b"0123456789abcdefABCDEF")
_NO_BODY = (204, 304)

Headers = dict[str, str]
"""Names in lower case; the values of one that is repeated are joined with a comma."""


class BlockingConnection:
    """A connection to ``host``, or to ``beyond`` through ``host`` as a proxy."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        timeout: float,
        tls: ssl.SSLContext | None = None,
        server_hostname: str = "",
        beyond: str = "",
        proxy_headers: Headers | None = None,
        max_body: int = MAX_BODY,
    ) -> None:
        """``timeout`` bounds each wait. ``beyond`` is the ``host:port`` that a proxy connects
        to, and ``proxy_headers`` are sent to the proxy alone. With ``tls`` the server must
        present a certificate for ``server_hostname``."""
        self._host = host
        self._port = port
        self._timeout = timeout
        self._tls = tls
        self._server_hostname = server_hostname
        self._beyond = beyond
        self._proxy_headers = proxy_headers or {}
        self._max_body = max_body
        self._socket: socket.socket | None = None
        self._received = bytearray()

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    def connect(self) -> None:
        self._socket = _connected(self._host, self._port, self._timeout)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._beyond:
                self._ask_proxy()
            if self._tls is not None:
                self._socket = self._tls.wrap_socket(
                    self._socket, server_hostname=_ascii(self._server_hostname)
                )
        except BaseException:
            self.close()
            raise

    def get(self, target: str, headers: Headers) -> tuple[int, Headers, bytes]:
        """Code, headers and body of the response."""
        try:
            self._send("GET", target, headers)
            code, answered, keeps = self._head()
            body, framed = self._body(code, answered)
        except BaseException:
            self.close()
            raise
        if not keeps or not framed or self._received or code == 101:
            self.close()  # the server asked for it, or sent more bytes than announced
        return code, answered, body

    def stream(self, target: str, headers: Headers) -> tuple[int, Headers, Iterator[bytes]]:
        """Code, headers and the parts of the body, which are read as they are taken. One without
        chunks is read at once. No other request is allowed before the last part is taken."""
        try:
            self._send("GET", target, headers)
            code, answered, keeps = self._head()
            if not 200 <= code < 300 or "transfer-encoding" not in answered:
                body, framed = self._body(code, answered)
                if not keeps or not framed or self._received:
                    self.close()
                return code, answered, iter([body])
            self._check_coding(answered["transfer-encoding"])
        except BaseException:
            self.close()
            raise
        return code, answered, self._parts(keeps and "content-length" not in answered)

    def _parts(self, keeps: bool) -> Iterator[bytes]:
        ended = False
        try:
            yield from self._chunks()
            ended = True
        finally:
            if not ended or not keeps or self._received:
                self.close()

    def close(self) -> None:
        self._received.clear()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _ask_proxy(self) -> None:
        self._send("CONNECT", self._beyond, {"Host": self._beyond, **self._proxy_headers})
        code, _, _ = self._head()
        if not 200 <= code < 300:
            raise MalformedResponse(f"the proxy refused the connection with HTTP {code}")
        if self._received:
            raise MalformedResponse("the proxy sent data before the connection was set up")

    def _send(self, method: str, target: str, headers: Headers) -> None:
        assert self._socket is not None
        lines = [f"{method} {target} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
        if " " in target or not all(line.isprintable() for line in lines):
            raise ValueError("the request contains invalid characters")
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))

    def _head(self) -> tuple[int, Headers, bool]:
        """Code and headers of the final response, and whether another may follow."""
        for _ in range(MAX_INTERIM):
            lines = self._until(b"\r\n\r\n", MAX_HEAD).split(b"\r\n")
            version, code = _status(lines[0])
            headers = _headers(lines[1:])
            if code == 101 or code >= 200:
                values = headers.get("connection", "").lower().split(",")
                options = {value.strip() for value in values}
                keeps = "keep-alive" in options if version == b"HTTP/1.0" else True
                return code, headers, keeps and "close" not in options
        raise MalformedResponse("too many interim responses and no final one")

    def _body(self, code: int, headers: Headers) -> tuple[bytes, bool]:
        """The body, and whether its end was marked, so that another response may follow."""
        if code < 200 or code in _NO_BODY:
            return b"", True
        coding = headers.get("transfer-encoding")
        length = headers.get("content-length")
        if coding is not None:
            self._check_coding(coding)
            body = bytearray()
            for chunk in self._chunks():
                body += chunk
                self._check_length(len(body))
            return bytes(body), length is None  # both at once cannot be trusted
        if length is None:
            return self._rest(), False
        size = _length(length)
        self._check_length(size)
        return self._exactly(size), True

    def _check_coding(self, coding: str) -> None:
        if coding.lower() != "chunked":
            raise MalformedResponse(f"unsupported transfer encoding {coding[:40]!r}")

    def _chunks(self) -> Iterator[bytes]:
        while True:
            line = self._until(b"\r\n", MAX_CHUNK_LINE).partition(b";")[0].rstrip(b" \t")
            if not line or len(line) > 16 or not _HEXADECIMAL.issuperset(line):
                raise MalformedResponse(f"invalid chunk size {line[:40]!r}")
            size = int(line, 16)
            if size == 0:
                break
            self._check_length(size)
            chunk = self._exactly(size)
            if self._exactly(2) != b"\r\n":
                raise MalformedResponse("a chunk is longer than its declared size")
            yield chunk
        left = MAX_HEAD
        while trailer := self._until(b"\r\n", left):
            left -= len(trailer)

    def _check_length(self, size: int) -> None:
        if size > self._max_body:
            raise MalformedResponse(f"the response is longer than {self._max_body} bytes")

    def _until(self, mark: bytes, limit: int) -> bytes:
        """The bytes before ``mark``; consumes both."""
        searched = 0
        while (end := self._received.find(mark, searched)) < 0:
            searched = max(0, len(self._received) - len(mark))
            if len(self._received) > limit:
                break
            self._receive()
        if end < 0 or end > limit:
            raise MalformedResponse(f"a line or head is longer than {limit} bytes")
        found = bytes(self._received[:end])
        del self._received[: end + len(mark)]
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self._received) < size:
            self._receive()
        found = bytes(self._received[:size])
        del self._received[:size]
        return found

    def _rest(self) -> bytes:
        more = True
        while more:
            self._check_length(len(self._received))
            more = self._receive(may_end=True)
        found = bytes(self._received)
        self._received.clear()
        return found

    def _receive(self, *, may_end: bool = False) -> bool:
        """Wait for more bytes; False at the end of the stream, if ``may_end``."""
        assert self._socket is not None
        data = self._socket.recv(_RECEIVED_AT_ONCE)
        self._received += data
        if not data and not may_end:
            raise MalformedResponse(
                "the server closed the connection before the response was complete"
            )
        return bool(data)


def _connected(host: str, port: int, timeout: float) -> socket.socket:
    """The first of the host's addresses that answers."""
    failure: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(
        _ascii(host), port, type=socket.SOCK_STREAM
    ):
        made = socket.socket(family, kind, protocol)
        try:
            made.settimeout(timeout)
            made.connect(address)
            return made
        except OSError as error:
            made.close()
            failure = error
    raise failure


def _ascii(host: str) -> bytes:
    """The host as bytes: for a ``str`` the socket module loads the codec of international names."""
    try:
        return host.encode("ascii" if host.isascii() else "idna")
    except UnicodeError as error:
        raise OSError(f"{host!r} is not a valid host name") from error


def _status(line: bytes) -> tuple[bytes, int]:
    version, _, rest = line.partition(b" ")
    code = rest.partition(b" ")[0]
    known = version in (b"HTTP/1.1", b"HTTP/1.0")
    if not known or len(code) != 3 or not code.isdigit() or code < b"100":
        raise MalformedResponse(f"this is not HTTP: {line[:40]!r}")
    return version, int(code)


def _headers(lines: list[bytes]) -> Headers:
    headers: Headers = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or not _NAME.issuperset(name):
            raise MalformedResponse(f"invalid header {line[:40]!r}")
        if b"\r" in value or b"\n" in value or b"\0" in value:
            raise MalformedResponse(f"the header {name[:40]!r} contains a line break")
        key, text = name.decode("ascii").lower(), value.strip(b" \t").decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def _length(text: str) -> int:
    """The length of a body. Repeated values must be equal."""
    values = {each.strip() for each in text.split(",")}
    value = values.pop()
    if values or not (value.isascii() and value.isdigit()) or len(value) > 18:
        raise MalformedResponse(f"invalid content length {text[:40]!r}")
    return int(value)
