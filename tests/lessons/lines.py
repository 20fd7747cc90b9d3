"""A line to a plane on which a test listens, answers instead, or lets nothing pass."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from datum_compute.client.client import ApiClient
from datum_compute.client.in_process import InProcessTransport
from datum_compute.client.transport import Request, Response
from datum_compute.platform.apiserver import routing
from datum_compute.testing.server import EmbeddedServer

Answer = Callable[[Request], Response | None]
"""Answers in place of the server, or lets the request pass."""


class Line:
    def __init__(self, embedded: EmbeddedServer, answer: Answer = lambda _: None) -> None:
        self.sent: list[tuple[float, Request]] = []
        """Everything that was sent, and when."""
        self._answer = answer
        self._transport = InProcessTransport(embedded.server.handle)

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        self.sent.append((asyncio.get_running_loop().time(), request))
        answered = self._answer(request)
        if answered is not None:
            return answered
        return await self._transport.send(request, timeout=timeout)

    async def close(self) -> None:
        await self._transport.close()

    def writes(self) -> list[tuple[float, Request]]:
        return [(at, each) for at, each in self.sent if each.method != "GET"]


def client_over(line: Line, embedded: EmbeddedServer, plane: str) -> ApiClient:
    return ApiClient(
        line,
        cluster=plane.rpartition("/")[2],
        prefix=routing.plane_prefix(plane),
        token=embedded.token(),
        user_agent="test",
    )


def refusal(code: int, reason: str) -> Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": "said by the test"}
    return Response(code, body=json.dumps(body).encode())
