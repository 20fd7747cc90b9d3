"""A manager that runs everything on one cluster, with an election, and the calls it makes.

The planes of a local platform have no such cluster, so one is made of a plane that serves
every kind. Workloads are reviewed there, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from datum_compute.api import core, crds, planes
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.scheme import Resource
from datum_compute.apiserver.request.access import Authorizer
from datum_compute.apiserver.request.admission import Admission
from datum_compute.apiserver.request.roles import Roles
from datum_compute.assembly import rights
from datum_compute.assembly.manager.groups import build_manager
from datum_compute.assembly.manager.plane_clients import PlaneClients
from datum_compute.assembly.manager.settings import ManagerSettings
from datum_compute.client.client import ApiClient
from datum_compute.client.in_process import InProcessTransport
from datum_compute.client.protocol import Client, merge
from datum_compute.client.transport import Transport
from datum_compute.fleets.single import SingleFleet
from datum_compute.fleets.static import StaticFleet
from datum_compute.providers.simulated import SimulatedProvider
from datum_compute.providers.simulated.behaviour import FAIL
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.metrics.registry import MetricsRegistry
from datum_compute.runtime.tasks import TaskGroup
from datum_compute.standins.network_services import network_controllers
from datum_compute.testing.calls import RecordedCall, RecordingAuthorizer
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.expectations import eventually
from datum_compute.testing.network import SimulatedNetwork
from datum_compute.testing.server import EmbeddedServer, embedded_server
from datum_compute.webhooks.projects import ClientOf, OfferReader
from datum_compute.webhooks.workload import WorkloadReviews
from tests.support.simulation.platform import workload

PLANE = "project/demo"
NAMESPACE = "default"
HOME = "compute-system"
"""The namespace the manager itself is in."""
ROLES = {rights.SINGLE: "single", rights.WEBHOOKS: "single", rights.ELECTION: "host"}
"""The processes whose rights the manager has, and the planes of their roles; here one plane."""


class _InProcess(PlaneClients):
    """The planes of a manager whose cluster is an embedded one."""

    def __init__(
        self, embedded: EmbeddedServer, network: SimulatedNetwork, settings: ManagerSettings
    ) -> None:
        super().__init__(embedded.env, settings, MetricsRegistry())
        self._embedded = embedded
        self._network = network

    def own(self, *, fenced: bool = True) -> Client:
        return self._client_of(rights.SINGLE)

    def lease(self) -> Client:
        return self._client_of(rights.ELECTION)

    def _client_of(self, user: str) -> Client:
        return client_of(self._embedded, user, self._network)


def client_of(
    embedded: EmbeddedServer, user: str, network: SimulatedNetwork | None = None
) -> Client:
    inner: Transport = InProcessTransport(embedded.server.handle)
    return ApiClient(
        network.transport(user, PLANE, inner) if network else inner,
        cluster="single",
        prefix=planes.plane_prefix(PLANE),
        token=embedded.token(user, ()),
        user_agent=user,
    )


RightsScenario = Callable[["SingleClusterManager"], Awaitable[None]]


async def record(scenario: RightsScenario) -> set[RecordedCall]:
    calls = RecordingAuthorizer(Roles(), permissive=True)
    async with single_cluster(calls) as alone:
        await scenario(alone)
    return {placed(call) for call in calls.calls}


def placed(call: RecordedCall) -> RecordedCall:
    """The call where its role is applied."""
    return replace(call, plane=ROLES[call.user])


def granted() -> Roles:
    """The roles of ``deploy/base`` for a manager alone."""
    roles = Roles()
    for process, plane in ROLES.items():
        roles.grant(process, PLANE, rights.recorded()[process][plane])
    return roles


@dataclass
class SingleClusterManager:
    """A cluster with one manager."""

    client: Client
    """The administrator's."""
    network: SimulatedNetwork
    """Between the manager and the cluster."""
    restart: Callable[[], Awaitable[None]]


@asynccontextmanager
async def single_cluster(authorizer: Authorizer) -> AsyncIterator[SingleClusterManager]:
    env = SimulatedEnvironment()
    settings = ManagerSettings(
        management=True,
        cell=True,
        networking=True,
        leader_elect=True,
        leader_elect_namespace=HOME,
    )

    def reviewer(_: str) -> Client:
        return client_of(embedded, rights.WEBHOOKS)

    async with (
        embedded_server(
            env,
            crds_for=lambda _: crds.all_crds(),
            cells=(),
            authorizer=authorizer,
            admissions=[_admission(reviewer)],
        ) as embedded,
        SimulatedNetwork(env) as network,
    ):
        client = embedded.client(PLANE)
        await client.create(core.NAMESPACES, {"metadata": {"name": HOME}})
        async with TaskGroup("single cluster") as tasks:

            def start() -> asyncio.Task[None]:
                planes = _InProcess(embedded, network, settings)
                manager = build_manager(env, settings, planes, MetricsRegistry())
                return tasks.start(manager.run(), name="manager")

            async def restart() -> None:
                await tasks.stop(running.pop())
                running.append(start())

            around = tasks.start(_around(embedded).run(), name="around")
            running = [start()]
            try:
                yield SingleClusterManager(client, network, restart)
            finally:
                await tasks.stop(around, *running)


