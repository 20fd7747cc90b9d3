"""Two cells with the network services, and their objects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.client.client import ApiClient
from datum_compute.runtime.writes.patch import Values, values
from datum_compute.standins.network_services import MachineRanges, network_controllers
from tests.support.objects import condition, until
from tests.support.standins.platform import (
    StandinPlatform,
    build,
    create_namespace,
    location,
    running,
    standin_platform,
    upstream_labels,
)

NS = "ns-1"
NETWORKS, CONTEXTS = networking.NETWORKS, networking.NETWORK_CONTEXTS
BINDINGS = networking.NETWORK_BINDINGS
CLAIMS, SUBNETS = networking.SUBNET_CLAIMS, networking.SUBNETS


@asynccontextmanager
async def networked(machine: MachineRanges | None = None) -> AsyncIterator[StandinPlatform]:
    """Both cells with their Location and the network services at work."""
    async with standin_platform() as found:
        for name, cell in found.cells.items():
            await cell.create(networking.LOCATIONS, location(name.upper()))
            await create_namespace(cell, NS, upstream_labels())
        controllers = network_controllers(found.cell_fleet(), found.env, machine)
        async with running(found.env, controllers):
            yield found


def network(name: str = "default", namespace: str = NS) -> Values:
    return build(NETWORKS, name, namespace, spec={"ipam": {"mode": "Auto"}})


async def bind(cell: ApiClient, city: str, *, name: str = "default") -> None:
    body = build(
        BINDINGS,
        f"app-{name}-net-0",
        NS,
        spec={"network": {"name": name}, "location": {"name": city, "namespace": ""}},
    )
    await cell.create(BINDINGS, body, NS)


async def ask_subnet(cell: ApiClient, context: str, city: str, **more: Any) -> None:
    body = build(
        CLAIMS,
        f"{context}-0",
        NS,
        spec={
            "subnetClass": "private",
            "ipFamily": "IPv4",
            "networkContext": {"name": context},
            "location": {"name": city, "namespace": ""},
            **more,
        },
    )
    await cell.create(CLAIMS, body, NS)


async def present(cell: ApiClient, city: str, *, name: str = "default") -> None:
    """A network that is bound at the cell's location."""
    await cell.create(NETWORKS, network(name), NS)
    await bind(cell, city, name=name)
    await until(cell, BINDINGS, f"app-{name}-net-0", NS, is_ready)


def is_ready(obj: Object) -> bool:
    return condition(obj, "Ready")[0] == "True"


async def range_of(cell: ApiClient, name: str) -> str:
    claim = await until(cell, CLAIMS, name, NS, is_ready)
    status = values(claim.status)
    return f"{status['startAddress']}/{status['prefixLength']}"
