"""Lesson 6: the tiers were counted from the condition's transition time, which is 1970 until
it is first written and never moves while the status stays Unknown.

So: they are counted from the creation of the Instance.
"""

from __future__ import annotations

from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import merge
from tests.support.client.intercepted_transport import CUT, NO_NEW_WATCHES
from tests.support.controllers.cell_instances import (
    GRANTED,
    NAME,
    answer_claim,
    controller,
    create,
    create_prerequisites,
    until_instance_shows,
)
from tests.support.controllers.planes import controller_planes, settle


def _pending_since(moment: str) -> dict[str, Any]:
    return {
        "type": "QuotaGranted",
        "status": "Unknown",
        "reason": "PendingEvaluation",
        "message": "Waiting for quota evaluation",
        "lastTransitionTime": moment,
    }


async def test_lesson_06_the_age_of_a_new_instance_ignores_its_condition_times() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        client, link = w.linked("project/demo")
        link.rules.append(NO_NEW_WATCHES)
        await create(w)
        status = {"conditions": [_pending_since("1970-01-01T00:00:00Z")]}
        await w.cell.patch(
            compute.INSTANCES,
            NAME,
            merge({"status": status}),
            w.hub_namespace,
            subresource="status",
        )
        async with w.running(controller(w, project=client)):
            await settle(5)
            await answer_claim(w)
            await until_instance_shows(w, GRANTED, within=2.0)


async def test_lesson_06_an_old_instance_is_not_requeued_every_second() -> None:
    """Its condition changes all the time; its age does not depend on it."""
    async with controller_planes() as w:
        await create_prerequisites(w)
        client, link = w.linked("project/demo")
        link.rules.append(NO_NEW_WATCHES)
        running = controller(w, project=client)
        async with w.running(running):
            await create(w)
            await settle(1000)
            link.rules.append(CUT)  # a new reason, hence a new transition time
            await settle(400)
            link.rules.remove(CUT)
            await settle(400)
            before = running.statistics().runs
            await settle(3000)

        assert running.statistics().runs - before <= 12
