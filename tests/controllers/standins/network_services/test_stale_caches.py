"""The network stand-in with messages that are late, lost or stale."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from datum_compute.api import planes
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.scheme import Resource
from datum_compute.client.client import ApiClient
from datum_compute.client.in_process import InProcessTransport
from datum_compute.fleets.static import StaticFleet
from datum_compute.runtime.writes.patch import values
from datum_compute.standins.network_services import network_controllers
from datum_compute.testing.expectations import eventually
from datum_compute.testing.network import Direction, SimulatedNetwork
from datum_compute.testing.network_faults import NO_FAULTS, NetworkFaults
from tests.support.objects import condition, until
from tests.support.standins.networks import (
    CLAIMS,
    CONTEXTS,
    NETWORKS,
    NS,
    SUBNETS,
    ask_subnet,
    bind,
    network,
)
from tests.support.standins.platform import (
    StandinPlatform,
    create_namespace,
    location,
    running,
    standin_platform,
    upstream_labels,
)

ME = "network"


@asynccontextmanager
async def networked() -> AsyncIterator[tuple[StandinPlatform, SimulatedNetwork]]:
    """As in the tests without faults, over a simulated network."""
    async with standin_platform() as found, SimulatedNetwork(found.env) as between:
        for name, cell in found.cells.items():
            await cell.create(networking.LOCATIONS, location(name.upper()))
            await create_namespace(cell, NS, upstream_labels())
        clients = {name: _client(found, between, name) for name in found.cells}
        fleet = StaticFleet("cells", clients, found.env)
        async with running(found.env, network_controllers(fleet, found.env)):
            yield found, between


def _client(found: StandinPlatform, between: SimulatedNetwork, cell: str) -> ApiClient:
    plane = f"cell/{cell}"
    inner = InProcessTransport(found.embedded.server.handle)
    return ApiClient(
        between.transport(ME, plane, inner),
        cluster=cell,
        prefix=planes.plane_prefix(plane),
        token=found.embedded.token(ME),
    )


def is_ready(obj: Object) -> bool:
    return condition(obj, "Ready")[0] == "True"


async def range_in(cell: ApiClient, context: str) -> object:
    return values((await cell.get(SUBNETS, f"{context}-0", NS)).spec)["startAddress"]


@pytest.mark.parametrize("behind", [CONTEXTS, NETWORKS], ids=["a context", "a network"])
async def test_nothing_is_recreated_in_a_loop_for_an_owner_that_is_gone(behind: Resource) -> None:
    async with networked() as (found, between):
        cell = found.cells["dfw"]
        await cell.create(NETWORKS, network(), NS)
        await bind(cell, "dfw")
        await ask_subnet(cell, "default-dfw", "dfw")
        await until(cell, CLAIMS, "default-dfw-0", NS, is_ready)
        between.lags[ME, behind.plural] = 30.0
        requests = between.trace.counts["request"]
        await cell.delete(NETWORKS, "default", NS)
        await asyncio.sleep(20)

        for resource in (CONTEXTS, SUBNETS):
            assert (await cell.list(resource)).items == []
        assert between.trace.counts["request"] - requests < 100


async def test_a_range_whose_create_got_no_answer_is_not_allocated_again() -> None:
    async with networked() as (found, between):
        dfw, lhr = found.cells["dfw"], found.cells["lhr"]
        for cell in (dfw, lhr):
            await cell.create(NETWORKS, network(), NS)
            await cell.create(networking.LOCATIONS, location("ABC"))
            await bind(cell, "abc")
            await until(cell, CONTEXTS, "default-abc", NS, is_ready)
        between.faults = NetworkFaults(delay=10.0)
        await ask_subnet(dfw, "default-abc", "abc")
        await eventually("requested", lambda: _not_requested(between))
        between.faults = NO_FAULTS
        # The request in flight arrives, and its sender gets no reply.
        between.partition(ME, "cell/dfw", direction=Direction.BACK, silent=False)

        await ask_subnet(lhr, "default-abc", "abc")
        for cell in (lhr, dfw):
            await until(cell, SUBNETS, "default-abc-0", NS, lambda _: True)
        assert await range_in(dfw, "default-abc") != await range_in(lhr, "default-abc")


async def _not_requested(between: SimulatedNetwork) -> str:
    requested = [line for line in between.trace.lines if " POST " in line and "/subnets" in line]
    return "" if requested else "no subnet was requested"
