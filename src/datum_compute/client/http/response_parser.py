"""Responses of one connection, parsed as their bytes arrive."""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Any

import httptools

from datum_compute.client.http.faults import MAX_HEAD, MalformedResponse


class ResponseParser:
    """Parses the response to one request after another.

    Interim responses (1xx) are skipped. The body is unframed and decompressed; without a
    length it ends with the connection. So does what follows a switch of protocols.
    """

    def __init__(self, *, max_body: int = 0) -> None:
        """A body of more than ``max_body`` bytes, unless that is 0, is malformed."""
        self._parser = httptools.HttpResponseParser(self)
        self._max_body = max_body
        self.expect("GET")

    def expect(self, method: str, *, upgrade: bool = False) -> None:
        """Parse the response to a request of this method next. With ``upgrade`` it may switch
        protocols, and the body is what then follows."""
        self.status = 0
        self.headers: dict[str, str] = {}
        """Keys in lower case; repeated ones are joined with a comma."""
        self.has_head = False
        self.is_complete = False
        self.keeps_alive = False
        """Whether the connection may carry another request after this response."""
        self.buffered = 0
        """Bytes of the body that were not taken yet."""
        self._is_bodiless = method == "HEAD"
        self._head_size = 0
        self._may_switch = upgrade
        self._has_switched = False
        self._chunks: list[bytes] = []
        self._gunzip: Any = None  # what zlib.decompressobj makes has no public type

    def feed(self, data: bytes) -> None:
        """Raises :class:`MalformedResponse`."""
        if self._has_switched:
            self._add(data)
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as switch:
            self.keeps_alive = False  # what follows a 101 is not HTTP
            if self._is_switch():
                self._has_switched = True
                self._add(data[switch.args[0] :])
        except httptools.HttpParserError as error:
            if not self.is_complete:
                raise MalformedResponse(str(error.__context__ or error)) from error
            self.keeps_alive = False  # bytes beyond the response
        if not self.has_head:
            self._head_size += len(data)
            if self._head_size > MAX_HEAD:
                raise MalformedResponse(f"the headers exceed {MAX_HEAD} bytes")

    def feed_eof(self) -> None:
        """The server closed the connection, which ends a body without a length.
        Raises :class:`MalformedResponse` where the response is incomplete."""
        if self.is_complete:
            return
        has_length = "content-length" in self.headers or "transfer-encoding" in self.headers
        if not self.has_head or has_length:
            raise MalformedResponse("the connection closed before the response was complete")
        if self._has_switched:
            self.is_complete = True
            return
        try:
            self.on_message_complete()
        except ValueError as error:
            raise MalformedResponse(str(error)) from error

    def take(self) -> bytes:
        """The body received since the last call."""
        chunks = self._chunks
        if not chunks:
            return b""
        self._chunks = []
        self.buffered = 0
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def on_message_begin(self) -> None:
        if self.is_complete:
            raise ValueError("a response without a request")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.has_head:
            return  # a trailer
        key = _key(name)
        text = value.decode("utf-8", "surrogateescape")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if self._is_interim():
            return
        self.has_head = True
        self.keeps_alive = self._parser.should_keep_alive() and self.status != 101
        if self._is_bodiless:
            # httptools waits for the body that the headers announce, so this connection ends.
            self.is_complete, self.keeps_alive = True, False
        elif self.headers.get("content-encoding", "").lower() in ("gzip", "x-gzip"):
            self._gunzip = zlib.decompressobj(16 + zlib.MAX_WBITS)

    def on_body(self, data: bytes) -> None:
        if self._gunzip is not None:
            try:
                # One byte beyond the limit is enough to know.
                data = self._gunzip.decompress(data, self._max_body and self._max_body + 1)
            except zlib.error as error:
                raise ValueError(f"the body is not gzip: {error}") from error
        self._add(data)

    def on_message_complete(self) -> None:
        if self._is_interim():
            self.headers.clear()
            self._head_size = 0
            return
        if self._gunzip is not None and not self._gunzip.eof:
            raise ValueError("the compressed body is incomplete")
        self.is_complete = not self._is_switch()

    def _add(self, data: bytes) -> None:
        if data:
            self._chunks.append(data)
            self.buffered += len(data)
            if 0 < self._max_body < self.buffered:
                raise ValueError(f"the body has more than {self._max_body} bytes")

    def _is_switch(self) -> bool:
        return self.status == 101 and self._may_switch

    def _is_interim(self) -> bool:
        return self.status < 200 and self.status != 101


@lru_cache(maxsize=256)  # a server sends the same few
def _key(name: bytes) -> str:
    return name.decode("ascii").lower()
