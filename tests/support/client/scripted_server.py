"""A server of given responses, to check what a client sends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from datum_compute.api.scheme import Resource
from datum_compute.cli.quick.reader import Reader
from datum_compute.client.client import ApiClient
from datum_compute.client.in_process import InProcessTransport
from datum_compute.client.transport import HttpRequest, HttpResponse
from tests.support.client.socket_server import (
    RequestHead,
    ServedConnection,
    serve_script,
)

T = TypeVar("T")
Answers = Callable[[RequestHead], tuple[Any, ...]]

WIDGETS = Resource("toys.example.com", "v1", "widgets", "Widget")
REALMS = Resource("toys.example.com", "v1", "realms", "Realm", namespaced=False)
WIDGET = {
    "apiVersion": "toys.example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "one", "namespace": "default", "resourceVersion": "7", "uid": "u1"},
    "spec": {"size": 3},
}


def answer(body: Any, status: int = 200, **headers: str) -> HttpResponse:
    return HttpResponse(status, {"content-type": "application/json", **headers}, encode(body))


def encode(body: Any) -> bytes:
    return msgspec.json.encode(body)


def refusal(code: int, reason: str, **details: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": f"{reason} from the toy",
        "details": details,
    }


class ScriptedServer:
    """Answers each request with a given response, and keeps the requests."""

    def __init__(
        self, answers: HttpResponse | Callable[[HttpRequest], Awaitable[HttpResponse]]
    ) -> None:
        self._answers = answers
        self.requests: list[HttpRequest] = []

    async def handle(self, request: HttpRequest) -> HttpResponse:
        self.requests.append(request)
        if isinstance(self._answers, HttpResponse):
            return self._answers
        return await self._answers(request)

    @property
    def only(self) -> HttpRequest:
        (request,) = self.requests
        return request

    def client(self, **options: Any) -> ApiClient:
        return ApiClient(
            InProcessTransport(self.handle), **{"cluster": "toy", "token": "secret", **options}
        )


class ScriptedStream:
    """Chunks, then an end; remembers whether it was closed."""

    def __init__(self, chunks: Sequence[bytes], error: Exception | None = None) -> None:
        self._chunks = list(chunks)
        self._error = error
        self.closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._chunks:
            return self._chunks.pop(0)
        if self._error:
            raise self._error
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.closed = True


class ScriptedHttp:
    """Answers each request on a real connection by its head, and keeps the heads."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.heads: list[RequestHead] = []

    async def __call__(self, connection: ServedConnection) -> None:
        while head := await connection.request():
            self.heads.append(head)
            body, *rest = self._answers(head)
            await connection.answer(body if isinstance(body, bytes) else encode(body), *rest)


async def ask(toy: Any, call: Callable[[Reader], T], **options: Any) -> T:
    """Run a blocking call in its own thread."""

    def run(port: int) -> T:
        given = {"cluster": "toy", "token": "secret", **options}
        reader = Reader(f"http://127.0.0.1:{port}", **given)
        try:
            return call(reader)
        finally:
            reader.close()

    async with serve_script(toy) as port:
        return await asyncio.to_thread(run, port)
