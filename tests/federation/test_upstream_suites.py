"""The federation as its users see it, suite by suite, with every process running.

Named after the suites of the system these planes belong to.
"""

from __future__ import annotations

import asyncio

from datum_compute.api.compute import v1alpha as compute
from datum_compute.apiserver.storage.protocol import PlaneStore, StoreEvent, Table
from datum_compute.client.protocol import merge
from datum_compute.testing.expectations import eventually
from tests.support.federation import upstream_suites as suites
from tests.support.federation.stage import NAMESPACE, stage
from tests.support.federation.upstream_suites import DEPLOYMENTS, NAME, hub_copy
from tests.support.objects import find
from tests.support.simulation.platform import (
    apply,
    list_on_planes,
    missing_for_image,
    workload,
)

CELL_OPERATOR = "compute-cell-dfw"


async def test_workload_deployment_federation() -> None:
    async with stage() as on:
        await suites.workload_deployment_federation(on)


async def test_deletion_cascade() -> None:
    async with stage() as on:
        await suites.deletion_cascade(on)


async def test_propagation_policy_lifecycle() -> None:
    async with stage() as on:
        await suites.propagation_policy_lifecycle(on)


async def test_instance_projection() -> None:
    async with stage() as on:
        await suites.instance_projection(on)


async def test_instance_writeback() -> None:
    async with stage() as on:
        await suites.instance_writeback(on)


async def test_full_federation() -> None:
    async with stage() as on:
        await suites.full_federation(on)


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
    async with stage() as on:
        await suites.federation_reclaim_without_cell(on)


async def test_federation_finalizer_no_wedge() -> None:
    async with stage() as on:
        await suites.federation_finalizer_no_wedge(on)
