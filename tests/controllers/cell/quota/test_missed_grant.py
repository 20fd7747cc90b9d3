"""Lesson 4: an Instance that missed the event of its grant waited for ever.

So: while quota is pending an Instance is requeued at growing intervals, and the watch is only the
fast path.
"""

from __future__ import annotations

import pytest

from tests.support.client.intercepted_transport import NO_NEW_WATCHES
from tests.support.controllers.cell_instances import (
    GRANTED,
    answer_claim,
    controller,
    create,
    create_prerequisites,
    until_instance_shows,
)
from tests.support.controllers.planes import controller_planes, settle


@pytest.mark.parametrize(
    ("age", "tier"), [(0, 1.0), (10, 1.0), (100, 15.0), (400, 60.0), (1200, 300.0), (7200, 300.0)]
)
async def test_lesson_04_a_grant_without_an_event_is_found_within_the_tier(
    age: float, tier: float
) -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        client, link = w.linked("project/demo")
        link.rules.append(NO_NEW_WATCHES)  # so only a requeue can find the answer
        async with w.running(controller(w, project=client)):
            await create(w)
            await until_instance_shows(
                w, ("Ready", "False", "SchedulingGatesPresent"), gates="Quota"
            )
            await settle(age)
            await answer_claim(w)
            await until_instance_shows(w, GRANTED, within=tier + 1.0)
