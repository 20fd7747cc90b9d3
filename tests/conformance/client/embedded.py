"""The embedded server as a target, in process or over HTTPS."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from datum_compute.client.client import ApiClient
from datum_compute.client.http import HttpTransport
from datum_compute.client.in_process import InProcessTransport
from datum_compute.client.transport import Transport
from datum_compute.testing.server import EmbeddedServer, embedded_server
from tests.conformance.client.world import Target

PREFIX = "/clusters/hub"


@asynccontextmanager
async def in_process() -> AsyncIterator[Target]:
    async with _small_server() as embedded:
        yield _target(embedded, InProcessTransport(embedded.server.handle))


@asynccontextmanager
async def over_https() -> AsyncIterator[Target]:
    async with _small_server() as embedded, embedded.serve_https() as address:
        transport = HttpTransport(address.base_url, ca_pem=address.ca_pem)
        try:
            yield _target(embedded, transport)
        finally:
            await transport.close()


def _small_server() -> Any:
    # The suite brings its own kind; a plane without any others starts quickest.
    return embedded_server(crds_for=lambda plane_type: [], cells=(), projects=())


def _target(embedded: EmbeddedServer, transport: Transport) -> Target:
    def client_with(**options: Any) -> ApiClient:
        given = {"cluster": "hub", "prefix": PREFIX, "token": embedded.token(), **options}
        return ApiClient(transport, **given)

    async def forget_history() -> None:
        # Everything that happened before this moment, as if its time had long passed.
        for plane in embedded.store.planes.values():
            plane.forget(2**62, 10**9)

    powerless = embedded.token("powerless", groups=())
    return Target(client_with(), client_with, powerless, forget_history)
