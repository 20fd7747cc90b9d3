"""Lesson 18: a condition ``Running`` was False for an Instance that sleeps until traffic arrives,
and misled users.

So: ``Available`` counts, with a reason for sleeping Instances; a leftover ``Running`` is ignored.
"""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import merge
from datum_compute.providers.simulated.behaviour import SLEEP_AFTER_SECONDS
from tests.support.cli.session import cli_session
from tests.support.controllers.cell_instances import (
    answer_claim,
    controller,
    create,
    create_prerequisites,
    set_provider_condition,
    until_hub_copy_shows,
    until_instance_shows,
)
from tests.support.controllers.planes import controller_planes, settle


async def test_lesson_18_a_stale_running_condition_changes_nothing() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w)
            await set_provider_condition(w, "Running", "False", "InstanceCrashing")
            await until_instance_shows(w, ("Ready", "False", "PendingProgramming"))
            await set_provider_condition(w, "Programmed", "True", "Programmed")
            await set_provider_condition(w, "Available", "True", "Available")
            await until_instance_shows(w, ("Ready", "True", "Available"))
            await set_provider_condition(w, "Running", "False", "Asleep")
            await settle(60)
            await until_instance_shows(w, ("Ready", "True", "Available"))
            await until_hub_copy_shows(w, ("Ready", "True", "Available"))


def test_lesson_18_a_sleeping_instance_is_available_without_a_running_condition() -> None:
    with cli_session("DFW") as at:
        assert at.run("deploy web --image acme/web:1 --city DFW --min 1 --yes").code == 0
        [found] = at.act(at.client().list(compute.WORKLOADS)).items
        body = {"spec": {"template": {"metadata": {"annotations": {SLEEP_AFTER_SECONDS: "5"}}}}}
        at.act(at.client().patch(compute.WORKLOADS, found.name, merge(body), "default"))
        at.wait(120)
        [instance] = at.act(at.client().list(compute.INSTANCES)).items
        view = instance.view(compute.Instance)
        reported = {each.type: (each.status, each.reason) for each in view.status.conditions}

        assert reported["Available"][0] == reported["Ready"][0] == "True"
        assert reported["Available"][1] != "Available", "the reason reports that it sleeps"
        assert "Running" not in reported
        assert "Running" not in at.run("instances").out
