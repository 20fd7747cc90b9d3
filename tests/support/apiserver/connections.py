"""Raw HTTP/1.1 connections to a served API server."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from datum_compute.testing.server import ServerAddress

PREFIX = "/clusters/dfw"


class Connection:
    """One connection, without an HTTP client."""

    def __init__(
        self, address: ServerAddress, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    ):
        self._address = address
        self.reader, self.writer = streams

    def send(self, method: str, path: str, body: bytes = b"", *headers: str) -> None:
        lines = [
            f"{method} {PREFIX}{path} HTTP/1.1",
            "Host: localhost",
            f"Authorization: Bearer {self._address.token}",
            f"Content-Length: {len(body)}",
            *headers,
        ]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    async def head(self) -> tuple[int, str]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        return int(head.split(" ", 2)[1]), head

    async def response(self) -> tuple[int, bytes]:
        code, head = await self.head()
        length = int(head.partition("content-length: ")[2].split("\r\n")[0])
        return code, await self.reader.readexactly(length)

    async def chunk(self) -> bytes:
        size = int(await self.reader.readline(), 16)
        content = await self.reader.readexactly(size)
        await self.reader.readexactly(2)
        return content


@asynccontextmanager
async def connected(address: ServerAddress) -> AsyncIterator[Connection]:
    context = ssl.create_default_context(cadata=address.ca_pem.decode())
    url = urlsplit(address.base_url)
    streams = await asyncio.open_connection(url.hostname, url.port, ssl=context)
    try:
        yield Connection(address, streams)
    finally:
        streams[1].close()
