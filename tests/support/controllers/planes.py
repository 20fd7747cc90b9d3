"""A project, a hub and a cell, and controllers to run on them; the test acts for the others.

A test runs the controllers it is about and acts for all others through clients: it copies
what Karmada would copy, decides claims as quota would, reports as a provider would.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from datum_compute.api import conditions, core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.scheme import Resource
from datum_compute.client.protocol import Client, merge
from datum_compute.fleets.single import SingleFleet
from datum_compute.fleets.static import StaticFleet
from datum_compute.runtime.controller import Controller
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.tasks import stop_tasks
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.server import EmbeddedServer, embedded_server
from tests.support.client.intercepted_transport import InterceptedTransport, linked_client

NAMESPACE = "default"
CITY = "DFW"


@dataclass
class ControllerPlanes:
    """One project, a hub and a cell, with administrator's clients."""

    env: SimulatedEnvironment
    project: Client
    hub: Client
    cell: Client
    hub_namespace: str
    embedded: EmbeddedServer

    def linked(self, plane: str) -> tuple[Client, InterceptedTransport]:
        """A client of a plane, and the transport between them."""
        return linked_client(self.embedded, plane)

    def projects(self, client: Client | None = None) -> StaticFleet:
        return StaticFleet("projects", {"demo": client or self.project}, self.env)

    def hub_fleet(self, client: Client | None = None) -> SingleFleet:
        return SingleFleet("hub", "hub", client or self.hub, self.env)

    def cell_fleet(self, client: Client | None = None) -> SingleFleet:
        return SingleFleet("cell", "single", client or self.cell, self.env)

    @asynccontextmanager
    async def running(self, *controllers: Controller) -> AsyncIterator[None]:
        manager = Manager("test", self.env)
        manager.add(*controllers)
        task = asyncio.get_running_loop().create_task(manager.run(), name="manager")
        try:
            await manager.wait_ready()
            yield
        finally:
            await stop_tasks([task])
        if not task.cancelled():
            task.result()


@asynccontextmanager
async def controller_planes() -> AsyncIterator[ControllerPlanes]:
    env = SimulatedEnvironment()
    async with embedded_server(env, cells=("dfw",)) as embedded:
        project = embedded.client("project/demo")
        namespace = await project.get(core.NAMESPACES, NAMESPACE)
        hub_namespace = f"ns-{namespace.metadata.uid}"
        yield ControllerPlanes(
            env,
            project,
            embedded.client("hub"),
            embedded.client("cell/dfw"),
            hub_namespace,
            embedded,
        )


# What the platform starts with.


async def given_project(world: ControllerPlanes, *cities: str) -> None:
    """A default network, and an available LocationBinding for each city."""
    network = {"metadata": {"name": "default"}, "spec": {"ipam": {"mode": "Auto"}}}
    await world.project.create(networking.NETWORKS, network, NAMESPACE)
    for city in cities:
        await given_location_binding(world, city)


async def given_location_binding(world: ControllerPlanes, city: str) -> None:
    body = {
        "metadata": {"name": city.lower()},
        "spec": {
            "locationRef": {"name": city.lower()},
            "topology": {networking.TOPOLOGY_CITY_CODE: city},
        },
    }
    binding = await world.project.create(networking.LOCATION_BINDINGS, body)
    await set_condition(world, world.project, networking.LOCATION_BINDINGS, binding, "Available")


async def given_namespace(client: Client, name: str, *, cluster: str = "cluster-demo") -> None:
    """A namespace as the federator creates it on the hub, and Karmada in a cell."""
    labels = {
        compute.LABEL_UPSTREAM_CLUSTER_NAME: cluster,
        compute.LABEL_UPSTREAM_NAMESPACE: NAMESPACE,
    }
    await client.create(core.NAMESPACES, {"metadata": {"name": name, "labels": labels}})


