"""The two wire forms of protobuf that bodies of kubectl consist of."""

from __future__ import annotations


def number(value: int) -> bytes:
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def field(at: int, content: bytes | str) -> bytes:
    content = content.encode() if isinstance(content, str) else content
    return number(at << 3 | 2) + number(len(content)) + content
