"""The federation as its users see it, suite by suite, with every process running.

Named after the suites of the system these planes belong to.
"""

from __future__ import annotations

import asyncio

from datum_compute.api import core, karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.apiserver.storage.protocol import PlaneStore, StoreEvent, Table
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.expectations import eventually
from tests.support.controllers.planes import counters
from tests.support.federation.stage import NAMESPACE, Stage, deployment, stage
from tests.support.objects import condition, find, until, until_gone
from tests.support.simulation.platform import (
    apply,
    leftovers,
    list_on_planes,
    missing_for_image,
    workload,
)

DEPLOYMENTS = compute.WORKLOAD_DEPLOYMENTS
NAME = "web-default-dfw"
CITY = compute.LABEL_TOPOLOGY_CITY_CODE
CELL_OPERATOR = "compute-cell-dfw"


def there(_: Object) -> bool:
    return True


async def hub_copy(on: Stage, name: str = NAME) -> Object:
    return await until(on.hub, DEPLOYMENTS, name, on.hub_namespace, there)


async def test_workload_deployment_federation() -> None:
    async with stage() as on:
        await on.project.create(DEPLOYMENTS, deployment(), NAMESPACE)
        copy = await hub_copy(on)

        assert copy.metadata.labels[CITY] == "DFW"
        assert copy.metadata.labels[compute.LABEL_UPSTREAM_NAMESPACE] == NAMESPACE
        source = await on.project.get(DEPLOYMENTS, NAME, NAMESPACE)
        assert values(copy.spec) == values(source.spec)
        policy = await on.hub.get(karmada.PROPAGATION_POLICIES, "city-dfw", on.hub_namespace)
        spec = values(policy.spec)
        assert spec["placement"]["clusterAffinity"]["labelSelector"] == {
            "matchLabels": {CITY: "DFW"}
        }
        [selector] = spec["resourceSelectors"]
        assert selector["labelSelector"] == {"matchLabels": {CITY: "DFW"}}


async def test_deletion_cascade() -> None:
    async with stage() as on:
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


async def test_propagation_policy_lifecycle() -> None:
    async with stage() as on:
        names = ("one-default-dfw", "two-default-dfw")
        for name in names:
            await on.project.create(DEPLOYMENTS, deployment(name), NAMESPACE)
            await hub_copy(on, name)
        [policy] = (await on.hub.list(karmada.PROPAGATION_POLICIES)).items
        assert policy.name == "city-dfw"

        await on.project.delete(DEPLOYMENTS, names[0], NAMESPACE)
        await until_gone(on.hub, DEPLOYMENTS, names[0], on.hub_namespace)
        await asyncio.sleep(60)
        kept = await on.hub.get(karmada.PROPAGATION_POLICIES, "city-dfw", on.hub_namespace)
        assert kept.metadata.uid == policy.metadata.uid
        assert not kept.metadata.deleting

        await on.project.delete(DEPLOYMENTS, names[1], NAMESPACE)
        await until_gone(on.hub, karmada.PROPAGATION_POLICIES, "city-dfw", on.hub_namespace)


async def test_instance_projection() -> None:
    async with stage() as on:
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


async def test_instance_writeback() -> None:
    async with stage() as on:
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


async def test_full_federation() -> None:
    async with stage(held=["provider-dfw"]) as on:
        await apply(on, workload("acme/web:1", 1, cities=("DFW",)))
        instance = f"{NAME}-0"
        not_ready = ("False", "PendingProgramming")
        planes = (
            (on.cell(), on.hub_namespace),
            (on.hub, on.hub_namespace),
            (on.project, NAMESPACE),
        )
        for client, namespace in planes:
            await until(
                client,
                compute.INSTANCES,
                instance,
                namespace,
                lambda obj: condition(obj, "Ready") == not_ready,
            )
        await asyncio.sleep(5)
        for client, namespace in planes:
            found = await client.get(DEPLOYMENTS, NAME, namespace)
            assert counters(found) == (1, 0, 0, 1)
        shown = await on.project.get(compute.WORKLOADS, "web", NAMESPACE)
        assert counters(shown) == (1, 0, 0, 1)
        assert condition(shown, "Available")[0] == "False"

        await on.start("provider-dfw")
        await eventually("it serves", lambda: missing_for_image(on, "acme/web:1", 1))
        for client, namespace in planes:
            served = await client.get(compute.INSTANCES, instance, namespace)
            assert condition(served, "Ready") == ("True", "Available")


