"""Lesson 22: a watch on a kind whose definition was absent crashed one process and wedged another.

So: watches are registered by mode and gate, and one on an absent kind waits, logs it, and starts
by itself once the kind is served.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from datum_compute.api import crds
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.core import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.planes import PlaneType
from datum_compute.api.scheme import Resource
from datum_compute.controllers.cell.instance import instance_controller
from datum_compute.controllers.cell.workload_deployment import workload_deployment_controller
from datum_compute.fleets.single import SingleFleet
from datum_compute.fleets.static import StaticFleet
from datum_compute.runtime.cache.cache import CacheState
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.request import Request
from datum_compute.runtime.watches.mapping import itself
from datum_compute.testing.server import EmbeddedServer, embedded_server
from tests.support.controllers.planes import deployment, given_namespace
from tests.support.objects import until
from tests.support.runtime.blocks import eventually, managed, running

TOYS = Resource("example.com", "v1", "toys", "Toy")
DEFINITION = {
    "metadata": {"name": "toys.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "toys", "singular": "toy", "kind": "Toy", "listKind": "ToyList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}


class Toys:
    """A controller of toys and ConfigMaps on two cells, which may not serve toys."""

    def __init__(self, embedded: EmbeddedServer) -> None:
        clients = {cell: embedded.client(f"cell/{cell}") for cell in ("dfw", "lhr")}
        self.fleet = StaticFleet("cells", clients, embedded.env)
        self.requests: list[str] = []
        watches = [Watch(self.fleet, TOYS, itself), Watch(self.fleet, CONFIG_MAPS, itself)]
        self.controller = Controller("toys", self.fleet, self.reconcile, watches=watches)
        self.manager = Manager("toys", embedded.env)
        self.manager.add(self.controller)

    async def reconcile(self, request: Request) -> None:
        self.requests.append(str(request))


async def test_lesson_22_a_watch_on_an_absent_kind_waits_reports_and_starts_by_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with embedded_server() as embedded:
        toys, dfw_client = Toys(embedded), embedded.client("cell/dfw")
        with caplog.at_level(logging.WARNING, "datum_compute.runtime"):
            async with running(toys.manager) as task:
                await asyncio.sleep(3600)
                assert not task.done()
                missing = toys.manager.missing()
                assert [text.partition(" list ")[0] for text in missing] == [
                    "dfw toys.example.com: NotServed",
                    "lhr toys.example.com: NotServed",
                ]
                # An hour of waiting is logged once for each cluster, not at every retry.
                assert len(caplog.records) == 2

                await dfw_client.create(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
                await dfw_client.create(TOYS, {"metadata": {"name": "ball"}}, "default")
                await eventually(lambda: "dfw://default/ball" in toys.requests, "it starts")

        assert all(request.startswith("dfw://") for request in toys.requests)


async def test_lesson_22_a_cluster_without_the_kind_does_not_delay_one_that_has_it() -> None:
    async with embedded_server() as embedded:
        lhr_client = embedded.client("cell/lhr")
        await lhr_client.create(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
        toys = Toys(embedded)
        async with running(toys.manager):
            await asyncio.sleep(10)
            await lhr_client.create(TOYS, {"metadata": {"name": "kite"}}, "default")

            await eventually(lambda: toys.requests == ["lhr://default/kite"], lambda: toys.requests)


async def test_lesson_22_a_kind_that_is_removed_and_served_again_is_watched_again() -> None:
    async with embedded_server() as embedded:
        dfw_client = embedded.client("cell/dfw")
        fleet = SingleFleet("cell", "dfw", dfw_client, embedded.env)
        await dfw_client.create(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
        requests: list[str] = []

        async def reconcile(request: Request) -> None:
            requests.append(request.name)

        controller = Controller("c", fleet, reconcile, watches=[Watch(fleet, TOYS, itself)])
        async with managed(embedded.env, controller):
            await dfw_client.delete(CUSTOM_RESOURCE_DEFINITIONS, "toys.example.com")
            cluster = fleet.get("dfw")
            assert cluster is not None
            cache = cluster.cache(TOYS)
            await eventually(
                lambda: cache.state is CacheState.NOT_SERVED, lambda: cache.state, within=1000
            )
            await dfw_client.create(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
            await dfw_client.create(TOYS, {"metadata": {"name": "ball"}}, "default")

            await eventually(lambda: requests == ["ball"], lambda: requests)


def _without_networking(plane_type: PlaneType) -> Sequence[Mapping[str, Any]]:
    return [
        definition
        for definition in crds.crds_for(plane_type)
        if definition["spec"]["group"] != networking.GROUP
    ]


async def test_lesson_22_a_cell_without_networking_kinds_works_when_the_gate_is_off() -> None:
    async with embedded_server(crds_for=_without_networking) as embedded:
        cell_client = embedded.client("cell/dfw")
        cell = SingleFleet("cell", "single", cell_client, embedded.env)
        controllers = [
            workload_deployment_controller(cell, embedded.env, networking=False),
            instance_controller(cell, embedded.env, hub=None, projects=None, cluster_name="dfw"),
        ]
        await given_namespace(cell_client, "ns-1")
        async with managed(embedded.env, *controllers):
            await cell_client.create(compute.WORKLOAD_DEPLOYMENTS, deployment(), "ns-1")
            await until(cell_client, compute.INSTANCES, "web-main-dfw-0", "ns-1", lambda obj: True)

            watched = next(cluster.caches() for cluster in cell.clusters())
            assert {cache.state for cache in watched} == {CacheState.CURRENT}
            assert networking.GROUP not in {cache.resource.group for cache in watched}


async def test_lesson_22_with_the_gate_on_the_missing_kinds_are_named() -> None:
    async with embedded_server(crds_for=_without_networking) as embedded:
        cell = SingleFleet("cell", "single", embedded.client("cell/dfw"), embedded.env)
        manager = Manager("cell", embedded.env)
        manager.add(workload_deployment_controller(cell, embedded.env, networking=True))
        async with running(manager) as task:
            await asyncio.sleep(600)

            assert not task.done()
            missing = manager.missing()
            assert missing
            assert all("networking.datumapis.com: NotServed" in text for text in missing)
