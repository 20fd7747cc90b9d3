"""Lesson 15: Instances were written back to the hub only when their status changed, so those that
waited at a gate were invisible.

So: they are compared and written back in every reconcile.
"""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from tests.support.controllers.cell_instances import (
    DEPLOYMENT,
    NAME,
    controller,
    create,
    until_hub_copy_shows,
    until_instance_shows,
)
from tests.support.controllers.planes import controller_planes, deployment, given_namespace, settle
from tests.support.objects import find

GATED = ("Ready", "False", "SchedulingGatesPresent")


async def test_lesson_15_a_gated_instance_is_copied_to_the_hub_without_a_status_change() -> None:
    async with controller_planes() as w:
        for client in (w.hub, w.cell):
            await given_namespace(client, w.hub_namespace)
        async with w.running(controller(w)):
            await create(w)
            before = await until_instance_shows(w, GATED, gates="Quota")
            await settle(3600)
            # There is no owner for a copy yet, and the status was written long ago.
            assert await find(w.hub, compute.INSTANCES, NAME, w.hub_namespace) is None

            body = deployment(DEPLOYMENT)
            await w.hub.create(compute.WORKLOAD_DEPLOYMENTS, body, w.hub_namespace)
            copy = await until_hub_copy_shows(w, GATED)
            after = await until_instance_shows(w, GATED, gates="Quota")
            assert after.metadata.resource_version == before.metadata.resource_version

            await settle(24 * 3600)
            same = await until_hub_copy_shows(w, GATED)
            assert same.metadata.resource_version == copy.metadata.resource_version