def template(image: str = "acme/web:1") -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": "web"}, "annotations": {"team": "blue"}},
        "spec": {
            "runtime": {
                "resources": {"instanceType": "datumcloud/d1-standard-2"},
                "sandbox": {"containers": [{"name": "app", "image": image}]},
            },
            "networkInterfaces": [{"network": {"name": "default"}}],
        },
    }


def workload(
    *cities: str, name: str = "web", replicas: int = 1, image: str = "acme/web:1"
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "template": template(image),
            "placements": [
                {
                    "name": "main",
                    "cityCodes": list(cities),
                    "scaleSettings": {"minReplicas": replicas},
                }
            ],
        },
    }


def deployment(
    name: str = "web-main-dfw",
    *,
    replicas: int = 1,
    image: str = "acme/web:1",
    city: str = CITY,
    annotations: dict[str, str] | None = None,
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {
            "workloadRef": {"name": "web", "uid": "uid-of-web"},
            "placementName": "main",
            "cityCode": city,
            "template": template(image),
            "scaleSettings": {"minReplicas": replicas},
        },
    }


async def settle(seconds: float = 30.0) -> None:
    """Let pending work finish, on virtual time."""
    await asyncio.sleep(seconds)


def counters(obj: Object) -> tuple[int, ...]:
    """Replicas, updated, ready, desired."""
    status = values(obj.status)
    keys = ("replicas", "updatedReplicas", "readyReplicas", "desiredReplicas")
    return tuple(status.get(key, -1) for key in keys)


# Acting as other components.


async def set_condition(
    world: ControllerPlanes,
    client: Client,
    resource: Resource,
    obj: Object,
    type_: str,
    status: str = "True",
    reason: str = "Set",
    message: str = "from the test",
    **more: Any,
) -> Object:
    """Write one condition, and other fields of the status with it."""
    present = values(obj.status).get("conditions") or []
    others = [each for each in present if each["type"] != type_]
    changed = conditions.to_wire(
        [
            conditions.Condition(
                type=type_,
                status=status,
                reason=reason,
                message=message,
                last_transition_time=world.env.now(),
            )
        ]
    )
    body = {"status": {"conditions": others + changed, **more}}
    return await client.patch(resource, obj.name, merge(body), obj.namespace, subresource="status")


async def report(client: Client, namespace: str, name: str, **status: Any) -> None:
    """A WorkloadDeployment's report, as Karmada brings it to the hub."""
    body = {
        "replicas": 0,
        "currentReplicas": 0,
        "updatedReplicas": 0,
        "desiredReplicas": 0,
        "readyReplicas": 0,
        **status,
    }
    await client.patch(
        compute.WORKLOAD_DEPLOYMENTS,
        name,
        merge({"status": body}),
        namespace,
        subresource="status",
    )


def condition_value(type_: str, status: str, reason: str) -> dict[str, Any]:
    """A condition as JSON."""
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": reason,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


async def report_serving(world: ControllerPlanes, name: str) -> None:
    """Report an Instance as ready, as provider and Instance controller do."""
    instance = await world.cell.get(compute.INSTANCES, name, world.hub_namespace)
    revision = instance.view(compute.Instance).template_hash
    present = values(instance.status).get("conditions") or []
    types = {"Programmed": "Programmed", "Available": "Available", "Ready": "Available"}
    others = [each for each in present if each["type"] not in types]
    body = {
        "conditions": others
        + [condition_value(type_, "True", reason) for type_, reason in types.items()],
        "controller": {"observedTemplateHash": revision},
    }
    await world.cell.patch(
        compute.INSTANCES,
        name,
        merge({"status": body}),
        world.hub_namespace,
        subresource="status",
    )


async def remove_finalizers(client: Client, resource: Resource, name: str, namespace: str) -> None:
    """Remove all finalizers of an object."""
    body: dict[str, Any] = {"metadata": {"finalizers": []}}
    await client.patch(resource, name, merge(body), namespace)
