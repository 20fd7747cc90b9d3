"""A webhook of an operator: answers AdmissionReviews over HTTPS on a port of its own."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from datum_compute.apiserver.http.certificates import ensure_certificates
from datum_compute.env import SystemEnvironment

Answer = Callable[[dict[str, Any]], Awaitable[dict[str, Any] | None]]
"""From the request of a review to its response; None to close the connection instead."""


class WebhookServer:
    """``answers`` are by path; what was asked is in ``asked``."""

    def __init__(self, url: str, bundle: str) -> None:
        self.url = url
        self.bundle = bundle
        self.answers: dict[str, Answer] = {}
        self.asked: list[dict[str, Any]] = []

    def config(self, path: str) -> dict[str, Any]:
        return {"url": f"{self.url}{path}", "caBundle": self.bundle}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = int(head.lower().partition("content-length:")[2].partition("\r\n")[0])
            request = json.loads(await reader.readexactly(length))["request"]
            path = head.split(" ", 2)[1].partition("?")[0]
            self.asked.append({"path": head.split(" ", 2)[1], **request})
            response = await self.answers[path](request)
            if response is not None:
                review = {
                    "apiVersion": "admission.k8s.io/v1",
                    "kind": "AdmissionReview",
                    "response": {"uid": request["uid"], **response},
                }
                body = json.dumps(review).encode()
                start = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n"
                writer.write(f"{start}content-type: application/json\r\n\r\n".encode() + body)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client is gone
        finally:
            writer.close()


@asynccontextmanager
async def webhook_server(directory: Path) -> AsyncIterator[WebhookServer]:
    certificates = ensure_certificates(directory, SystemEnvironment())
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificates.certificate, certificates.key)
    made: list[WebhookServer] = []
    server = await asyncio.start_server(
        lambda reader, writer: made[0].serve(reader, writer), "127.0.0.1", 0, ssl=tls
    )
    port = server.sockets[0].getsockname()[1]
    bundle = base64.b64encode(certificates.ca_pem).decode()
    made.append(WebhookServer(f"https://127.0.0.1:{port}", bundle))
    try:
        yield made[0]
    finally:
        server.close()
        await server.wait_closed()