async def test_federation_ownership() -> None:
    """The hub location is recorded before anything is created there, and copies have owners."""
    async with stage() as on:
        order: list[str] = []

        ownerless: list[str] = []

        def changed(plane: PlaneStore, table: Table, event: StoreEvent) -> None:
            if plane.name == "hub" and table.resource == compute.INSTANCES.group_resource:
                ownerless.extend([event.after.name] if not event.after.owners else [])
            if plane.name == "hub" and event.after.namespace == on.hub_namespace:
                order.append("hub")
            elif table.resource == DEPLOYMENTS.group_resource and plane.name == "project/demo":
                noted = compute.ANNOTATION_FEDERATION_NAMESPACE in event.after.raw.decode()
                order.append("recorded" if noted else "made")

        on.platform.store.subscribe(changed)
        await apply(on, workload("acme/web:1", 2, cities=("DFW",)))
        await eventually("it serves", lambda: missing_for_image(on, "acme/web:1", 2))
        assert order[:2] == ["made", "recorded"]
        assert "hub" in order
        source = await on.project.get(DEPLOYMENTS, NAME, NAMESPACE)
        noted = source.metadata.annotations[compute.ANNOTATION_FEDERATION_NAMESPACE]
        assert noted == on.hub_namespace
        assert compute.FINALIZER_FEDERATOR in source.metadata.finalizers
        owner = await hub_copy(on)
        copies = (await on.hub.list(compute.INSTANCES, on.hub_namespace)).items
        assert len(copies) == 2
        assert ownerless == [], "at no time"
        for copy in copies:
            reference = copy.metadata.controller()
            assert reference is not None
            assert (reference.kind, reference.uid) == ("WorkloadDeployment", owner.metadata.uid)


async def test_federation_hub_reclaim() -> None:
    """A copy is garbage-collected with its owner, and none is created without one."""
    async with stage() as on:
        await apply(on, workload("acme/web:1", 2, cities=("DFW",)))
        await eventually("it serves", lambda: missing_for_image(on, "acme/web:1", 2))
        on.stop("compute-management", "standin-propagation")
        await on.hub.delete(DEPLOYMENTS, NAME, on.hub_namespace)
        body: dict[str, object] = {"metadata": {"finalizers": []}}
        if await find(on.hub, DEPLOYMENTS, NAME, on.hub_namespace) is not None:
            await on.hub.patch(DEPLOYMENTS, NAME, merge(body), on.hub_namespace)

        async def copies_left() -> str:
            found = await list_on_planes(on, compute.INSTANCES, "hub")
            return "" if not found else f"{[obj.name for obj in found]} are left"

        await eventually("collected", copies_left, within=30)
        assert len(await list_on_planes(on, compute.INSTANCES, "cell/dfw")) == 2
        await on.restart(CELL_OPERATOR)
        await asyncio.sleep(600)
        assert await copies_left() == "", "the cell created a copy without an owner"


async def test_federation_reclaim_without_cell() -> None:
    """A cell whose operator does not run never blocks the hub or the project for good."""
    async with stage() as on:
        await apply(on, workload("acme/web:1", 1, cities=("DFW",)))
        await eventually("it serves", lambda: missing_for_image(on, "acme/web:1", 1))
        on.stop(CELL_OPERATOR)
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)

        async def left() -> str:
            for resource in (DEPLOYMENTS, compute.INSTANCES):
                for obj in await list_on_planes(on, resource, "hub"):
                    return f"{obj!r} is left"
            return ""

        await eventually("reclaimed on the hub", left, within=15 * 60)
        [unreached] = await list_on_planes(on, compute.INSTANCES, "cell/dfw")
        assert condition(unreached, "Available")[0] == "True", "it runs until it is stopped"

        await on.start(CELL_OPERATOR)
        await eventually("reclaimed everywhere", lambda: leftovers(on))


async def test_federation_finalizer_no_wedge() -> None:
    """A namespace of the project that is deleted with everything in it leaves Terminating."""
    async with stage() as on:
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