def _admission(client_of: ClientOf) -> Admission:
    reviews = WorkloadReviews(OfferReader(client_of, single="single"))
    resources = frozenset({compute.WORKLOADS.group_resource})
    return Admission("workloads", resources, reviews.mutate, reviews.validate)


def _around(embedded: EmbeddedServer) -> Manager:
    """The other parts of such a cluster: network services and a provider."""
    client, env = embedded.client(PLANE), embedded.env
    manager = Manager("around", env)
    manager.add(*network_controllers(StaticFleet("cells", {"dfw": client}, env), env))
    manager.add(*SimulatedProvider(SingleFleet("cell", "single", client, env), env).controllers())
    return manager


async def create_prerequisites(client: Client) -> None:
    """A location that is bound, and a network."""
    spec = {
        "locationClassName": "self-managed",
        "topology": {"topology.datum.net/city-code": "DFW"},
    }
    location = {"metadata": {"name": "dfw"}, "spec": {**spec, "provider": {}}}
    await client.create(networking.LOCATIONS, location)
    binding = {
        "metadata": {"name": "dfw"},
        "spec": {
            "locationRef": {"name": "dfw"},
            "topology": {networking.TOPOLOGY_CITY_CODE: "DFW"},
        },
    }
    await client.create(networking.LOCATION_BINDINGS, binding)
    available = {
        "type": "Available",
        "status": "True",
        "reason": "Available",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await client.patch(
        networking.LOCATION_BINDINGS,
        "dfw",
        merge({"status": {"conditions": [available]}}),
        subresource="status",
    )
    network = {"metadata": {"name": "default"}, "spec": {"ipam": {"mode": "Auto"}}}
    await client.create(networking.NETWORKS, network, NAMESPACE)


async def run_everything(alone: SingleClusterManager) -> None:
    """The lifecycle of a workload there, from its location to its deletion."""
    client = alone.client
    await create_prerequisites(client)
    await client.create(compute.WORKLOADS, workload("acme/web:1", 2, ("DFW",)), NAMESPACE)
    await _serves(client, 2)
    for minimum, image in ((3, "acme/web:1"), (1, "acme/web:2")):
        body = merge({"spec": workload(image, minimum, ("DFW",))["spec"]})
        await client.patch(compute.WORKLOADS, "web", body, NAMESPACE)
        await _serves(client, minimum)
    for fail in ("ImageUnavailable", None, "ImageUnavailable", None):
        body = merge({"spec": {"template": {"metadata": {"annotations": {FAIL: fail}}}}})
        await client.patch(compute.WORKLOADS, "web", body, NAMESPACE)
        await asyncio.sleep(60)
        await alone.restart()
    await _serves(client, 1)
    changed: tuple[tuple[Resource, dict[str, Any]], ...] = (
        (networking.NETWORK_BINDINGS, {"metadata": {"ownerReferences": None}}),
        (networking.SUBNET_CLAIMS, {"spec": {"subnetClass": "other"}}),
    )
    for resource, change in changed:
        for each in (await client.list(resource)).items:
            await client.patch(resource, each.name, merge(change), each.namespace)
        await asyncio.sleep(60)
    blue = {"metadata": {"name": "blue"}, "spec": {"ipam": {"mode": "Auto"}}}
    await client.create(networking.NETWORKS, blue, NAMESPACE)
    moved = {"template": {"spec": {"networkInterfaces": [{"network": {"name": "blue"}}]}}}
    await client.patch(compute.WORKLOADS, "web", merge({"spec": moved}), NAMESPACE)
    await _serves(client, 1)
    broken = merge({"metadata": {"labels": {compute.LABEL_WORKLOAD_NAME: "other"}}})
    await client.patch(compute.INSTANCES, "web-default-dfw-0", broken, NAMESPACE)
    await client.delete(compute.INSTANCES, "web-default-dfw-0", NAMESPACE)
    await _serves(client, 1)
    await client.delete(compute.WORKLOADS, "web", NAMESPACE)
    await asyncio.sleep(120)
    assert not (await client.list(compute.INSTANCES)).items


async def _serves(client: Client, count: int) -> None:
    async def look() -> str:
        obj = await client.get(compute.WORKLOADS, "web", NAMESPACE)
        status = obj.view(compute.Workload).status
        current = status.observed_generation == obj.metadata.generation
        counters = (current, status.replicas, status.updated_replicas, status.ready_replicas)
        if counters == (True, count, count, count):
            return ""
        return f"the workload reports {counters}: {status.conditions}"

    await eventually(f"{count} serve", look)
