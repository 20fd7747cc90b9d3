"""The suites of the system these planes belong to, on any federation: all processes run, and the
project is looked at as its users do."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from datum_compute.api import core, karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client.protocol import Client
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.expectations import eventually
from tests.support.controllers.planes import counters
from tests.support.federation.stage import NAMESPACE, deployment
from tests.support.objects import condition, until, until_gone
from tests.support.simulation.platform import (
    RunningPlatform,
    apply,
    leftovers,
    list_on_planes,
    missing_for_image,
    workload,
)

DEPLOYMENTS = compute.WORKLOAD_DEPLOYMENTS
NAME = "web-default-dfw"
CITY = compute.LABEL_TOPOLOGY_CITY_CODE
RECLAIM_SECONDS = 15 * 60.0
"""Within which the hub gives up on a cell whose manager does not answer."""


class FederationPlanes(RunningPlatform, Protocol):
    @property
    def hub(self) -> Client: ...

    @property
    def hub_namespace(self) -> str: ...

    @property
    def quiet_seconds(self) -> float:
        """After which what has not happened does not happen."""
        ...

    def cell(self, city: str = "DFW") -> Client: ...

    def without_provider(self, city: str) -> AbstractAsyncContextManager[None]:
        """While nothing runs the Instances of this city."""
        ...

    def without_cell_manager(self, city: str) -> AbstractAsyncContextManager[None]:
        """While the manager of this city's cell does not run."""
        ...


def there(_: Object) -> bool:
    return True


async def hub_copy(on: FederationPlanes, name: str = NAME) -> Object:
    return await until(on.hub, DEPLOYMENTS, name, on.hub_namespace, there)


async def workload_deployment_federation(on: FederationPlanes) -> None:
    await on.project.create(DEPLOYMENTS, deployment(), NAMESPACE)
    copy = await hub_copy(on)

    assert copy.metadata.labels[CITY] == "DFW"
    assert copy.metadata.labels[compute.LABEL_UPSTREAM_NAMESPACE] == NAMESPACE
    source = await on.project.get(DEPLOYMENTS, NAME, NAMESPACE)
    assert values(copy.spec) == values(source.spec)
    policy = await on.hub.get(karmada.PROPAGATION_POLICIES, "city-dfw", on.hub_namespace)
    spec = values(policy.spec)
    assert spec["placement"]["clusterAffinity"]["labelSelector"] == {"matchLabels": {CITY: "DFW"}}
    [selector] = spec["resourceSelectors"]
    assert selector["labelSelector"] == {"matchLabels": {CITY: "DFW"}}


async def deletion_cascade(on: FederationPlanes) -> None:
    await on.project.create(DEPLOYMENTS, deployment(), NAMESPACE)
    await until(on.cell(), compute.INSTANCES, f"{NAME}-0", on.hub_namespace, there)
    await on.project.delete(DEPLOYMENTS, NAME, NAMESPACE)
    async with asyncio.timeout(30):
        for client, namespace in (
            (on.hub, on.hub_namespace),
            (on.cell(), on.hub_namespace),
            (on.project, NAMESPACE),
        ):
            await until_gone(client, DEPLOYMENTS, NAME, namespace)
    await eventually("nothing left", lambda: leftovers(on))


async def propagation_policy_lifecycle(on: FederationPlanes) -> None:
    names = ("one-default-dfw", "two-default-dfw")
    for name in names:
        await on.project.create(DEPLOYMENTS, deployment(name), NAMESPACE)
        await hub_copy(on, name)
    [policy] = (await on.hub.list(karmada.PROPAGATION_POLICIES, on.hub_namespace)).items
    assert policy.name == "city-dfw"

    await on.project.delete(DEPLOYMENTS, names[0], NAMESPACE)
    await until_gone(on.hub, DEPLOYMENTS, names[0], on.hub_namespace)
    await asyncio.sleep(on.quiet_seconds)
    kept = await on.hub.get(karmada.PROPAGATION_POLICIES, "city-dfw", on.hub_namespace)
    assert kept.metadata.uid == policy.metadata.uid
    assert not kept.metadata.deleting

    await on.project.delete(DEPLOYMENTS, names[1], NAMESPACE)
    await until_gone(on.hub, karmada.PROPAGATION_POLICIES, "city-dfw", on.hub_namespace)


async def instance_projection(on: FederationPlanes) -> None:
    source = await on.project.create(DEPLOYMENTS, deployment(), NAMESPACE)
    await hub_copy(on)
    labels = {
        compute.LABEL_UPSTREAM_CLUSTER_NAME: "cluster-demo",
        compute.LABEL_UPSTREAM_NAMESPACE: NAMESPACE,
        compute.LABEL_WORKLOAD_DEPLOYMENT_NAME: NAME,
    }
    body = {
        "metadata": {"name": "by-hand-7", "labels": labels},
        "spec": values(source.spec)["template"]["spec"],
    }
    await on.hub.create(compute.INSTANCES, body, on.hub_namespace)
    shown = await until(on.project, compute.INSTANCES, "by-hand-7", NAMESPACE, there)

    assert shown.metadata.labels[compute.LABEL_WORKLOAD_DEPLOYMENT_UID] == source.metadata.uid
    [owner] = shown.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid) == (
        "WorkloadDeployment",
        NAME,
        source.metadata.uid,
    )


