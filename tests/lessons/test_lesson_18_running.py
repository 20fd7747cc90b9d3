"""Lesson 18: a condition ``Running`` was False for what sleeps until it is asked for, and misled.

So: what counts is ``Available``; asleep is a reason of it, and a ``Running`` of old is ignored.
"""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import merge
from datum_compute.providers.simulated.behaviour import SLEEP_AFTER_SECONDS
from tests.controllers.cell_instances import (
    answer,
    controller,
    create,
    given,
    on_hub,
    provider_says,
    shows,
)
from tests.controllers.harness import settle, world
from tests.golden.desk import desk


async def test_lesson_18_a_stale_running_condition_changes_nothing() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            await answer(w)
            await provider_says(w, "Running", "False", "InstanceCrashing")
            await shows(w, ("Ready", "False", "PendingProgramming"))
            await provider_says(w, "Programmed", "True", "Programmed")
            await provider_says(w, "Available", "True", "Available")
            await shows(w, ("Ready", "True", "Available"))
            await provider_says(w, "Running", "False", "Asleep")
            await settle(60)
            await shows(w, ("Ready", "True", "Available"))
            await on_hub(w, ("Ready", "True", "Available"))


def test_lesson_18_what_sleeps_is_available_and_nobody_says_running() -> None:
    with desk("DFW") as at:
        assert at.run("deploy web --image acme/web:1 --city DFW --min 1 --yes").code == 0
        [found] = at.act(at.client().list(compute.WORKLOADS)).items
        body = {"spec": {"template": {"metadata": {"annotations": {SLEEP_AFTER_SECONDS: "5"}}}}}
        at.act(at.client().patch(compute.WORKLOADS, found.name, merge(body), "default"))
        at.wait(120)
        [instance] = at.act(at.client().list(compute.INSTANCES)).items
        view = instance.view(compute.Instance)
        said = {each.type: (each.status, each.reason) for each in view.status.conditions}

        assert said["Available"][0] == said["Ready"][0] == "True"
        assert said["Available"][1] != "Available", "that it sleeps is told by the reason"
        assert "Running" not in said
        assert "Running" not in at.run("instances").out
