"""The webhooks in process: their application with an embedded server behind it."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from datum_compute.api.networking import v1alpha as networking
from datum_compute.apiserver.request.access import MASTERS, Attributes, PolicyRule, RequestUser
from datum_compute.client.protocol import Client, merge
from datum_compute.testing.server import EmbeddedServer, embedded_server
from datum_compute.webhooks.app import webhook_app
from datum_compute.webhooks.projects import OfferReader
from datum_compute.webhooks.workload import MUTATE_PATH, VALIDATE_PATH, WorkloadReviews

ANA = {
    "username": "ana",
    "uid": "u-1",
    "groups": ["developers"],
    "extra": {
        "iam.miloapis.com/parent-type": ["Project"],
        "iam.miloapis.com/parent-name": ["demo"],
        "iam.miloapis.com/parent-api-group": ["resourcemanager.miloapis.com"],
    },
}


@dataclass
class NetworkAuthorizer:
    """An authorizer that lets developers use some networks."""

    networks: frozenset[str] = frozenset({"default"})
    asked: list[Attributes] = field(default_factory=list)

    def allows(self, user: RequestUser, attributes: Attributes) -> bool:
        if MASTERS in user.groups:
            return True
        self.asked.append(attributes)
        used = attributes.verb == "use" and attributes.name in self.networks
        return used and "developers" in user.groups

    def rules(self, user: RequestUser, plane: str) -> tuple[PolicyRule, ...]:
        return ()

    def paths(self, user: RequestUser) -> tuple[str, ...]:
        return ()


def request(
    workload: Any, old: Any = None, *, user: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """An AdmissionReview as an API server sends it."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "r-1",
            "kind": {"group": "compute.datumapis.com", "version": "v1alpha", "kind": "Workload"},
            "resource": {
                "group": "compute.datumapis.com",
                "version": "v1alpha",
                "resource": "workloads",
            },
            "operation": "CREATE" if old is None else "UPDATE",
            "name": "api",
            "namespace": "default",
            "userInfo": copy.deepcopy(user or ANA),  # a test may change it
            "object": workload,
            "oldObject": old,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            **more,
        },
    }


@dataclass
class WebhookServer:
    app: ASGIApp
    embedded: EmbeddedServer

    async def send(
        self,
        path: str,
        body: bytes,
        *,
        method: str = "POST",
        form: str = "application/json",
    ) -> tuple[int, Any]:
        return await ask(self.app, path, body, method=method, form=form)

    async def validate(self, review: dict[str, Any]) -> dict[str, Any]:
        code, answer = await self.send(VALIDATE_PATH, json.dumps(review).encode())
        assert code == 200, answer
        response: dict[str, Any] = answer["response"]
        assert response["uid"] == review["request"]["uid"]
        return response

    async def mutate(self, review: dict[str, Any]) -> list[dict[str, Any]]:
        """The operations of the patch; none when there is no patch."""
        code, answer = await self.send(MUTATE_PATH, json.dumps(review).encode())
        assert code == 200, answer
        response = answer["response"]
        assert response["allowed"] is True
        if "patch" not in response:
            return []
        assert response["patchType"] == "JSONPatch"
        operations: list[dict[str, Any]] = json.loads(base64.b64decode(response["patch"]))
        return operations


async def ask(
    app: ASGIApp, path: str, body: bytes, *, method: str = "POST", form: str = "application/json"
) -> tuple[int, Any]:
    """One request to an ASGI application, its body in two parts."""
    middle = len(body) // 2
    parts = [body[:middle], body[middle:]]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", form.encode())] if form else []
    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    await app(scope, receive, send)
    assert sent[1]["type"] == "http.response.body"
    return sent[0]["status"], json.loads(sent[1]["body"])


async def bind(client: Client, city: str, *, available: bool = True) -> None:
    """Let the project use the location of a city."""
    topology = {networking.TOPOLOGY_CITY_CODE: city}
    name = city.lower()
    body = {
        "metadata": {"name": name},
        "spec": {"locationRef": {"name": name}, "topology": topology},
    }
    await client.create(networking.LOCATION_BINDINGS, body)
    condition = {
        "type": "Available",
        "status": "True" if available else "False",
        "reason": "Test",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = merge({"status": {"conditions": [condition]}})
    await client.patch(networking.LOCATION_BINDINGS, name, status, subresource="status")


@asynccontextmanager
async def webhooks(
    *,
    cities: Sequence[str] = ("DFW", "IAD", "LHR"),
    rules: NetworkAuthorizer | None = None,
    single: str = "",
    delivers_data: bool = True,
) -> AsyncIterator[WebhookServer]:
    """Webhooks of a project ``demo`` with these cities and a network ``default``."""
    async with embedded_server(authorizer=rules or NetworkAuthorizer()) as embedded:
        client = embedded.client("project/demo")
        for city in cities:
            await bind(client, city)
        spec = {"ipam": {"mode": "Auto"}}
        network = {"metadata": {"name": "default"}, "spec": spec}
        await client.create(networking.NETWORKS, network, "default")

        def client_of(project: str) -> Client | None:
            return client if project == (single or "demo") else None

        reader = OfferReader(client_of, single=single, delivers_data=delivers_data)
        app = webhook_app(WorkloadReviews(reader))
        yield WebhookServer(app, embedded)


async def post_review(port: int, authority: Path, review: dict[str, Any]) -> dict[str, Any]:
    """One review over a connection of its own, which trusts this authority alone."""
    context = ssl.create_default_context(cafile=str(authority))
    reader, writer = await asyncio.open_connection("localhost", port, ssl=context)
    body = json.dumps(review).encode()
    head = (
        f"POST {VALIDATE_PATH}?timeout=10s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200 OK"), answer
    response: dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2])["response"]
    return response
