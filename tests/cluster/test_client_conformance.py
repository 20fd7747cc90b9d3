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

from datum_compute.api import core
from datum_compute.api.scheme import Resource
from datum_compute.cli.quick.reader import Reader
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.http.transport import HttpTransport
from datum_compute.client.protocol import merge
from tests.support.client_conformance.cases import Case, every_case, every_case_of
from tests.support.client_conformance.fixture import (
    EVENT_TIMEOUT,
    GROUP,
    WIDGETS,
    ConformanceFixture,
    ConformanceTarget,
    content,
    get_subresource,
    next_event,
    next_events,
    open_fixture,
    strategic_merge,
    wait_served,
)
from tests.support.client_conformance.reader import READ_CASES, reader_target
from tests.support.cluster.certificates import HOST
from tests.support.cluster.control_plane import ControlPlane

pytestmark = [pytest.mark.cluster, pytest.mark.realtime]


def compact(etcd_port: int) -> None:
    """Compact the history of all keys; the server's own watch cache ends with the server."""
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
async def target_of(control_plane: ControlPlane) -> AsyncIterator[ConformanceTarget]:
    transport = HttpTransport(control_plane.server, ca_pem=control_plane.ca_pem)

    def client_with(**options: Any) -> ApiClient:
        return ApiClient(
            transport, **{"cluster": "kubernetes", "token": control_plane.token, **options}
        )

    async def forget_history() -> None:
        await asyncio.to_thread(compact, control_plane._etcd_port)

    try:
        yield ConformanceTarget(
            client_with(), client_with, control_plane.plain_token, forget_history
        )
    finally:
        await transport.close()


@every_case
async def test_client_on_kubernetes(control_plane: ControlPlane, number: int, case: Case) -> None:
    async with target_of(control_plane) as target:
        await case(await open_fixture(target, number))


@every_case_of(READ_CASES, first=1000)
async def test_reader_on_kubernetes(control_plane: ControlPlane, number: int, case: Case) -> None:
    tls = control_plane.ssl_context()

    def make_reader(**options: Any) -> Reader:
        return Reader(control_plane.server, **{"token": control_plane.token, "tls": tls, **options})

    async with target_of(control_plane) as target:
        await case(await open_fixture(reader_target(target, make_reader), number))


SLIDERS = Resource(GROUP, "v1", "sliders", "Slider")
_INTEGER = {"type": "integer"}
SLIDER_DEFINITION: dict[str, Any] = {
    "metadata": {"name": f"sliders.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "sliders", "kind": "Slider", "listKind": "SliderList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"replicas": _INTEGER}},
                            "status": {"type": "object", "properties": {"replicas": _INTEGER}},
                        },
                    }
                },
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                    },
                },
            }
        ],
    },
}


async def strategic_merges_know_their_lists(world: ConformanceFixture) -> None:
    body = {"metadata": {"name": "settings", "finalizers": ["example.com/a"]}}
    await world.client.create(core.CONFIG_MAPS, body, world.namespace)
    more = strategic_merge({"metadata": {"finalizers": ["example.com/b"]}})
    less = strategic_merge({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}})

    added = await world.client.patch(core.CONFIG_MAPS, "settings", more, world.namespace)
    removed = await world.client.patch(core.CONFIG_MAPS, "settings", less, world.namespace)

    assert set(added.metadata.finalizers) == {"example.com/a", "example.com/b"}
    assert removed.metadata.finalizers == ("example.com/b",)


async def a_scale_is_read_and_written(world: ConformanceFixture) -> None:
    client, place = world.client, world.namespace
    try:
        await client.create(core.CUSTOM_RESOURCE_DEFINITIONS, SLIDER_DEFINITION)
    except errors.AlreadyExists:
        pass
    await wait_served(client, SLIDERS)
    body = {"metadata": {"name": "one"}, "spec": {"replicas": 2}}
    made = await client.create(SLIDERS, body, place)

    scale = await get_subresource(client, SLIDERS, "one", place, subresource="scale")
    changed = await client.patch(
        SLIDERS, "one", merge({"spec": {"replicas": 5}}), place, subresource="scale"
    )
    put = await client.update(
        SLIDERS,
        {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {"name": "one", "namespace": place},
            "spec": {"replicas": 7},
        },
        subresource="scale",
    )

    assert (scale.api_version, scale.kind) == ("autoscaling/v1", "Scale")
    assert content(scale.spec) == {"replicas": 2}
    assert scale.metadata.uid == made.metadata.uid
    assert (content(changed.spec), content(put.spec)) == ({"replicas": 5}, {"replicas": 7})
    assert content((await client.get(SLIDERS, "one", place)).spec) == {"replicas": 7}


ONLY_HERE: list[Case] = [
    strategic_merges_know_their_lists,
    a_scale_is_read_and_written,
]


@every_case_of(ONLY_HERE, first=3000)
async def test_features_that_only_kubernetes_has(
    control_plane: ControlPlane, number: int, case: Case
) -> None:
    """The embedded server refuses: tests/conformance/client/test_what_only_kubernetes_has.py."""
    async with target_of(control_plane) as target:
        await case(await open_fixture(target, number))


async def test_a_watch_breaks_when_the_server_is_killed(control_plane: ControlPlane) -> None:
    async with target_of(control_plane) as target:
        world = await open_fixture(target, 2000)
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
        # A watch delivers what it missed, or reports that it is expired. It is never silent.
        await world.create("two")
        try:
            async with world.client.watch(
                WIDGETS, world.namespace, resource_version=since
            ) as events:
                assert await next_events(events, 2) == [("ADDED", "one"), ("ADDED", "two")]
        except errors.Expired:
            found = await world.client.list(WIDGETS, world.namespace)
            assert [item.name for item in found.items] == ["one", "two"]
            since = found.resource_version
            async with world.client.watch(
                WIDGETS, world.namespace, resource_version=since
            ) as events:
                await world.create("three")
                assert await next_events(events, 1) == [("ADDED", "three")]


async def test_cancelled_calls_leave_nothing_open(control_plane: ControlPlane) -> None:
    async with target_of(control_plane) as target:
        world = await open_fixture(target, 2002)
        since = await world.revision()
        before = await open_watches(world)

        async def read_for_ever() -> None:
            async with world.client.watch(
                WIDGETS, world.namespace, resource_version=since
            ) as events:
                async for _ in events:
                    pass

        for turns in range(0, 60, 3):
            task = asyncio.ensure_future(read_for_ever())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        tasks = [asyncio.ensure_future(read_for_ever()) for _ in range(5)]
        async with asyncio.timeout(EVENT_TIMEOUT):
            while await open_watches(world) < before + 5:  # noqa: ASYNC110 - no event to wait for
                await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

        async with asyncio.timeout(EVENT_TIMEOUT):
            while await open_watches(world) > before:  # noqa: ASYNC110 - no event to wait for
                await asyncio.sleep(0.05)


async def open_watches(world: ConformanceFixture) -> int:
    """How many watches of widgets the server counts."""
    text = (await world.client.raw("/metrics")).decode()
    return sum(
        int(float(line.rpartition(" ")[2]))
        for line in text.splitlines()
        if line.startswith("apiserver_longrunning_requests{") and 'resource="widgets"' in line
    )


async def test_a_watch_ends_when_the_server_goes_down(control_plane: ControlPlane) -> None:
    async with target_of(control_plane) as target:
        world = await open_fixture(target, 2001)
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