async def instance_writeback(on: FederationPlanes) -> None:
    source = await on.project.create(DEPLOYMENTS, deployment(), NAMESPACE)
    owner = await hub_copy(on)
    await until(on.cell(), DEPLOYMENTS, NAME, on.hub_namespace, there)
    body = {
        "metadata": {
            "name": "by-hand-7",
            "labels": {compute.LABEL_WORKLOAD_DEPLOYMENT_NAME: NAME},
        },
        "spec": values(source.spec)["template"]["spec"],
    }
    await on.cell().create(compute.INSTANCES, body, on.hub_namespace)
    copy = await until(on.hub, compute.INSTANCES, "by-hand-7", on.hub_namespace, there)

    labels = copy.metadata.labels
    assert labels[compute.LABEL_UPSTREAM_CLUSTER_NAME] == "cluster-demo"
    assert labels[compute.LABEL_UPSTREAM_NAMESPACE] == NAMESPACE
    assert labels[compute.LABEL_SOURCE_CLUSTER] == "dfw"
    reference = copy.metadata.controller()
    assert reference is not None
    assert reference.uid == owner.metadata.uid


async def federation_finalizer_no_wedge(on: FederationPlanes) -> None:
    """A namespace of the project that is deleted with everything in it leaves Terminating."""
    await on.project.create(core.NAMESPACES, {"metadata": {"name": "team"}})
    network = {"metadata": {"name": "default"}, "spec": {"ipam": {"mode": "Auto"}}}
    await on.project.create(networking.NETWORKS, network, "team")
    await on.project.create(
        compute.WORKLOADS, workload("acme/web:1", 2, cities=("DFW", "LHR")), "team"
    )
    served = await until(
        on.project,
        compute.WORKLOADS,
        "web",
        "team",
        lambda obj: counters(obj) == (4, 4, 4, 4),
    )
    await on.project.delete(core.NAMESPACES, "team")
    await until_gone(on.project, core.NAMESPACES, "team", "")
    assert served.namespace == "team"
    await eventually("nothing left", lambda: leftovers(on))
    assert (await on.project.list(quota.RESOURCE_CLAIMS)).items == []


async def full_federation(on: FederationPlanes) -> None:
    """One Instance, on all planes: not Ready before something runs it, Ready after."""
    instance = f"{NAME}-0"
    planes = (
        (on.cell(), on.hub_namespace),
        (on.hub, on.hub_namespace),
        (on.project, NAMESPACE),
    )
    async with on.without_provider("DFW"):
        await apply(on, workload("acme/web:1", 1, cities=("DFW",)))
        for client, namespace in planes:
            await until(client, compute.INSTANCES, instance, namespace, _waits_for_provider)
            await until(client, DEPLOYMENTS, NAME, namespace, lambda obj: counters(obj) == STARTED)
        shown = await until(
            *(on.project, compute.WORKLOADS, "web", NAMESPACE),
            lambda obj: counters(obj) == STARTED,
        )
        assert condition(shown, "Available")[0] == "False"
        await asyncio.sleep(on.quiet_seconds / 10)
        for client, namespace in planes:
            assert _waits_for_provider(await client.get(compute.INSTANCES, instance, namespace))
            assert counters(await client.get(DEPLOYMENTS, NAME, namespace)) == STARTED

    await eventually("it serves", lambda: missing_for_image(on, "acme/web:1", 1))
    for client, namespace in planes:
        served = await client.get(compute.INSTANCES, instance, namespace)
        assert condition(served, "Ready") == ("True", "Available")


STARTED = (1, 0, 0, 1)
"""The counters of a deployment whose only Instance is there, and not ready."""


def _waits_for_provider(obj: Object) -> bool:
    return condition(obj, "Ready") == ("False", "PendingProgramming")


async def federation_reclaim_without_cell(on: FederationPlanes) -> None:
    """A cell whose manager does not run never blocks the hub or the project for good."""
    await apply(on, workload("acme/web:1", 1, cities=("DFW",)))
    await eventually("it serves", lambda: missing_for_image(on, "acme/web:1", 1))

    async def left() -> str:
        for resource in (DEPLOYMENTS, compute.INSTANCES):
            for obj in await list_on_planes(on, resource, "hub"):
                return f"{obj!r} is left"
        return ""

    async with on.without_cell_manager("DFW"):
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        await eventually("reclaimed on the hub", left, within=RECLAIM_SECONDS)
        [unreached] = await list_on_planes(on, compute.INSTANCES, "cell/dfw")
        assert condition(unreached, "Available")[0] == "True", "it runs until it is stopped"
    await eventually("reclaimed everywhere", lambda: leftovers(on))
