"""A cell's reports while its cache of the hub is stale."""

from __future__ import annotations

from functools import partial
from typing import Any

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.apiserver.storage.protocol import PlaneStore, StoreEvent, Table
from datum_compute.client.protocol import Client, EventType, WatchEvent, merge
from datum_compute.controllers.cell.instance.signals import InstanceSignals
from datum_compute.controllers.cell.instance.write_back import WriteBack
from datum_compute.testing.cache_history import CacheHistory, RecordedEvent
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.server import embedded_server
from tests.support.simulation.platform import workload

NAMESPACE = "ns-1"
KNOWN = (core.NAMESPACES, compute.WORKLOAD_DEPLOYMENTS, compute.INSTANCES)


async def deployment_on(hub_client: Client) -> Object:
    await hub_client.create(core.NAMESPACES, {"metadata": {"name": NAMESPACE}})
    return await create_deployment(hub_client)


async def create_deployment(hub_client: Client) -> Object:
    spec = {
        "cityCode": "DFW",
        "placementName": "default",
        "workloadRef": {"name": "web", "uid": "uid-of-web"},
        "template": workload("acme/web:1", 1)["spec"]["template"],
        "scaleSettings": {"minReplicas": 1},
    }
    body = {"metadata": {"name": "web-default-dfw"}, "spec": spec}
    return await hub_client.create(compute.WORKLOAD_DEPLOYMENTS, body, NAMESPACE)


async def instance_in(cell_client: Client) -> Object:
    await cell_client.create(core.NAMESPACES, {"metadata": {"name": NAMESPACE}})
    return await create_instance(cell_client, 0)


async def create_instance(cell_client: Client, ordinal: int) -> Object:
    labels = {compute.LABEL_WORKLOAD_DEPLOYMENT_NAME: "web-default-dfw"}
    spec = workload("acme/web:1", 1)["spec"]["template"]["spec"]
    body = {"metadata": {"name": f"web-default-dfw-{ordinal}", "labels": labels}, "spec": spec}
    return await cell_client.create(compute.INSTANCES, body, NAMESPACE)


async def copies_made(*, deployment_is_gone: bool) -> int:
    """By a cell that has once seen the deployment on the hub, and nothing since."""
    env = SimulatedEnvironment()
    async with embedded_server(env) as embedded:
        hub_client = embedded.client("hub")
        owner = await deployment_on(hub_client)
        instance = await instance_in(embedded.client("cell/dfw"))
        past = CacheHistory()
        for resource in KNOWN:
            past.declare("hub", resource)
        seen = WatchEvent(EventType.ADDED, owner)
        past.events.append(RecordedEvent("hub", compute.WORKLOAD_DEPLOYMENTS, seen))
        if deployment_is_gone:
            await hub_client.delete(compute.WORKLOAD_DEPLOYMENTS, owner.name, NAMESPACE)
        hub = past.view("hub", 1, hub_client, env).get("hub")
        assert hub is not None
        made: list[str] = []
        embedded.store.subscribe(partial(_note_created, made))
        signals = InstanceSignals(env, None, quota=False)
        await WriteBack("dfw", signals).ensure_copy(hub, instance)
        return len(made)


def _note_created(made: list[str], plane: PlaneStore, table: Table, event: StoreEvent) -> None:
    # Creations, not what is left: the hub collects the copy at once.
    if (plane.name, table.resource) == ("hub", compute.INSTANCES.group_resource):
        made += [event.after.name] if event.before is None else []


async def test_no_copy_is_created_for_a_deleted_deployment() -> None:
    """It would be garbage-collected and created again until the watch returns."""
    assert await copies_made(deployment_is_gone=True) == 0
    assert await copies_made(deployment_is_gone=False) == 1


