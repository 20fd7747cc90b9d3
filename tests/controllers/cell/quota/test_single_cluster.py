"""Lesson 8: in single mode an event of a claim was enqueued under its project's name, which is no
cluster of a cell; and a claim without references crashed the handler.

So: a cell's cluster is always ``single``, and a claim that leads nowhere is ignored.
"""

from __future__ import annotations

from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.quota import v1alpha1 as quota
from tests.support.controllers.cell_instances import (
    GRANTED,
    answer_claim,
    controller,
    create,
    create_prerequisites,
    until_instance_shows,
)
from tests.support.controllers.planes import (
    NAMESPACE,
    ControllerPlanes,
    controller_planes,
    set_condition,
    settle,
)

OURS = {compute.LABEL_SOURCE_CLUSTER: "dfw"}


async def _claim(w: ControllerPlanes, name: str, labels: dict[str, str], **spec: Any) -> None:
    requests = [{"resourceType": "compute.datumapis.com/instances", "amount": 1}]
    body = {
        "metadata": {"name": name, "labels": labels},
        "spec": {"requests": requests, "resourceRef": {"kind": "Project", "name": "demo"}, **spec},
    }
    claim = await w.project.create(quota.RESOURCE_CLAIMS, body, NAMESPACE)
    await set_condition(w, w.project, quota.RESOURCE_CLAIMS, claim, "Granted")


async def test_lesson_08_a_claim_of_any_project_enqueues_the_cells_own_cluster() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        running = controller(w)
        async with w.running(running):
            await create(w)
            await settle(1300)
            await answer_claim(w)
            await until_instance_shows(w, GRANTED, within=1.0)

            assert running.statistics().dropped_unengaged == 0


async def test_lesson_08_claims_without_an_instance_are_ignored() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        running = controller(w)
        async with w.running(running):
            await settle(10)
            before = running.statistics()
            await _claim(w, "instance-without-namespace", OURS)
            await _claim(w, "of-no-instance", OURS | {compute.LABEL_INSTANCE_NAMESPACE: "ns-1"})
            await settle(600)
            after = running.statistics()

            assert (after.runs, after.errors) == (before.runs, 0)
            assert (after.mapping_errors, after.dropped_empty, after.dropped_unengaged) == (0, 0, 0)
            await create(w)
            await answer_claim(w)
            await until_instance_shows(w, GRANTED)
