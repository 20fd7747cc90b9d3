"""A fleet at work on the real embedded server, for the length of a block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from datum_compute.api.compute.v1alpha import LABEL_UPSTREAM_CLUSTER_NAME, WORKLOAD_DEPLOYMENTS
from datum_compute.api.core import NAMESPACES
from datum_compute.client.protocol import Client
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.tasks import stop_tasks
from datum_compute.testing.expectations import eventually

SPEC = {
    "workloadRef": {"name": "web", "uid": "5b2c3e0e-8f0a-4f6e-9c0b-1d7f0b8a4d11"},
    "placementName": "default",
    "cityCode": "DFW",
    "scaleSettings": {"minReplicas": 1, "instanceManagementPolicy": "OrderedReady"},
    "template": {
        "spec": {
            "runtime": {
                "resources": {"instanceType": "datumcloud/d1-standard-2"},
                "sandbox": {"containers": [{"name": "web", "image": "nginx"}]},
            },
            "networkInterfaces": [{"network": {"name": "default"}}],
        }
    },
}


@asynccontextmanager
async def running(*fleets: Fleet) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(fleet.run(), name=fleet.name) for fleet in fleets]
    try:
        for fleet in fleets:
            await fleet.wait_discovered()
        yield
    finally:
        await stop_tasks(tasks)
    for task in tasks:
        if not task.cancelled():
            task.result()


def names(fleet: Fleet) -> list[str]:
    return [cluster.name for cluster in fleet.clusters()]


async def has(fleet: Fleet, *expected: str) -> None:
    """Wait until exactly these clusters are engaged."""

    async def look() -> str:
        found = names(fleet)
        return "" if found == sorted(expected) else str(found)

    await eventually(f"{fleet.name} has {sorted(expected)}", look, within=60)


async def create_namespace(cell_client: Client, name: str, project: str) -> None:
    labels = {LABEL_UPSTREAM_CLUSTER_NAME: f"cluster-{project}"}
    await cell_client.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})


async def create_deployment(cell_client: Client, namespace: str, name: str) -> None:
    body = {"metadata": {"name": name}, "spec": SPEC}
    await cell_client.create(WORKLOAD_DEPLOYMENTS, body, namespace)
