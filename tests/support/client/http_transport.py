"""The HTTP transport against a server whose answers a test scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from datum_compute.client.http.transport import HttpTransport
from datum_compute.client.transport import HttpRequest
from tests.support.client.socket_server import (
    RequestHead,
    Script,
    ServedConnection,
    self_signed,
    serve_script,
)

GET = HttpRequest("GET", "/x")
WATCH = HttpRequest("GET", "/x", (("watch", "true"),))
LONG = 20.0


@asynccontextmanager
async def transport_to(script: Script, **options: Any) -> AsyncIterator[HttpTransport]:
    async with serve_script(script) as port:
        transport = HttpTransport(f"http://127.0.0.1:{port}", **options)
        try:
            yield transport
        finally:
            await transport.close()


class Recorder:
    """Answers every request with the same, and keeps them."""

    def __init__(self, *answer: Any) -> None:
        self.answer = answer or (b"ok",)
        self.heads: list[RequestHead] = []

    async def __call__(self, connection: ServedConnection) -> None:
        while head := await connection.request():
            self.heads.append(head)
            await connection.answer(*self.answer)


@asynccontextmanager
async def tls_server(name: str, **options: Any) -> AsyncIterator[tuple[int, bytes]]:
    identity = self_signed(name)
    async with serve_script(Recorder(), identity.server_context(**options)) as port:
        yield port, identity.certificate_pem


async def reach(transport: HttpTransport) -> bytes:
    try:
        return (await transport.send(GET, timeout=LONG)).body
    finally:
        await transport.close()
