"""Lesson 19: ``Ready`` reported "not programmed" while another condition reported that the image
could not be pulled.

So: Ready takes over the reason of highest priority, from Unknown conditions as well.
"""

from __future__ import annotations

import pytest

from tests.support.controllers.cell_instances import (
    answer_claim,
    controller,
    create,
    create_prerequisites,
    set_provider_condition,
    until_hub_copy_shows,
    until_instance_shows,
)
from tests.support.controllers.planes import controller_planes
from tests.support.objects import message


@pytest.mark.parametrize("status", ["False", "Unknown"])
@pytest.mark.parametrize("reason", ["ImageUnavailable", "InstanceCrashing", "ConfigurationError"])
async def test_lesson_19_the_cause_is_reported_instead_of_not_programmed(
    status: str, reason: str
) -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w)
            await until_instance_shows(w, ("Ready", "False", "PendingProgramming"))
            await set_provider_condition(w, "Programmed", "False", "PendingProgramming")
            await set_provider_condition(w, "Available", status, reason)
            reported = await until_instance_shows(w, ("Ready", status, reason))
            assert message(reported, "Ready") == "from the test"
            await until_hub_copy_shows(w, ("Ready", status, reason))


async def test_lesson_19_a_failed_network_takes_priority_over_a_failed_image() -> None:
    """The highest priority wins, whatever the order of the conditions."""
    async with controller_planes() as w:
        await create_prerequisites(w)
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w)
            for type_, reason in (
                ("NetworkReady", "NetworkFailedToCreate"),
                ("Available", "ImageUnavailable"),
                ("Started", "Provisioning"),
            ):
                await set_provider_condition(w, type_, "False", reason)
            await until_instance_shows(w, ("Ready", "False", "NetworkFailedToCreate"))
            await set_provider_condition(w, "NetworkReady", "True", "Ready")
            await until_instance_shows(w, ("Ready", "False", "ImageUnavailable"))
