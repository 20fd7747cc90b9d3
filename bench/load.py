"""A load generator that costs little, because it shares the cores with what it measures.

Requests are rendered before the clock starts. Each client is one TLS connection that sends
the next request when the response to the last is complete; responses are split, not parsed. A
run ends after its requests or its time, whichever is first.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ANSWER_LIMIT = 1 << 20


class UnexpectedAnswer(Exception):
    """The server did not carry out the request, so there is nothing to count."""


@dataclass(frozen=True)
class Server:
    host: str
    port: int
    ca_pem: str
    token: str
    pid: int = 0
    """Of its process, where that is known."""

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> bytes:
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            f"Authorization: Bearer {self.token}",
            f"Accept: {accept}",
        ]
        if body:
            lines += [f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@dataclass(frozen=True)
class Rate:
    done: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.done / self.seconds


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, server: Server) -> Connection:
        context = ssl.create_default_context(cadata=server.ca_pem)
        return cls(
            *await asyncio.open_connection(
                server.host, server.port, ssl=context, limit=ANSWER_LIMIT
            )
        )

    async def ask(self, request: bytes, expected: bytes) -> bytes:
        """Send one request; its answer's body. Raises unless the status is the expected one."""
        self._writer.write(request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        body = await self._body(head)
        if head[9:12] != expected:
            line = request.split(b"\r\n", 1)[0].decode()
            status = head.split(b"\r\n", 1)[0].decode()
            raise UnexpectedAnswer(f"{line}: {status}: {body[:500].decode(errors='replace')}")
        return body

    async def _body(self, head: bytes) -> bytes:
        _, found, rest = head.partition(b"\r\ncontent-length:")
        if found:
            return await self._reader.readexactly(int(rest.split(b"\r\n", 1)[0]))
        if b"\r\ntransfer-encoding: chunked" not in head:
            return b""
        parts = []
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            parts.append((await self._reader.readexactly(size + 2))[:-2])
        await self._reader.readexactly(2)
        return b"".join(parts)

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except (OSError, ssl.SSLError):
            pass  # all responses are in: how the server ends the connection does not matter


async def run_load(
    server: Server, requests: Sequence[bytes], expected: bytes, *, clients: int, seconds: float
) -> Rate:
    """Send the requests over so many connections at once, for at most so many seconds."""
    connections = await asyncio.gather(*(Connection.open(server) for _ in range(clients)))
    pending = iter(requests)
    start = time.perf_counter()
    deadline = start + seconds
    try:
        async with asyncio.TaskGroup() as tasks:
            workers = [
                tasks.create_task(_send(connection, pending, expected, deadline))
                for connection in connections
            ]
        elapsed = time.perf_counter() - start
    finally:
        await asyncio.gather(*(connection.close() for connection in connections))
    return Rate(sum(worker.result() for worker in workers), elapsed)


async def _send(
    connection: Connection, pending: Iterator[bytes], expected: bytes, deadline: float
) -> int:
    done = 0
    for request in pending:
        await connection.ask(request, expected)
        done += 1
        if time.perf_counter() > deadline:
            break
    return done
