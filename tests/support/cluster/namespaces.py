"""A namespace of a real cluster that serves as project, hub and cell at once."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from datum_compute.api import conditions, core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.client.protocol import Client, merge
from datum_compute.env import SystemEnvironment
from datum_compute.fleets.single import SingleFleet
from datum_compute.providers.simulated import SimulatedProvider
from datum_compute.runtime.controller import Controller
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.tasks import TaskGroup
from datum_compute.standins.network_services import network_controllers
from datum_compute.testing.expectations import eventually

WITHIN = 60.0
FAIL = "simulated.compute.datumapis.com/fail"


class ClusterNamespace:
    """A namespace of the real cluster with all that a workload needs there."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def prepare(self) -> None:
        await self.client.create(core.NAMESPACES, {"metadata": {"name": self.namespace}})
        network = {"metadata": {"name": "default"}, "spec": {"ipam": {"mode": "Auto"}}}
        await self.client.create(networking.NETWORKS, network, self.namespace)

    async def deploy(self, body: dict[str, Any]) -> None:
        await self.client.create(compute.WORKLOADS, body, self.namespace)

    async def change(self, body: dict[str, Any]) -> None:
        annotations = body["spec"]["template"]["metadata"]["annotations"]
        annotations.setdefault(FAIL, None)
        patch = merge({"spec": body["spec"]})
        await self.client.patch(compute.WORKLOADS, "web", patch, self.namespace)

    async def instances(self) -> dict[str, compute.Instance]:
        found = await self.client.list(compute.INSTANCES, self.namespace)
        return {obj.name: obj.view(compute.Instance) for obj in found.items}

    async def uids(self) -> dict[str, str]:
        return {name: each.metadata.uid for name, each in (await self.instances()).items()}

    async def runs(self, image: str, count: int) -> None:
        async def look() -> str:
            return await self._unlike(image, count)

        await eventually(f"{count} of {image} run", look, within=WITHIN)

    async def _unlike(self, image: str, count: int) -> str:
        obj = await self.client.get(compute.WORKLOADS, "web", self.namespace)
        status = obj.view(compute.Workload).status
        counters = (
            status.observed_generation,
            status.replicas,
            status.current_replicas,
            status.updated_replicas,
            status.ready_replicas,
            status.desired_replicas,
        )
        if counters != (obj.metadata.generation, *(count,) * 5):
            return f"the workload counts {counters}"
        if not conditions.is_true(status.conditions, compute.CONDITION_AVAILABLE):
            return f"the workload is not Available: {status.conditions}"
        found = await self.instances()
        if sorted(found) != [f"web-default-dfw-{ordinal}" for ordinal in range(count)]:
            return f"instances {sorted(found)}"
        for name, instance in found.items():
            sandbox = instance.spec.runtime.sandbox
            if sandbox is None or sandbox.containers[0].image != image or not instance.ready:
                return f"{name}: {instance.status.conditions}"
        return ""

    async def gone(self) -> None:
        async def look() -> str:
            for resource in (compute.WORKLOADS, compute.WORKLOAD_DEPLOYMENTS, compute.INSTANCES):
                for obj in (await self.client.list(resource, self.namespace)).items:
                    return f"{obj!r} is left"
            return ""

        await eventually("nothing is left", look, within=WITHIN)

    async def revisions(self) -> dict[str, str]:
        return {
            f"{resource}/{obj.name}": obj.metadata.resource_version
            for resource in (compute.WORKLOADS, compute.WORKLOAD_DEPLOYMENTS, compute.INSTANCES)
            for obj in (await self.client.list(resource, self.namespace)).items
        }


def workload(image: str, minimum: int, **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "web"},
        "spec": {
            "template": {
                "metadata": {"annotations": annotations},
                "spec": {
                    "runtime": {
                        "resources": {"instanceType": "datumcloud/d1-standard-2"},
                        "sandbox": {"containers": [{"name": "app", "image": image}]},
                    },
                    "networkInterfaces": [{"network": {"name": "default"}}],
                },
            },
            "placements": [
                {
                    "name": "default",
                    "cityCodes": ["DFW"],
                    "scaleSettings": {"minReplicas": minimum},
                }
            ],
        },
    }


async def given_city(client: Client) -> None:
    """One location, bound; each test may be the first to want it."""
    topology = {networking.TOPOLOGY_CITY_CODE: "DFW"}
    if any(obj.name == "dfw" for obj in (await client.list(networking.LOCATIONS)).items):
        return
    location = {"locationClassName": "datum-managed", "topology": topology}
    body = {"metadata": {"name": "dfw"}, "spec": location}
    await client.create(networking.LOCATIONS, body)
    body = {
        "metadata": {"name": "dfw"},
        "spec": {"locationRef": {"name": "dfw"}, "topology": topology},
    }
    await client.create(networking.LOCATION_BINDINGS, body)
    available = {
        "type": "Available",
        "status": "True",
        "reason": "Opened",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = merge({"status": {"conditions": [available]}})
    await client.patch(networking.LOCATION_BINDINGS, "dfw", status, subresource="status")


@contextlib.asynccontextmanager
async def standins(client: Client, *, networks: bool) -> AsyncIterator[None]:
    """The provider, and the network services if wanted."""
    env = SystemEnvironment()
    fleet = SingleFleet("cell", "single", client, env)
    manager = Manager("standins", env)
    provider = SimulatedProvider(fleet, env, networking_enabled=networks)
    controllers: list[Controller] = provider.controllers()
    if networks:
        controllers += network_controllers(fleet, env)
    manager.add(*controllers)
    async with TaskGroup("standins") as tasks:
        running = tasks.start(manager.run(), name="standins")
        await manager.wait_ready()
        yield
        await tasks.stop(running)
