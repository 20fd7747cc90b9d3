"""Lesson 4: an Instance that missed the event of its grant waited for ever.

So: while quota is pending an Instance is looked at again, ever more seldom, and the watch is only
the fast path.
"""

from __future__ import annotations

import pytest

from tests.controllers.cell_instances import GRANTED, answer, controller, create, given, shows
from tests.controllers.harness import settle, world


@pytest.mark.parametrize(
    ("age", "tier"), [(10, 1.0), (100, 15.0), (400, 60.0), (1200, 300.0), (7200, 300.0)]
)
async def test_lesson_04_a_grant_nobody_told_of_is_found_within_the_tier(
    age: float, tier: float
) -> None:
    async with world() as w:
        await given(w)
        client, link = w.linked("project/demo")
        link.deaf = True  # no watch opens, so nothing but asking again can find the answer
        async with w.running(controller(w, project=client)):
            await create(w)
            await shows(w, ("Ready", "False", "SchedulingGatesPresent"), gates="Quota")
            await settle(age)
            await answer(w)
            await shows(w, GRANTED, within=tier + 1.0)
