"""A cell whose Instances the simulated provider runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.standins.network_services import network_controllers
from tests.support.objects import condition, until
from tests.support.standins.platform import (
    StandinPlatform,
    build,
    create_namespace,
    instance_spec,
    location,
    running,
    standin_platform,
    upstream_labels,
)

NS = "ns-1"
INSTANCES = compute.INSTANCES


@asynccontextmanager
async def cell() -> AsyncIterator[StandinPlatform]:
    """DFW with a network, a deployment's binding and subnet on it, and no provider yet."""
    async with standin_platform() as found:
        dfw = found.cells["dfw"]
        await dfw.create(networking.LOCATIONS, location("DFW"))
        await create_namespace(dfw, NS, upstream_labels())
        where = {"name": "dfw", "namespace": ""}
        network = build(networking.NETWORKS, "default", NS, spec={"ipam": {"mode": "Auto"}})
        await dfw.create(networking.NETWORKS, network, NS)
        binding = build(
            networking.NETWORK_BINDINGS,
            "app-net-0",
            NS,
            spec={"network": {"name": "default"}, "location": where},
        )
        await dfw.create(networking.NETWORK_BINDINGS, binding, NS)
        claim = build(
            networking.SUBNET_CLAIMS,
            "default-dfw-0",
            NS,
            spec={
                "subnetClass": "private",
                "ipFamily": "IPv4",
                "networkContext": {"name": "default-dfw"},
                "location": where,
            },
        )
        await dfw.create(networking.SUBNET_CLAIMS, claim, NS)
        async with running(found.env, network_controllers(found.cell_fleet(), found.env)):
            await until(
                dfw,
                networking.SUBNET_CLAIMS,
                "default-dfw-0",
                NS,
                lambda one: condition(one, "Ready")[0] == "True",
            )
        yield found


async def start(
    found: StandinPlatform, number: int, annotations: Mapping[str, str] | None = None
) -> Object:
    body = build(
        INSTANCES,
        f"app-{number}",
        NS,
        metadata={
            "labels": {compute.LABEL_WORKLOAD_DEPLOYMENT_NAME: "app"},
            "annotations": dict(annotations or {}),
        },
        spec={**instance_spec(), "controller": {"templateHash": "h", "schedulingGates": []}},
    )
    return await found.cells["dfw"].create(INSTANCES, body, NS)


async def available(found: StandinPlatform, number: int, *, within: float = 60.0) -> Object:
    return await until(
        found.cells["dfw"],
        INSTANCES,
        f"app-{number}",
        NS,
        lambda one: condition(one, "Available")[0] == "True",
        within=within,
    )
