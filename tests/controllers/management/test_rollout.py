"""The Workload controller carries a rollout out, and goes on after a restart."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client.protocol import merge
from datum_compute.controllers.management.workload import workload_controller
from datum_compute.runtime.writes.patch import values
from tests.support.controllers.planes import (
    NAMESPACE,
    ControllerPlanes,
    condition_value,
    controller_planes,
    counters,
    given_project,
    report,
    settle,
    workload,
)
from tests.support.objects import condition, message, until, until_names

DEPLOYMENTS = compute.WORKLOAD_DEPLOYMENTS
CITIES = ("DFW", "IAD", "LHR")


def name_of(city: str) -> str:
    return f"web-main-{city.lower()}"


def image_of(obj: Object) -> str:
    sandbox = values(obj.spec)["template"]["spec"]["runtime"]["sandbox"]
    image: str = sandbox["containers"][0]["image"]
    return image


async def images(w: ControllerPlanes) -> list[str]:
    found = (await w.project.list(DEPLOYMENTS, NAMESPACE)).items
    return [image_of(each) for each in sorted(found, key=lambda each: each.name)]


async def annotate(w: ControllerPlanes, **notes: Any) -> None:
    entries = {
        f"compute.datumapis.com/{key.replace('_', '-')}": note for key, note in notes.items()
    }
    body = merge({"metadata": {"annotations": entries}})
    await w.project.patch(compute.WORKLOADS, "web", body, NAMESPACE)


async def deploy(w: ControllerPlanes, image: str) -> None:
    spec = {"spec": workload(*CITIES, image=image)["spec"]}
    await w.project.patch(compute.WORKLOADS, "web", merge(spec), NAMESPACE)


async def rolled(w: ControllerPlanes, *cities: str, ready: int = 1, reason: str = "") -> None:
    """The cells of these cities report on the present spec."""
    for city in cities:
        found = await w.project.get(DEPLOYMENTS, name_of(city), NAMESPACE)
        blocked = [condition_value("ReplicasReady", "False", reason)] if reason else []
        await report(
            w.project,
            NAMESPACE,
            name_of(city),
            replicas=1,
            updatedReplicas=1,
            readyReplicas=ready,
            desiredReplicas=1,
            observedGeneration=found.metadata.generation,
            conditions=blocked,
        )


async def until_progressing(w: ControllerPlanes, status: str, reason: str) -> Object:
    return await until(
        w.project,
        compute.WORKLOADS,
        "web",
        NAMESPACE,
        lambda obj: condition(obj, "Progressing") == (status, reason),
    )


async def until_image(w: ControllerPlanes, city: str, image: str) -> Object:
    return await until(
        w.project, DEPLOYMENTS, name_of(city), NAMESPACE, lambda obj: image_of(obj) == image
    )


async def given_complete(w: ControllerPlanes, **policy: Any) -> None:
    waves = {"waves": [["DFW"], ["*"]]}
    await w.project.create(compute.WORKLOADS, workload(*CITIES, image="acme/web:1"))
    await annotate(w, rollout=json.dumps(waves))
    await until_names(w.project, DEPLOYMENTS, *map(name_of, CITIES))
    await rolled(w, *CITIES)
    await until_progressing(w, "True", "Complete")
    await annotate(w, rollout=json.dumps({**waves, **policy}))


async def test_a_template_reaches_cities_wave_by_wave_and_is_counted_only_there() -> None:
    async with controller_planes() as w:
        await given_project(w, *CITIES)
        async with w.running(workload_controller(w.projects(), w.env)):
            await given_complete(w)
            await deploy(w, "acme/web:2")
            found = await until_image(w, "DFW", "acme/web:2")
            state = json.loads(found.metadata.annotations[compute.ANNOTATION_ROLLOUT_STATE])
            assert (state["generation"], state["outcome"], state["readySince"]) == (2, "", "")
            good = json.loads(found.metadata.annotations[compute.ANNOTATION_LAST_GOOD_TEMPLATE])
            containers = good["spec"]["runtime"]["sandbox"]["containers"]
            assert containers[0]["image"] == "acme/web:1"
            seen = await until_progressing(w, "True", "WaveInProgress")
            assert message(seen, "Progressing") == "wave 1 of 2: DFW, 0 of 1 updated"
            assert condition(seen, "Reconciling") == ("True", "WaveInProgress")
            assert await images(w) == ["acme/web:2", "acme/web:1", "acme/web:1"]
            await rolled(w, "DFW")
            await until_image(w, "LHR", "acme/web:2")
            await rolled(w, "IAD", "LHR")
            done = await until_progressing(w, "True", "Complete")
            assert counters(done) == (3, 3, 3, 3)
            types = {each["type"] for each in values(done.status)["conditions"]}
            assert types == {"Available", "Progressing"}


async def given_soaking(w: ControllerPlanes) -> None:
    await given_complete(w, soak="1h")
    await deploy(w, "acme/web:2")
    await until_image(w, "DFW", "acme/web:2")
    await rolled(w, "DFW")
    await until_progressing(w, "True", "Soaking")


async def until_soaked(w: ControllerPlanes) -> None:
    """The second wave opens one hour from now."""
    await asyncio.sleep(3590)
    assert await images(w) == ["acme/web:2", "acme/web:1", "acme/web:1"]
    await asyncio.sleep(15)
    assert await images(w) == ["acme/web:2"] * 3


async def test_a_soak_ends_by_time_alone_and_begins_anew_after_a_restart() -> None:
    async with controller_planes() as w:
        await given_project(w, *CITIES)
        async with w.running(workload_controller(w.projects(), w.env)):
            await given_soaking(w)
            await asyncio.sleep(1800)
        async with w.running(workload_controller(w.projects(), w.env)):
            await until_soaked(w)


async def test_two_controllers_at_once_keep_the_order_of_waves() -> None:
    async with controller_planes() as w:
        await given_project(w, *CITIES)
        first = workload_controller(w.projects(), w.env)
        async with w.running(first), w.running(workload_controller(w.projects(), w.env)):
            await given_soaking(w)
            await until_soaked(w)
            await rolled(w, "IAD", "LHR")
            await asyncio.sleep(3605)
            await until_progressing(w, "True", "Complete")


@pytest.mark.parametrize("hours", [-24, 24])
async def test_a_wall_clock_that_is_set_makes_a_soak_neither_shorter_nor_longer(hours: int) -> None:
    async with controller_planes() as w:
        await given_project(w, *CITIES)
        async with w.running(workload_controller(w.projects(), w.env)):
            await given_soaking(w)
            w.env.start += timedelta(hours=hours)
            await annotate(w, note="wakes the controller")
            await until_soaked(w)


async def test_a_condition_that_others_set_opens_the_gate() -> None:
    async with controller_planes() as w:
        await given_project(w, *CITIES)
        async with w.running(workload_controller(w.projects(), w.env)):
            await given_complete(w, gate="SmokeTestsPassed")
            await deploy(w, "acme/web:2")
            await until_image(w, "DFW", "acme/web:2")
            await rolled(w, "DFW")
            seen = await until_progressing(w, "True", "WaitingForGate")
            gate = condition_value("SmokeTestsPassed", "True", "Passed")
            gate["observedGeneration"] = 2
            status = {"status": {"conditions": [*values(seen.status)["conditions"], gate]}}
            await w.project.patch(
                compute.WORKLOADS, "web", merge(status), NAMESPACE, subresource="status"
            )
            await until_image(w, "LHR", "acme/web:2")
            found = await w.project.get(compute.WORKLOADS, "web", NAMESPACE)
            assert condition(found, "SmokeTestsPassed") == ("True", "Passed")


async def test_a_failed_wave_is_undone_and_recorded_as_an_event() -> None:
    async with controller_planes() as w:
        await given_project(w, *CITIES)
        async with w.running(workload_controller(w.projects(), w.env)):
            await given_complete(w, onFailure="Undo")
            await deploy(w, "acme/web:2")
            await until_image(w, "DFW", "acme/web:2")
            await rolled(w, "DFW", ready=0, reason="InstanceCrashing")
            await until_image(w, "DFW", "acme/web:1")
            seen = await until_progressing(w, "False", "RolledBack")
            assert condition(seen, "Stalled") == ("True", "RolledBack")
            await settle()
            assert await images(w) == ["acme/web:1"] * 3
            assert counters(seen)[1] == 0  # none runs the Workload's template
            assert image_of(seen) == "acme/web:2"  # the spec stays the user's


async def test_a_paused_rollout_moves_nothing_until_it_is_resumed() -> None:
    async with controller_planes() as w:
        await given_project(w, *CITIES)
        async with w.running(workload_controller(w.projects(), w.env)):
            await given_complete(w)
            await annotate(w, rollout_paused="ana, now")
            await deploy(w, "acme/web:2")
            await until_progressing(w, "False", "Paused")
            await asyncio.sleep(3600)
            assert await images(w) == ["acme/web:1"] * 3
            await annotate(w, rollout_paused=None)
            await until_image(w, "DFW", "acme/web:2")


async def test_without_the_policy_nothing_of_it_is_left() -> None:
    async with controller_planes() as w:
        await given_project(w, *CITIES)
        async with w.running(workload_controller(w.projects(), w.env)):
            await given_complete(w)
            await deploy(w, "acme/web:2")
            await until_image(w, "DFW", "acme/web:2")
            await annotate(w, rollout=None)
            await until_image(w, "LHR", "acme/web:2")
            await settle()
            found = (await w.project.list(DEPLOYMENTS, NAMESPACE)).items
            assert [dict(each.metadata.annotations) for each in found] == [{}, {}, {}]
            seen = await w.project.get(compute.WORKLOADS, "web", NAMESPACE)
            assert [each["type"] for each in values(seen.status)["conditions"]] == ["Available"]


async def test_scale_is_not_waved() -> None:
    async with controller_planes() as w:
        await given_project(w, *CITIES)
        async with w.running(workload_controller(w.projects(), w.env)):
            await given_complete(w)
            spec = {"spec": workload(*CITIES, image="acme/web:2", replicas=4)["spec"]}
            await w.project.patch(compute.WORKLOADS, "web", merge(spec), NAMESPACE)
            found = await until(
                w.project,
                DEPLOYMENTS,
                name_of("LHR"),
                NAMESPACE,
                lambda obj: values(obj.spec)["scaleSettings"]["minReplicas"] == 4,
            )
            assert image_of(found) == "acme/web:1"
