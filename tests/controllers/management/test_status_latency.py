"""Lesson 9: a federator that watched only its own plane showed a status ten hours late.

So: watch the downstream object whose status you mirror.
"""

from __future__ import annotations

import asyncio

from datum_compute.api.compute import v1alpha as compute
from datum_compute.controllers.management.federation import federator
from tests.support.client.intercepted_transport import NO_NEW_WATCHES
from tests.support.controllers.federation import given_binding
from tests.support.controllers.planes import (
    NAMESPACE,
    ControllerPlanes,
    controller_planes,
    counters,
    deployment,
    report,
)
from tests.support.objects import until

DEPLOYMENTS = compute.WORKLOAD_DEPLOYMENTS
NAME = "web-main-dfw"


async def _report_ready(w: ControllerPlanes, ready: int) -> None:
    await report(
        w.hub,
        w.hub_namespace,
        NAME,
        replicas=3,
        updatedReplicas=3,
        readyReplicas=ready,
        desiredReplicas=3,
        observedGeneration=1,
    )


async def _shown(w: ControllerPlanes, ready: int, *, within: float) -> None:
    await until(
        w.project,
        DEPLOYMENTS,
        NAME,
        NAMESPACE,
        lambda obj: counters(obj) == (3, 3, ready, 3),
        within=within,
    )


async def test_lesson_09_every_report_on_the_hub_reaches_the_project_within_a_second() -> None:
    """Nothing happens on the project plane meanwhile that could enqueue the deployment."""
    async with controller_planes() as w, w.running(federator(w.projects(), w.hub_fleet(), w.env)):
        await w.project.create(DEPLOYMENTS, deployment(NAME, replicas=3), NAMESPACE)
        await given_binding(w, "dfw")
        for ready in (1, 2, 3, 2):
            await asyncio.sleep(3600)
            await _report_ready(w, ready)
            await _shown(w, ready, within=1.0)


async def test_lesson_09_a_report_made_while_the_hub_was_unreachable_is_not_lost() -> None:
    async with controller_planes() as w:
        hub_client, link = w.linked("hub")
        async with w.running(federator(w.projects(), w.hub_fleet(hub_client), w.env)):
            await w.project.create(DEPLOYMENTS, deployment(NAME, replicas=3), NAMESPACE)
            await given_binding(w, "dfw")
            await _report_ready(w, 1)
            await _shown(w, 1, within=1.0)
            link.rules.append(NO_NEW_WATCHES)
            await asyncio.sleep(900)  # longer than a watch lasts, so that none is open
            await _report_ready(w, 3)
            link.rules.clear()

            await _shown(w, 3, within=60.0)
