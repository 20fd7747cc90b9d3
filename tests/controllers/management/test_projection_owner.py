"""Lesson 13: the owner of a projection was searched by a UID of another plane and never found, so
projections leaked.

So: the owner is found by name in the project, owner references come from the live object there,
and without an owner nothing is projected.
"""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.apiserver.storage.protocol import PlaneStore, StoreEvent, Table
from tests.support.controllers.planes import (
    NAMESPACE,
    ControllerPlanes,
    controller_planes,
    given_namespace,
    settle,
)
from tests.support.controllers.projections import (
    DEPLOYMENT,
    NAME,
    controller,
    given_hub_instance,
    given_owner,
    projection,
)
from tests.support.objects import find, until_gone


def _ownerless(w: ControllerPlanes) -> list[str]:
    """Projections that are stored without an owner, from now on."""
    found: list[str] = []

    def changed(plane: PlaneStore, table: Table, event: StoreEvent) -> None:
        shown = plane.name == "project/demo" and table.resource == compute.INSTANCES.group_resource
        if shown and not event.deleted and not event.after.owners:
            found.append(event.after.name)

    w.embedded.store.subscribe(changed)
    return found


async def test_lesson_13_the_owner_is_the_live_object_of_that_name_in_the_project() -> None:
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        owner = await given_owner(w)
        ownerless = _ownerless(w)
        async with w.running(controller(w)):
            source = await given_hub_instance(w)
            shown = await projection(w)

            label = compute.LABEL_WORKLOAD_DEPLOYMENT_UID
            assert source.metadata.labels[label] != owner.metadata.uid
            assert shown.metadata.labels[label] == owner.metadata.uid
            assert [each.uid for each in shown.metadata.owner_references] == [owner.metadata.uid]

            # A dependent is garbage-collected with its owner.
            await w.project.delete(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, NAMESPACE)
            await until_gone(w.project, compute.INSTANCES, NAME, NAMESPACE)
        assert ownerless == []


async def test_lesson_13_nothing_is_projected_without_an_owner_however_long_it_takes() -> None:
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        async with w.running(controller(w)):
            await given_hub_instance(w)
            await settle(3600)
            assert await find(w.project, compute.INSTANCES, NAME, NAMESPACE) is None

            owner = await given_owner(w)
            shown = await projection(w)
            assert [each.uid for each in shown.metadata.owner_references] == [owner.metadata.uid]
