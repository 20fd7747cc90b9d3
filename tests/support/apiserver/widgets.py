"""A custom kind to store, and requests in their raw form."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from datum_compute.api import planes
from datum_compute.api.scheme import Resource
from datum_compute.apiserver.worker.process import WorkerProcess
from datum_compute.client.client import ApiClient
from datum_compute.client.transport import HttpRequest, HttpResponse, asks_for_stream
from datum_compute.env import Environment
from datum_compute.testing.server import EmbeddedServer, embedded_server

WIDGETS = Resource("example.com", "v1", "widgets", "Widget")
WIDGETS_PATH = "/apis/example.com/v1/namespaces/default/widgets"

_SPEC = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "default": 1, "minimum": 0},
        "color": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}
_STATUS = {
    "type": "object",
    "default": {"phase": "New"},
    "properties": {"phase": {"type": "string"}, "ready": {"type": "boolean"}},
}

WIDGET_CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"kind": "Widget", "plural": "widgets", "shortNames": ["wd"]},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": _SPEC, "status": _STATUS},
                    }
                },
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
                ],
            }
        ],
    },
}


class Caller:
    """Sends raw requests to one plane of a server."""

    def __init__(self, embedded: EmbeddedServer, plane: str, user: str = "admin") -> None:
        self.embedded = embedded
        self.client: ApiClient = embedded.client(plane, user)
        self._prefix = planes.plane_prefix(plane)
        self._token = embedded.token(user)

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> HttpResponse:
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body) if body else b""
        sent = {"authorization": f"Bearer {self._token}", **(headers or {})}
        request = HttpRequest(method, self._prefix + path, tuple((query or {}).items()), sent, raw)
        now = self.embedded.server.answer_now(request)
        if now is not None and now.taken is not None:
            now.taken()
        response = await self.embedded.server.handle(request)
        if now is not None:
            assert (now.status, now.headers, now.body) == (200, response.headers, response.body)
        if response.stream is None or asks_for_stream(request):
            return response
        body = b"".join([chunk async for chunk in response.stream])
        return HttpResponse(response.status, response.headers, body)

    async def call(
        self, method: str, path: str, body: Any = None, **rest: Any
    ) -> tuple[int, dict[str, Any]]:
        response = await self.send(method, path, body, **rest)
        if response.taken is not None:
            response.taken()
        return response.status, msgspec.json.decode(response.body)

    async def create(self, name: str, spec: Any = None, **metadata: Any) -> dict[str, Any]:
        body = widget(name, spec, **metadata)
        code, made = await self.call("POST", WIDGETS_PATH, body)
        assert code == 201, made
        return made

    async def get(self, name: str) -> dict[str, Any]:
        code, found = await self.call("GET", f"{WIDGETS_PATH}/{name}")
        assert code == 200, found
        return found

    async def exists(self, name: str) -> bool:
        return (await self.send("GET", f"{WIDGETS_PATH}/{name}")).status == 200

    async def patch(
        self, name: str, body: Any, subresource: str = "", **query: str
    ) -> tuple[int, dict[str, Any]]:
        path = f"{WIDGETS_PATH}/{name}/{subresource}".rstrip("/")
        headers = {"content-type": "application/merge-patch+json"}
        return await self.call("PATCH", path, body, headers=headers, query=query)

    async def delete(self, name: str, **options: Any) -> tuple[int, dict[str, Any]]:
        return await self.call("DELETE", f"{WIDGETS_PATH}/{name}", options or None)


def widget(name: str, spec: Any = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, **metadata},
        "spec": spec if spec is not None else {},
    }


def owned_by(owner: Mapping[str, Any], *, blocks: bool = False) -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": blocks,
        }
    ]


@asynccontextmanager
async def widget_server(
    env: Environment | None = None, path: Any = None, worker: WorkerProcess | None = None
) -> AsyncIterator[Caller]:
    """A server whose every plane serves widgets; the caller calls cell ``dfw``."""
    async with embedded_server(
        env, path, crds_for=lambda _: [WIDGET_CRD], cells=("dfw",), projects=(), worker=worker
    ) as embedded:
        yield Caller(embedded, "cell/dfw")
