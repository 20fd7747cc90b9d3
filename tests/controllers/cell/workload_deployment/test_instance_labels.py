"""Lesson 14: labels were written on create and on a new template only, so an Instance that never
became Ready never got those a later release added.

So: labels are corrected in every reconcile, outside the order of actions, and nothing else is
touched.
"""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import values
from tests.support.controllers.cell_deployments import (
    ONE,
    ZERO,
    controller,
    given,
)
from tests.support.controllers.planes import controller_planes, report_serving, settle
from tests.support.objects import until, until_names


async def test_lesson_14_unready_instances_get_their_labels() -> None:
    async with controller_planes() as w:
        await given(w, 3)
        async with w.running(controller(w)):
            await until_names(w.cell, compute.INSTANCES, ZERO)
            await report_serving(w, ZERO)
            await until_names(w.cell, compute.INSTANCES, ZERO, ONE)
            # The first is Ready, the next never is: the order of actions waits for it.
            before = {each.name: each for each in (await w.cell.list(compute.INSTANCES)).items}
            for name in (ZERO, ONE):
                labels = {compute.LABEL_CITY_CODE: None, compute.LABEL_WORKLOAD_NAME: "old"}
                body = {"metadata": {"labels": {**labels, "theirs": "yes"}}}
                await w.cell.patch(compute.INSTANCES, name, merge(body), w.hub_namespace)
            for name in (ZERO, ONE):
                healed = await until(
                    w.cell,
                    compute.INSTANCES,
                    name,
                    w.hub_namespace,
                    lambda obj: obj.metadata.labels.get(compute.LABEL_CITY_CODE) == "DFW",
                )
                assert healed.metadata.labels == {**before[name].metadata.labels, "theirs": "yes"}
                assert healed.metadata.uid == before[name].metadata.uid
                assert healed.metadata.generation == before[name].metadata.generation
                assert values(healed.spec) == values(before[name].spec)
            await settle(60)
            await until_names(w.cell, compute.INSTANCES, ZERO, ONE)
