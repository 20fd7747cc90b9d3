"""Lesson 2: the watch of claims enqueued the Project a claim refers to, not its Instance.

So: a claim maps to its Instance by the label ``instance-namespace`` and by its name.
"""

from __future__ import annotations

import json

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.controllers.cell.instance.quota import deployment_keys_of_claim
from tests.support.controllers.cell_instances import (
    DEPLOYMENT,
    GRANTED,
    answer_claim,
    claim_of,
    controller,
    create,
    create_prerequisites,
    until_instance_shows,
)
from tests.support.controllers.planes import NAMESPACE, controller_planes, set_condition, settle
from tests.support.objects import find, until


@pytest.mark.parametrize("age", [660, 1300])
async def test_lesson_02_an_answered_claim_enqueues_only_its_instance(age: float) -> None:
    async with controller_planes() as w:
        await create_prerequisites(w, replicas=2)
        running = controller(w)
        async with w.running(running):
            await create(w)
            await create(w, ordinal=1)
            await claim_of(w, f"instance-{DEPLOYMENT}-1")
            # By now the safety requeue takes a minute, or five; only the watch is quick.
            await settle(age)
            await answer_claim(w)
            await until_instance_shows(w, GRANTED, within=1.0)

            other = await w.cell.get(compute.INSTANCES, f"{DEPLOYMENT}-1", w.hub_namespace)
            assert other.view(compute.Instance).gates == (compute.GATE_QUOTA,)
            found = running.statistics()
            assert (found.dropped_empty, found.dropped_unengaged, found.errors) == (0, 0, 0)


async def test_lesson_02_a_claim_maps_to_its_instance_in_another_namespace() -> None:
    """The claim lies in the project's namespace, the Instance in the cell's."""
    async with controller_planes() as w:
        await create_prerequisites(w)
        async with w.running(controller(w)):
            await create(w)
            claim = await claim_of(w)
            assert claim.namespace == NAMESPACE != w.hub_namespace
            assert claim.metadata.labels[compute.LABEL_INSTANCE_NAMESPACE] == w.hub_namespace
            await settle(1300)
            await set_condition(w, w.project, quota.RESOURCE_CLAIMS, claim, "Granted")
            await until(
                w.cell,
                compute.INSTANCES,
                f"{DEPLOYMENT}-0",
                w.hub_namespace,
                lambda obj: not obj.view(compute.Instance).gates,
                within=1.0,
            )
            assert await find(w.cell, compute.INSTANCES, claim.name, NAMESPACE) is None


def test_a_claim_is_found_by_its_own_deployment_only() -> None:
    """A change of a deployment reads no claims of others, however many the namespace has."""
    labels = {compute.LABEL_INSTANCE_NAMESPACE: "ns-1"}
    keys = [
        deployment_keys_of_claim(
            Object.from_wire(json.dumps({"metadata": {"name": name, "labels": labels}}).encode())
        )
        for name in ("instance-web-dfw-0", "instance-web-dfw-10", "instance-web-dfw-b-0")
    ]
    assert keys == [["ns-1/web-dfw"], ["ns-1/web-dfw"], ["ns-1/web-dfw-b"]]
