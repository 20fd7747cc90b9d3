"""HTTP/2 without TLS through the activator, as gRPC uses it: streams, their order and trailers."""

from __future__ import annotations

import asyncio
import struct

import h2.config
import h2.connection
import h2.events

from datum_compute.decisions.sleep import Rest
from tests.support.providers.activator import activated_instance, on_both_loops, wait_until

CALL = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/echo.Echo/Chat"),
    (":authority", "hello"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
]
ANSWER = [(":status", "200"), ("content-type", "application/grpc")]
TRAILERS = [("grpc-status", "0")]


def message(text: bytes) -> bytes:
    """One of gRPC: not compressed, its length, its content."""
    return struct.pack(">BI", 0, len(text)) + text


async def serve_echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Sends each message back when it comes, and trailers when the caller has ended."""
    found = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    found.initiate_connection()
    writer.write(found.data_to_send())
    while data := await reader.read(65536):
        for event in found.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                found.send_headers(event.stream_id, ANSWER)
            elif isinstance(event, h2.events.DataReceived):
                found.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                if event.data:
                    found.send_data(event.stream_id, event.data)
            elif isinstance(event, h2.events.StreamEnded):
                found.send_headers(event.stream_id, TRAILERS, end_stream=True)
        writer.write(found.data_to_send())
        await writer.drain()
    writer.close()


class Caller:
    """One connection with any number of calls."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self._state.initiate_connection()
        self.received: dict[int, bytes] = {}
        self.trailers: dict[int, dict[str, str]] = {}

    def call(self) -> int:
        stream = int(self._state.get_next_available_stream_id())
        self._state.send_headers(stream, CALL)
        self._flush()
        return stream

    def send(self, stream: int, text: bytes) -> None:
        self._state.send_data(stream, message(text))
        self._flush()

    def end(self, stream: int) -> None:
        self._state.end_stream(stream)
        self._flush()

    async def read_until(self, stream: int, expected: bytes) -> None:
        async with asyncio.timeout(10):
            while self.received.get(stream, b"") != expected:
                await self._read()

    async def wait_trailers(self, stream: int) -> dict[str, str]:
        async with asyncio.timeout(10):
            while stream not in self.trailers:
                await self._read()
        return self.trailers[stream]

    def close(self) -> None:
        self._state.close_connection()
        self._flush()
        self._writer.close()

    async def _read(self) -> None:
        data = await self._reader.read(65536)
        assert data, "the connection was closed"
        for event in self._state.receive_data(data):
            if isinstance(event, h2.events.DataReceived):
                self._state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                before = self.received.get(event.stream_id, b"")
                self.received[event.stream_id] = before + event.data
            elif isinstance(event, h2.events.TrailersReceived):
                pairs = [(_text(key), _text(value)) for key, value in event.headers]
                self.trailers[event.stream_id] = dict(pairs)
        self._flush()

    def _flush(self) -> None:
        self._writer.write(self._state.data_to_send())


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


@on_both_loops
async def test_calls_of_grpc_wake_an_instance_and_stream_both_ways() -> None:
    async with activated_instance(rest=Rest.PAUSED, handler=serve_echo) as found:
        caller = Caller(*await found.connect())
        first, second = caller.call(), caller.call()
        for number in range(3):
            # Each is answered before the next is sent, on two calls that take turns.
            for stream in (first, second):
                caller.send(stream, b"%d" % number)
                sent = b"".join(message(b"%d" % each) for each in range(number + 1))
                await caller.read_until(stream, sent)
        caller.end(second)
        assert await caller.wait_trailers(second) == {"grpc-status": "0"}
        assert found.sleeper._open == 1  # which keeps it awake
        caller.end(first)
        assert await caller.wait_trailers(first) == {"grpc-status": "0"}
        caller.close()
        await wait_until(lambda: found.sleeper._open == 0)


@on_both_loops
async def test_many_messages_of_grpc_arrive_whole() -> None:
    """More than the windows of HTTP/2, which both ends have to renew."""
    async with activated_instance(rest=Rest.STOPPED, handler=serve_echo) as found:
        caller = Caller(*await found.connect())
        stream = caller.call()
        sent = b""
        for number in range(40):
            part = bytes([number]) * 16_000
            caller.send(stream, part)
            sent += message(part)
            await caller.read_until(stream, sent)
        caller.end(stream)
        assert await caller.wait_trailers(stream) == {"grpc-status": "0"}
        caller.close()
        await wait_until(lambda: found.sleeper._open == 0)
