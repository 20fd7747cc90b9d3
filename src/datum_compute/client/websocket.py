"""WebSocket frames (RFC 6455), without I/O: both sides of a connection after its handshake."""

from __future__ import annotations

import base64
import hashlib
import struct
from typing import NamedTuple

CONTINUATION, TEXT, BINARY = 0x0, 0x1, 0x2
CLOSE, PING, PONG = 0x8, 0x9, 0xA

NORMAL_CLOSURE = 1000
PROTOCOL_ERROR = 1002

MAX_MESSAGE = 2**20
"""Bytes of one message, over all its frames. Clients send terminal input in parts of 32 KiB."""
MAX_CONTROL = 125

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class WebSocketError(Exception):
    """The other side does not keep to the protocol."""


class Message(NamedTuple):
    opcode: int
    content: bytes


def accept_key(key: str) -> str:
    """The ``Sec-WebSocket-Accept`` that belongs to a ``Sec-WebSocket-Key``."""
    return base64.b64encode(hashlib.sha1(key.encode() + _GUID).digest()).decode()


def encode_frame(opcode: int, content: bytes, mask: bytes = b"") -> bytes:
    """One whole message. A client gives four bytes as ``mask``, a server none."""
    size, masked = len(content), 0x80 if mask else 0
    if size <= MAX_CONTROL:
        head = struct.pack(">BB", 0x80 | opcode, masked | size)
    elif size < 2**16:
        head = struct.pack(">BBH", 0x80 | opcode, masked | 126, size)
    else:
        head = struct.pack(">BBQ", 0x80 | opcode, masked | 127, size)
    return head + mask + (_masked(content, mask) if mask else content)


def encode_close(code: int, mask: bytes = b"") -> bytes:
    return encode_frame(CLOSE, struct.pack(">H", code), mask)


class FrameDecoder:
    """Messages from the bytes of one side. ``masked`` is whether that side is the client."""

    def __init__(self, *, masked: bool) -> None:
        self._masked = masked
        self._buffer = bytearray()
        self._parts: list[bytes] = []
        self._size = 0
        self._opcode: int | None = None

    def feed(self, data: bytes) -> list[Message]:
        """The messages that are complete now. Raises :class:`WebSocketError`."""
        self._buffer += data
        found: list[Message] = []
        while (frame := self._next_frame()) is not None:
            is_last, opcode, content = frame
            if opcode >= CLOSE:
                found.append(Message(opcode, content))
                continue
            if (opcode == CONTINUATION) is (self._opcode is None):
                raise WebSocketError("a fragment without its beginning, or two messages at once")
            if self._opcode is None:
                self._opcode = opcode
            self._parts.append(content)
            self._size += len(content)
            if self._size > MAX_MESSAGE:
                raise WebSocketError(f"a message exceeds {MAX_MESSAGE} bytes")
            if is_last:
                found.append(Message(self._opcode, b"".join(self._parts)))
                self._parts, self._size, self._opcode = [], 0, None
        return found

    def _next_frame(self) -> tuple[bool, int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        first, second = buffer[0], buffer[1]
        opcode, size, start = first & 0x0F, second & 0x7F, 2
        if first & 0x70 or opcode not in (CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG):
            raise WebSocketError(f"an unknown frame: {first:#04x}")
        if bool(second & 0x80) is not self._masked:
            raise WebSocketError("frames of a client are masked, and only those")
        if opcode >= CLOSE and (size > MAX_CONTROL or not first & 0x80):
            raise WebSocketError("a control frame is too long, or in parts")
        if size > MAX_CONTROL:
            width = 2 if size == 126 else 8
            if len(buffer) < start + width:
                return None
            size = int.from_bytes(buffer[start : start + width], "big")
            start += width
            if size > MAX_MESSAGE:
                raise WebSocketError(f"a message exceeds {MAX_MESSAGE} bytes")
        mask = b""
        if self._masked:
            mask = bytes(buffer[start : start + 4])
            start += 4
        if len(buffer) < start + size:
            return None
        content = bytes(buffer[start : start + size])
        del buffer[: start + size]
        return bool(first & 0x80), opcode, _masked(content, mask) if mask else content


def _masked(content: bytes, mask: bytes) -> bytes:
    size = len(content)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(content, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")
