"""WebSocket frames: what one side encodes the other decodes, however the bytes are cut."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.client import websocket
from datum_compute.client.websocket import BINARY, FrameDecoder, Message, WebSocketError

MASK = b"\x01\x02\x03\x04"


def test_the_accept_key_is_that_of_the_standard() -> None:
    assert websocket.accept_key("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@given(st.lists(st.binary(max_size=70_000), max_size=4), st.integers(1, 5000), st.booleans())
def test_messages_arrive_as_they_were_sent(contents: list[bytes], cut: int, masked: bool) -> None:
    mask = MASK if masked else b""
    sent = b"".join(websocket.encode_frame(BINARY, each, mask) for each in contents)
    decoder = FrameDecoder(masked=masked)
    found: list[Message] = []
    for start in range(0, len(sent), cut):
        found += decoder.feed(sent[start : start + cut])
    assert found == [Message(BINARY, each) for each in contents]


def test_a_message_in_parts_is_joined_and_control_frames_may_come_between() -> None:
    parts = b"\x02\x02ab" + websocket.encode_frame(websocket.PING, b"?") + b"\x80\x01c"
    assert FrameDecoder(masked=False).feed(parts) == [
        Message(websocket.PING, b"?"),
        Message(BINARY, b"abc"),
    ]


@pytest.mark.parametrize(
    "sent",
    [
        b"\xc2\x00",  # a reserved bit
        b"\x83\x00",  # an unknown opcode
        b"\x80\x01a",  # a continuation of nothing
        b"\x02\x00\x02\x00",  # a message within a message
        b"\x09\x00",  # a ping in parts
        b"\x89\x7e\x00\x80",  # a long ping
        b"\x82\x80" + MASK,  # masked by the server
        b"\x82\x7f" + struct.pack(">Q", 2**62),  # longer than any message may be
        (b"\x02\x7f" + struct.pack(">Q", 2**20) + bytes(2**20) + b"\x00\x01a"),
    ],
)
def test_a_frame_against_the_protocol_is_an_error(sent: bytes) -> None:
    with pytest.raises(WebSocketError):
        FrameDecoder(masked=False).feed(sent)
