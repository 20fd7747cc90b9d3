"""A line to a plane on which a test listens, answers instead, or lets nothing pass."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from datum_compute.api import planes
from datum_compute.client.client import ApiClient
from datum_compute.client.in_process import InProcessTransport
from datum_compute.client.transport import HttpRequest, HttpResponse
from datum_compute.testing.server import EmbeddedServer

Interception = Callable[[HttpRequest], HttpResponse | None]
"""Answers in place of the server, or lets the request pass."""


class InterceptedTransport:
    def __init__(self, embedded: EmbeddedServer, answer: Interception = lambda _: None) -> None:
        self.sent: list[tuple[float, HttpRequest]] = []
        """Everything that was sent, and when."""
        self._answer = answer
        self._transport = InProcessTransport(embedded.server.handle)

    async def send(self, request: HttpRequest, *, timeout: float | None = None) -> HttpResponse:
        self.sent.append((asyncio.get_running_loop().time(), request))
        answered = self._answer(request)
        if answered is not None:
            return answered
        return await self._transport.send(request, timeout=timeout)

    async def close(self) -> None:
        await self._transport.close()

    def writes(self) -> list[tuple[float, HttpRequest]]:
        return [(at, each) for at, each in self.sent if each.method != "GET"]


def client_over(line: InterceptedTransport, embedded: EmbeddedServer, plane: str) -> ApiClient:
    return ApiClient(
        line,
        cluster=plane.rpartition("/")[2],
        prefix=planes.plane_prefix(plane),
        token=embedded.token(),
        user_agent="test",
    )


def refusal(code: int, reason: str) -> HttpResponse:
    body = {"kind": "Status", "code": code, "reason": reason, "message": "from the test"}
    return HttpResponse(code, body=json.dumps(body).encode())
