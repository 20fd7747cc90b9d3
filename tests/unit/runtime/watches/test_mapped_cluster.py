"""Lesson 11: a handler overwrote the mapped cluster name with an empty one; the reconcile ran on
the host cluster, which lacks the kinds, and failed 130 times a minute.

So: the mapped cluster survives to the reconcile, and an empty name is dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging

import pytest

from datum_compute.api.core import CONFIG_MAPS
from datum_compute.api.meta import Object
from datum_compute.client.protocol import Client, merge
from datum_compute.fleets.single import SingleFleet
from datum_compute.fleets.static import StaticFleet
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.testing.server import EmbeddedServer, embedded_server
from tests.support.runtime.blocks import managed

PROJECTS = ("alpha", "beta")


def _to_project(_: str, obj: Object) -> list[Request]:
    return [Request(obj.metadata.labels.get("project", ""), obj.namespace, obj.name)]


def _fleets(embedded: EmbeddedServer) -> tuple[Fleet, Fleet]:
    clients = {name: embedded.client(f"project/{name}") for name in PROJECTS}
    hub = SingleFleet("hub", "hub", embedded.client("hub"), embedded.env)
    return StaticFleet("projects", clients, embedded.env), hub


async def _put(hub_client: Client, name: str, project: str) -> None:
    labels = {"project": project} if project else {}
    await hub_client.create(CONFIG_MAPS, {"metadata": {"name": name, "labels": labels}}, "default")


async def test_lesson_11_the_mapped_cluster_survives_to_the_reconcile() -> None:
    async with embedded_server(projects=PROJECTS) as embedded:
        projects, hub = _fleets(embedded)
        seen: list[str] = []

        async def reconcile(request: Request) -> None:
            cluster = projects.get(request.cluster)
            assert cluster is not None
            seen.append(f"{request} on {cluster.client.cluster}")

        watches = [Watch(hub, CONFIG_MAPS, _to_project)]
        controller = Controller("c", projects, reconcile, watches=watches)
        async with managed(embedded.env, controller):
            await _put(embedded.client("hub"), "one", "alpha")
            await _put(embedded.client("hub"), "two", "beta")
            await asyncio.sleep(1)
            controller.enqueue(Request("beta", "", "three"))
            await asyncio.sleep(3600)

    assert sorted(seen) == [
        "alpha://default/one on alpha",
        "beta://default/two on beta",
        "beta://three on beta",
    ]


async def test_lesson_11_a_retried_request_keeps_its_cluster() -> None:
    async with embedded_server(projects=PROJECTS) as embedded:
        projects, hub = _fleets(embedded)
        clusters: list[str] = []

        async def reconcile(request: Request) -> None:
            clusters.append(request.cluster)
            if len(clusters) < 5:
                raise RuntimeError("not yet")

        watches = [Watch(hub, CONFIG_MAPS, _to_project)]
        async with managed(embedded.env, Controller("c", projects, reconcile, watches=watches)):
            await _put(embedded.client("hub"), "one", "beta")
            await asyncio.sleep(600)

    assert clusters == ["beta"] * 5


async def test_lesson_11_an_empty_cluster_name_is_dropped_counted_and_never_loops(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with embedded_server(projects=PROJECTS) as embedded:
        projects, hub = _fleets(embedded)

        async def reconcile(request: Request) -> None:
            raise AssertionError(f"{request} must not run")

        watches = [Watch(hub, CONFIG_MAPS, _to_project)]
        controller = Controller("c", projects, reconcile, watches=watches)
        async with managed(embedded.env, controller):
            await _put(embedded.client("hub"), "unmapped", "")
            change = merge({"data": {"text": "changed"}})
            await embedded.client("hub").patch(CONFIG_MAPS, "unmapped", change, "default")
            await asyncio.sleep(1)
            dropped = controller.statistics().dropped_empty
            with caplog.at_level(logging.INFO):
                await asyncio.sleep(24 * 3600)

            now = controller.statistics()
            assert (dropped, now.dropped_empty) == (2, 2)  # created, and changed
            assert (now.runs, now.errors, now.dropped_unengaged) == (0, 0, 0)
            assert now.queue is not None
            assert (now.queue.adds, now.queue.delayed, now.queue.retries) == (0, 0, 0)
            assert [record.message for record in caplog.records] == []
