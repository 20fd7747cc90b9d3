"""Lesson 19: ``Ready`` said "not programmed" while another condition knew that the image could not
be pulled.

So: Ready takes over the condition that explains most, Unknown ones included.
"""

from __future__ import annotations

import pytest

from tests.controllers.cell_instances import (
    answer,
    controller,
    create,
    given,
    on_hub,
    provider_says,
    shows,
)
from tests.controllers.harness import message, world


@pytest.mark.parametrize("status", ["False", "Unknown"])
@pytest.mark.parametrize("reason", ["ImageUnavailable", "InstanceCrashing", "ConfigurationError"])
async def test_lesson_19_the_cause_is_told_instead_of_not_programmed(
    status: str, reason: str
) -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            await answer(w)
            await shows(w, ("Ready", "False", "PendingProgramming"))
            await provider_says(w, "Programmed", "False", "PendingProgramming")
            await provider_says(w, "Available", status, reason)
            told = await shows(w, ("Ready", status, reason))
            assert message(told, "Ready") == "said by the test"
            await on_hub(w, ("Ready", status, reason))


async def test_lesson_19_a_network_that_failed_explains_more_than_an_image() -> None:
    """Highest priority wins, in whatever order they stand."""
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            await answer(w)
            for type_, reason in (
                ("NetworkReady", "NetworkFailedToCreate"),
                ("Available", "ImageUnavailable"),
                ("Started", "Provisioning"),
            ):
                await provider_says(w, type_, "False", reason)
            await shows(w, ("Ready", "False", "NetworkFailedToCreate"))
            await provider_says(w, "NetworkReady", "True", "Ready")
            await shows(w, ("Ready", "False", "ImageUnavailable"))
