"""Objects that an older release wrote, or a newer one: they are completed, kept, and not rolled.

Each test lets a federation settle, stops our managers, makes the objects into what another
release would have left, and starts the managers anew. In the end everything there is must be
as it was at first, and no Instance may have been replaced or have been unready meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from datum_compute.api import core, karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.apiserver.storage.protocol import PlaneStore, StoreEvent, Table
from datum_compute.client.protocol import json_patch, merge
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.expectations import eventually
from tests.support.federation.crash_scenarios import difference
from tests.support.federation.crashes import snapshot
from tests.support.federation.stage import Stage, stage
from tests.support.simulation.platform import (
    apply,
    cell_planes,
    list_on_planes,
    missing_for_image,
    workload,
)

PROJECT = "project/demo"
PLANES = (PROJECT, "hub", "cell/dfw", "cell/lhr")
IMAGE = "acme/web:1"

Older = Callable[[Stage], Awaitable[None]]


async def each(on: Stage, resource: Resource, *planes: str) -> list[tuple[str, Object]]:
    return [(plane, obj) for plane in planes for obj in await list_on_planes(on, resource, plane)]


async def without_labels(on: Stage) -> None:
    """Only the labels of the first release: the deployment and the ordinal."""
    kept = (compute.LABEL_WORKLOAD_DEPLOYMENT_UID, compute.LABEL_INSTANCE_INDEX)
    for plane, obj in await each(on, compute.INSTANCES, *cell_planes(on)):
        await strip(on, plane, compute.INSTANCES, obj, "labels", keep=kept)


async def without_numbers(on: Stage) -> None:
    """The ordinal is in the name as well."""
    kept = (compute.LABEL_WORKLOAD_DEPLOYMENT_UID,)
    for plane, obj in await each(on, compute.INSTANCES, *cell_planes(on)):
        await strip(on, plane, compute.INSTANCES, obj, "labels", keep=kept)


async def without_names_of_deployments(on: Stage) -> None:
    """On copies, which were once joined by the names of Instances."""
    gone = (
        compute.LABEL_WORKLOAD_DEPLOYMENT_NAME,
        compute.LABEL_WORKLOAD_NAME,
        compute.LABEL_PLACEMENT_NAME,
        compute.LABEL_CITY_CODE,
    )
    for plane, obj in await each(on, compute.INSTANCES, "hub", PROJECT):
        kept = set(obj.metadata.labels) - set(gone)
        await strip(on, plane, compute.INSTANCES, obj, "labels", keep=tuple(kept))


async def without_annotations(on: Stage) -> None:
    """Of the instance uid, the generation and the hub location."""
    for resource in (compute.INSTANCES, compute.WORKLOAD_DEPLOYMENTS):
        for plane, obj in await each(on, resource, "hub", PROJECT):
            ours = {key for key in obj.metadata.annotations if "compute.datumapis.com" in key}
            kept = set(obj.metadata.annotations) - ours
            await strip(on, plane, resource, obj, "annotations", keep=tuple(kept))


async def without_finalizers(on: Stage) -> None:
    for resource in (compute.WORKLOADS, compute.WORKLOAD_DEPLOYMENTS, compute.INSTANCES):
        planes = (PROJECT,) if resource == compute.WORKLOADS else PLANES
        for plane, obj in await each(on, resource, *planes):
            others = [each for each in obj.metadata.finalizers if each.startswith("simulated")]
            body = merge({"metadata": {"finalizers": others}})
            await on.client(plane).patch(resource, obj.name, body, obj.namespace)


async def without_conditions_of_the_federator(on: Stage) -> None:
    for plane, obj in await each(on, compute.WORKLOAD_DEPLOYMENTS, PROJECT):
        own = ("CellReachable", "Scheduled")
        stated = values(obj.status)["conditions"]
        kept = [condition for condition in stated if condition["type"] not in own]
        body = merge({"status": {"conditions": kept}})
        await on.client(plane).patch(
            compute.WORKLOAD_DEPLOYMENTS, obj.name, body, obj.namespace, subresource="status"
        )


async def without_spread(on: Stage) -> None:
    for plane, obj in await each(on, karmada.PROPAGATION_POLICIES, "hub"):
        body = merge({"spec": {"placement": {"spreadConstraints": None}}})
        await on.client(plane).patch(karmada.PROPAGATION_POLICIES, obj.name, body, obj.namespace)


async def strip(
    on: Stage, plane: str, resource: Resource, obj: Object, field: str, *, keep: tuple[str, ...]
) -> None:
    found: dict[str, str] = getattr(obj.metadata, field)
    body = merge({"metadata": {field: {key: None for key in found if key not in keep}}})
    await on.client(plane).patch(resource, obj.name, body, obj.namespace)


OLDER: list[Older] = [
    without_labels,
    without_numbers,
    without_names_of_deployments,
    without_annotations,
    without_finalizers,
    without_conditions_of_the_federator,
    without_spread,
]


async def deployed(on: Stage) -> None:
    await apply(on, workload(IMAGE, 2))
    await eventually("deployed", lambda: missing_for_image(on, IMAGE, 4))
    await asyncio.sleep(120)


async def uids(on: Stage) -> dict[str, str]:
    found = await list_on_planes(on, compute.INSTANCES, *cell_planes(on))
    return {obj.name: obj.metadata.uid for obj in found}


def note_unready(on: Stage) -> list[str]:
    """Instances in cells that were unready at any moment from now on."""
    noted: list[str] = []

    def changed(plane: PlaneStore, table: Table, event: StoreEvent) -> None:
        cell = plane.name.startswith("cell/")
        if cell and table.resource == compute.INSTANCES.group_resource:
            obj = Object.from_wire(event.after.raw)
            if event.deleted or not obj.view(compute.Instance).ready:
                noted.append(f"{plane.name} {obj.name}")

    on.platform.store.subscribe(changed)
    return noted


@pytest.mark.long
@pytest.mark.parametrize("older", OLDER, ids=lambda each: each.__name__)
async def test_fields_missing_from_an_older_release_are_added_without_a_roll(older: Older) -> None:
    async with stage() as on:
        await deployed(on)
        before, running = snapshot(on.platform.store), await uids(on)
        unready = note_unready(on)
        on.stop(*on.controllers)
        await older(on)
        assert difference(before, snapshot(on.platform.store)), "it makes a difference"
        await on.start(*on.controllers)
        await asyncio.sleep(300)
        assert await uids(on) == running
        assert unready == []
        assert difference(before, snapshot(on.platform.store)) == ""
        assert await on.written_in(3600.0, after=300) == []


async def test_all_missing_fields_are_added_at_once_without_a_roll() -> None:
    async with stage() as on:
        await deployed(on)
        before, running = snapshot(on.platform.store), await uids(on)
        unready = note_unready(on)
        on.stop(*on.controllers)
        for older in OLDER:
            await older(on)
        await on.start(*on.controllers)
        await asyncio.sleep(300)
        assert await uids(on) == running
        assert unready == []
        assert difference(before, snapshot(on.platform.store)) == ""


# Other schemas.

CONTAINER = (
    "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/template/properties"
    "/spec/properties/runtime/properties/sandbox/properties/containers/items/properties"
)
"""Where the fields of a container are in the schema of a WorkloadDeployment."""
INSTANCE = CONTAINER.replace("/template/properties/spec/properties", "")


async def set_schema(on: Stage, plane: str, kind: Resource, operation: dict[str, Any]) -> None:
    where = INSTANCE if kind == compute.INSTANCES else CONTAINER
    path = {"path": f"{where}/{operation['field']}"}
    kept = {key: value for key, value in operation.items() if key != "field"}
    await on.client(plane).patch(
        core.CUSTOM_RESOURCE_DEFINITIONS, kind.group_resource, json_patch([{**kept, **path}])
    )


async def given_schema(on: Stage, planes: tuple[str, ...], **operation: Any) -> None:
    for plane in planes:
        kinds = [compute.WORKLOAD_DEPLOYMENTS, compute.INSTANCES]
        for kind in (*kinds, *([compute.WORKLOADS] if plane == PROJECT else [])):
            await set_schema(on, plane, kind, operation)
    await asyncio.sleep(5)


def with_container(**fields: Any) -> dict[str, Any]:
    body = workload(IMAGE, 2)
    body["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0] |= fields
    return body


async def containers(on: Stage, resource: Resource, *planes: str) -> list[dict[str, Any]]:
    found = []
    for _, obj in await each(on, resource, *planes):
        spec = values(obj.spec)
        spec = spec["template"]["spec"] if resource == compute.WORKLOAD_DEPLOYMENTS else spec
        found += spec["runtime"]["sandbox"]["containers"]
    return found


async def test_planes_that_drop_an_unknown_field_are_not_written_again() -> None:
    """The centre has this release's schema, hub and cells that of an older one."""
    async with stage() as on:
        await given_schema(on, PLANES[1:], op="remove", field="env")
        await apply(on, with_container(env=[{"name": "A", "value": "1"}]))
        await eventually("deployed", lambda: missing_for_image(on, IMAGE, 4))
        assert not any(
            "env" in one for one in await containers(on, compute.INSTANCES, *cell_planes(on))
        )
        assert await on.written_in(3600.0, after=120) == []
        running, before = await uids(on), on.writes()
        await on.restart(*on.controllers)
        await asyncio.sleep(600)
        assert await uids(on) == running
        again = on.writes()
        await on.restart(*on.controllers)
        await asyncio.sleep(600)
        assert await uids(on) == running
        assert on.writes() == again, "a dropped field is not written for ever"
        hub = compute.WORKLOAD_DEPLOYMENTS.group_resource
        assert again.get(hub, 0) - before.get(hub, 0) <= 2, "at most one try for each copy"


async def test_a_field_of_a_newer_release_is_copied_and_kept() -> None:
    async with stage() as on:
        await given_schema(on, PLANES, op="add", field="novelty", value={"type": "string"})
        await apply(on, with_container(novelty="shiny"))
        await eventually("deployed", lambda: missing_for_image(on, IMAGE, 4))
        for resource in (compute.WORKLOAD_DEPLOYMENTS, compute.INSTANCES):
            found = await containers(on, resource, *PLANES)
            assert found
            assert all(one["novelty"] == "shiny" for one in found), resource
        await asyncio.sleep(60)
        running, before = await uids(on), on.writes()
        await on.restart(*on.controllers)
        await asyncio.sleep(600)
        assert await uids(on) == running
        assert on.writes() == before
        await apply(on, with_container(novelty="shinier"))
        await asyncio.sleep(120)
        assert not running.items() & (await uids(on)).items(), "another template"
