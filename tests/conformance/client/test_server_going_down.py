"""Clients while the embedded server shuts down."""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.http.transport import HttpTransport
from datum_compute.client.protocol import EventType
from datum_compute.testing.server import embedded_server
from tests.support.client_conformance.fixture import (
    WIDGETS,
    ConformanceTarget,
    ensure_kind,
    next_event,
    open_fixture,
)


async def nothing() -> None:
    return None


async def test_in_process_a_watch_ends_cleanly() -> None:
    async with embedded_server(crds_for=lambda _: [], cells=(), projects=()) as embedded:
        client = embedded.client("hub")
        await ensure_kind(client)

        async with client.watch(WIDGETS) as events:
            embedded.server.end_watches()
            assert [event async for event in events] == []

        assert (await client.list(WIDGETS)).items == []


@pytest.mark.realtime
async def test_over_https_a_watch_ends_and_then_connections_are_refused() -> None:
    async with embedded_server(crds_for=lambda _: [], cells=(), projects=()) as embedded:
        serving = embedded.serve_https()
        address = await serving.__aenter__()
        transport = HttpTransport(address.base_url, ca_pem=address.ca_pem)
        client = ApiClient(transport, cluster="hub", prefix="/clusters/hub", token=address.token)
        world = await open_fixture(ConformanceTarget(client, lambda: client, "", nothing), 1)
        since = await world.revision()

        async with client.watch(WIDGETS, world.namespace, resource_version=since) as events:
            await world.create("one")
            assert (await next_event(events)).object.name == "one"
            await serving.__aexit__(None, None, None)
            async with asyncio.timeout(20):
                rest = [event.type async for event in events]

        assert set(rest) <= {EventType.BOOKMARK}
        with pytest.raises(errors.TransportFailure):
            await world.names()
        await transport.close()
