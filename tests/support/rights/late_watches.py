"""Late watches, and the live reads that they cause.

Before a key runs again, the caches must have what its last run wrote. When they have not within
five seconds, the object is read from the server, which needs a right. It takes two things: a
late watch, and an event that enqueues the key again meanwhile. So every kind that a process
writes and watches is late in one of these scenarios, while all other objects are touched
periodically, or change by themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from datum_compute.api import core, karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.api.scheme import Resource
from datum_compute.api.services import v1alpha1 as services
from datum_compute.assembly import rights
from datum_compute.client import errors
from datum_compute.client.protocol import Client, merge
from datum_compute.providers.simulated.behaviour import START_SECONDS
from datum_compute.runtime.writes import patch
from datum_compute.testing.network import SimulatedNetwork
from tests.support.federation.stage import NAMESPACE, Stage
from tests.support.rights.single_manager import SingleClusterManager, create_prerequisites
from tests.support.simulation.platform import apply, workload

RightsScenario = Callable[[Stage], Awaitable[None]]

LATE = 12.0
"""Seconds by which a watch is late: more than a key waits, and than any probe takes to return."""
STIR_EVERY = 3.0

IN_PROJECTS = (
    compute.WORKLOADS,
    compute.WORKLOAD_DEPLOYMENTS,
    compute.INSTANCES,
    networking.NETWORKS,
    networking.LOCATION_BINDINGS,
    quota.RESOURCE_CLAIMS,
    quota.RESOURCE_GRANTS,
    quota.ALLOWANCE_BUCKETS,
)
ON_THE_HUB = (
    core.NAMESPACES,
    compute.WORKLOAD_DEPLOYMENTS,
    compute.INSTANCES,
    karmada.PROPAGATION_POLICIES,
    karmada.RESOURCE_BINDINGS,
    karmada.WORKS,
    karmada.CLUSTERS,
)
IN_CELLS = (
    compute.WORKLOAD_DEPLOYMENTS,
    compute.INSTANCES,
    networking.NETWORKS,
    networking.LOCATIONS,
    networking.NETWORK_BINDINGS,
    networking.NETWORK_CONTEXTS,
    networking.SUBNET_CLAIMS,
    networking.SUBNETS,
)


def delay_watches(network: SimulatedNetwork, process: str, *resources: Resource) -> None:
    for resource in resources:
        network.lags[process, resource.plural] = LATE


def a_lifecycle_seen_late(*late: Resource) -> RightsScenario:
    """The lifecycle of a workload while watches of these kinds are late."""

    async def scenario(on: Stage) -> None:
        for process in on.parts:
            delay_watches(on.network, process, *late)
        places = [
            (on.project, IN_PROJECTS),
            (on.hub, ON_THE_HUB),
            (on.cell(), IN_CELLS),
        ]
        await apply(on, workload("acme/web:1", 1, ("DFW",)))
        await touch_periodically(places, late)
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        await touch_periodically(places, late)

    return scenario


async def touch_periodically(
    places: Sequence[tuple[Client, Sequence[Resource]]], late: Sequence[Resource] = ()
) -> None:
    """For a minute, touch all objects that are not late, so that every key is enqueued again."""
    for number in range(20):
        await asyncio.sleep(STIR_EVERY)
        for client, resources in places:
            for resource in resources:
                if resource not in late:
                    await touch_all(client, resource, number)


async def touch_all(client: Client, resource: Resource, number: int = 0) -> None:
    for obj in (await client.list(resource)).items:
        await touch(client, resource, obj.name, obj.namespace, number)


async def touch(
    client: Client, resource: Resource, name: str, namespace: str = "", number: int = 0
) -> None:
    """Change a label that no controller reads."""
    body = merge({"metadata": {"labels": {"touched": str(number)}}})
    try:
        await client.patch(resource, name, body, namespace)
    except errors.NotFound:
        pass  # it was deleted meanwhile


async def a_slow_start_seen_late(on: Stage) -> None:
    """A provider reconciles again when an Instance should have started, and the projector gets
    the changes in quick succession."""
    for process in ("provider-dfw", "compute-management"):
        delay_watches(on.network, process, compute.INSTANCES)
    slow = workload("acme/web:1", 1, ("DFW",))
    slow["spec"]["template"]["metadata"] = {"annotations": {START_SECONDS: "10"}}
    await apply(on, slow)
    await asyncio.sleep(120)


async def projects_seen_late(on: Stage) -> None:
    """One gets its locations late, another their bindings; both get grants, and are deleted."""
    delay_watches(on.network, "standin-quota", quota.RESOURCE_GRANTS)
    root_client = on.client("root")
    owner = {"kind": "Organization", "name": "local"}
    for name, late in (
        ("first", networking.LOCATIONS),
        ("second", networking.LOCATION_BINDINGS),
    ):
        for process in on.parts:
            delay_watches(on.network, process, late)
        body = {"metadata": {"name": name}, "spec": {"ownerRef": owner}}
        await root_client.create(resourcemanager.PROJECTS, body)
        await touch_periodically([(root_client, (resourcemanager.PROJECTS,))])
        for process in on.parts:
            del on.network.lags[process, late.plural]
    delay_watches(on.network, "standin-projects", resourcemanager.PROJECTS)
    for name in ("first", "second"):
        await root_client.delete(resourcemanager.PROJECTS, name)
    await asyncio.sleep(120)


async def a_member_seen_late(on: Stage) -> None:
    """It is probed periodically, although events of its status are late."""
    delay_watches(on.network, "standin-propagation", karmada.CLUSTERS)
    cut = on.network.partition("standin-propagation", "cell/dfw", silent=False)
    await asyncio.sleep(90)
    on.network.heal(cut)
    await asyncio.sleep(60)


async def catalogues_seen_late(on: Stage) -> None:
    """Registrations, policies, grants and entitlements, each with what it depends on."""
    delay_watches(
        on.network,
        "standin-quota",
        quota.RESOURCE_REGISTRATIONS,
        quota.GRANT_CREATION_POLICIES,
    )
    delay_watches(on.network, "standin-entitlements", services.SERVICE_ENTITLEMENTS)
    root_client = on.client("root")
    registered = (await root_client.list(quota.RESOURCE_REGISTRATIONS)).items[0]
    for name in ("second", "third"):  # of the same type: each one causes a new decision on all
        await root_client.create(quota.RESOURCE_REGISTRATIONS, again(registered, name))
        await asyncio.sleep(1)
    [policy] = (await root_client.list(quota.GRANT_CREATION_POLICIES)).items
    template = {"metadata": {"labels": {"changed": "yes"}}}
    changed = merge({"spec": {"target": {"resourceGrantTemplate": template}}})
    await root_client.patch(quota.GRANT_CREATION_POLICIES, policy.name, changed)
    [entitlement] = (await on.project.list(services.SERVICE_ENTITLEMENTS)).items
    await on.project.create(services.SERVICE_ENTITLEMENTS, again(entitlement, "second"))
    await touch_periodically([(root_client, (resourcemanager.PROJECTS, services.SERVICES))])


def again(obj: Object, name: str) -> dict[str, Any]:
    """Another one with the same content."""
    return {"metadata": {"name": name}, "spec": patch.values(obj.spec)}


def a_single_cluster_lifecycle_seen_late(
    *late: Resource,
) -> Callable[[SingleClusterManager], Awaitable[None]]:
    """The same for a manager of a single cluster."""

    async def scenario(alone: SingleClusterManager) -> None:
        delay_watches(alone.network, rights.SINGLE, *late)
        client, places = alone.client, [(alone.client, (*IN_PROJECTS[:5], *IN_CELLS[3:]))]
        await create_prerequisites(client)
        await client.create(compute.WORKLOADS, workload("acme/web:1", 1, ("DFW",)), NAMESPACE)
        await touch_periodically(places, late)
        await client.delete(compute.WORKLOADS, "web", NAMESPACE)
        await touch_periodically(places, late)

    return scenario


LATE_SCENARIOS: list[RightsScenario] = [
    a_lifecycle_seen_late(
        compute.WORKLOADS,
        networking.NETWORK_BINDINGS,
        networking.SUBNETS,
        quota.RESOURCE_CLAIMS,
        karmada.PROPAGATION_POLICIES,
        karmada.WORKS,
    ),
    a_lifecycle_seen_late(
        compute.WORKLOAD_DEPLOYMENTS,
        networking.SUBNET_CLAIMS,
        quota.ALLOWANCE_BUCKETS,
        karmada.RESOURCE_BINDINGS,
    ),
    a_slow_start_seen_late,
    projects_seen_late,
    a_member_seen_late,
    catalogues_seen_late,
]

LATE_SCENARIOS_SINGLE_CLUSTER: list[Callable[[SingleClusterManager], Awaitable[None]]] = [
    a_single_cluster_lifecycle_seen_late(
        compute.WORKLOADS, compute.INSTANCES, networking.NETWORK_BINDINGS
    ),
    a_single_cluster_lifecycle_seen_late(compute.WORKLOAD_DEPLOYMENTS, networking.SUBNET_CLAIMS),
]
