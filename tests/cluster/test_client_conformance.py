"""The client's conformance suite against a real Kubernetes API server."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.http import HttpTransport
from datum_compute.client.reader import Reader
from tests.cluster.control_plane import HOST, ControlPlane
from tests.conformance.client.cases import Case, every_case, every_case_of
from tests.conformance.client.reading import READ_CASES, reading
from tests.conformance.client.world import (
    WIDGETS,
    Target,
    next_event,
    next_events,
    open_world,
    wait_served,
)

pytestmark = [pytest.mark.cluster, pytest.mark.realtime]


def compact(etcd_port: int) -> None:
    """Drop the history of all keys; the server's own copies live only as long as its cache."""
    connection = http.client.HTTPConnection(HOST, etcd_port, timeout=10)
    try:
        connection.request("POST", "/v3/kv/range", json.dumps({"key": _base64("/none")}))
        revision = json.loads(connection.getresponse().read())["header"]["revision"]
        body = json.dumps({"revision": revision, "physical": True})
        connection.request("POST", "/v3/kv/compaction", body)
        assert connection.getresponse().read()
    finally:
        connection.close()


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@asynccontextmanager
async def target_of(control_plane: ControlPlane) -> AsyncIterator[Target]:
    transport = HttpTransport(control_plane.server, ca_pem=control_plane.ca_pem)

    def client_with(**options: Any) -> ApiClient:
        return ApiClient(
            transport, **{"cluster": "kubernetes", "token": control_plane.token, **options}
        )

    async def forget_history() -> None:
        await asyncio.to_thread(compact, control_plane._etcd_port)

    try:
        yield Target(client_with(), client_with, control_plane.plain_token, forget_history)
    finally:
        await transport.close()


@every_case
async def test_kubernetes(control_plane: ControlPlane, number: int, case: Case) -> None:
    async with target_of(control_plane) as target:
        await case(await open_world(target, number))


@every_case_of(READ_CASES, first=1000)
async def test_reader_on_kubernetes(control_plane: ControlPlane, number: int, case: Case) -> None:
    tls = control_plane.ssl_context()

    def make_reader(**options: Any) -> Reader:
        return Reader(control_plane.server, **{"token": control_plane.token, "tls": tls, **options})

    async with target_of(control_plane) as target:
        await case(await open_world(reading(target, make_reader), number))


async def test_a_watch_breaks_when_the_server_is_killed(control_plane: ControlPlane) -> None:
    async with target_of(control_plane) as target:
        world = await open_world(target, 2000)
        since = await world.revision()

        with pytest.raises(errors.TransportFailure):
            async with world.client.watch(
                WIDGETS, world.namespace, resource_version=since
            ) as events:
                await world.create("one")
                assert await next_events(events, 1) == [("ADDED", "one")]
                await asyncio.to_thread(control_plane.stop_apiserver, kill=True)
                await next_event(events)
        with pytest.raises(errors.ConnectFailed):
            await world.names()
        await asyncio.to_thread(control_plane.start_apiserver)

        await wait_served(world.client)
        assert await world.names() == ["one"]


async def test_a_watch_ends_when_the_server_goes_down(control_plane: ControlPlane) -> None:
    async with target_of(control_plane) as target:
        world = await open_world(target, 2001)
        since = await world.revision()
        stopping: asyncio.Future[None]

        async with world.client.watch(WIDGETS, world.namespace, resource_version=since) as events:
            stopping = asyncio.ensure_future(asyncio.to_thread(control_plane.restart_apiserver))
            try:
                ended = [event async for event in events]
            except errors.TransportFailure:
                ended = []

        await stopping
        assert ended == []
        await wait_served(world.client)
        await world.create("one")