async def test_a_deployment_that_was_just_made_again_owns_its_copies() -> None:
    """Copies that name its predecessor would be garbage-collected."""
    env = SimulatedEnvironment()
    async with embedded_server(env) as embedded:
        hub_client, cell_client = embedded.client("hub"), embedded.client("cell/dfw")
        owner = await deployment_on(hub_client)
        instance = await instance_in(cell_client)
        past = CacheHistory()
        for resource in KNOWN:
            past.declare("hub", resource)
        hub = past.view("hub", 0, hub_client, env).get("hub")
        assert hub is not None
        write_back = WriteBack("dfw", InstanceSignals(env, None, quota=False))
        assert await write_back.ensure_copy(hub, instance)

        await hub_client.delete(compute.WORKLOAD_DEPLOYMENTS, owner.name, NAMESPACE)
        successor = await create_deployment(hub_client)
        assert await write_back.ensure_copy(hub, await create_instance(cell_client, 1))

        copy = await hub_client.get(compute.INSTANCES, "web-default-dfw-1", NAMESPACE)
        reference = copy.metadata.controller()
        assert reference is not None
        assert reference.uid == successor.metadata.uid


async def test_a_copy_names_its_project_although_its_namespace_is_not_in_the_cache() -> None:
    """A copy without its project is never projected, and nothing would correct it."""
    env = SimulatedEnvironment()
    async with embedded_server(env) as embedded:
        hub_client = embedded.client("hub")
        await deployment_on(hub_client)
        labels = {
            compute.LABEL_UPSTREAM_CLUSTER_NAME: "cluster-demo",
            compute.LABEL_UPSTREAM_NAMESPACE: "default",
        }
        await hub_client.patch(core.NAMESPACES, NAMESPACE, merge({"metadata": {"labels": labels}}))
        instance = await instance_in(embedded.client("cell/dfw"))
        past = CacheHistory()
        for resource in KNOWN:
            past.declare("hub", resource)
        hub = past.view("hub", 0, hub_client, env).get("hub")
        assert hub is not None
        made: list[dict[str, str]] = []

        def note(_: PlaneStore, table: Table, event: StoreEvent) -> None:
            if table.resource == compute.INSTANCES.group_resource:
                made.append(event.after.labels)

        embedded.store.subscribe(note)
        signals = InstanceSignals(env, None, quota=False)
        await WriteBack("dfw", signals).ensure_copy(hub, instance)

        assert made
        assert labels.items() <= made[0].items()


async def _corrected(metadata: dict[str, Any]) -> tuple[bool, Object]:
    """Whether a second write-back succeeds after this change of the copy, which the cell's watch
    has not delivered, and the copy afterwards."""
    env = SimulatedEnvironment()
    async with embedded_server(env) as embedded:
        hub_client = embedded.client("hub")
        await deployment_on(hub_client)
        instance = await instance_in(embedded.client("cell/dfw"))
        past = CacheHistory()
        for resource in KNOWN:
            past.declare("hub", resource)
        hub = past.view("hub", 0, hub_client, env).get("hub")
        assert hub is not None
        write_back = WriteBack("dfw", InstanceSignals(env, None, quota=False))
        assert await write_back.ensure_copy(hub, instance), "the first has made it"
        change = merge({"metadata": metadata})
        await hub_client.patch(compute.INSTANCES, instance.name, change, NAMESPACE)
        done = await write_back.ensure_copy(hub, instance)
        return done, await hub_client.get(compute.INSTANCES, instance.name, NAMESPACE)


async def test_a_copy_whose_name_another_cell_has_on_the_hub_is_retried() -> None:
    """There may be no further event that enqueues the Instance."""
    taken = {
        "labels": {compute.LABEL_SOURCE_CLUSTER: "lhr"},
        "annotations": {compute.ANNOTATION_INSTANCE_UID: "another"},
    }

    done, copy = await _corrected(taken)

    assert not done
    assert copy.metadata.labels[compute.LABEL_SOURCE_CLUSTER] == "lhr"


async def test_a_copy_that_lost_its_cell_and_hence_the_watch_is_found_and_corrected() -> None:
    done, copy = await _corrected({"labels": {compute.LABEL_SOURCE_CLUSTER: None}})

    assert done
    assert copy.metadata.labels[compute.LABEL_SOURCE_CLUSTER] == "dfw"
