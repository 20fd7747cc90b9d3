"""What a cell's deployment reports, and how often.

Provider and Instance controller are played by hand: an Instance is ready when the test
sets it so, and deleted when the test releases it.
"""

from __future__ import annotations

from typing import Any

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import values
from tests.support.controllers.cell_deployments import (
    DEPLOYMENTS,
    NAME,
    ONE,
    ZERO,
    controller,
    given,
    given_location,
    scale,
    status,
)
from tests.support.controllers.planes import (
    ControllerPlanes,
    condition_value,
    controller_planes,
    counters,
    report_serving,
    settle,
)
from tests.support.objects import condition, find, message, until, until_names


async def test_counters_conditions_and_the_projects_generation_are_reported() -> None:
    async with controller_planes() as w:
        await given(w, 2, annotations={compute.ANNOTATION_SOURCE_GENERATION: "41"})
        async with w.running(controller(w)):
            first = await status(w, (1, 0, 0, 2))
            assert condition(first, "Available") == ("False", "ProvisioningInstances")
            await report_serving(w, ZERO)
            second = await status(w, (2, 1, 1, 2))
            assert condition(second, "Available") == ("True", "StableInstanceFound")
            assert condition(second, "ReplicasReady")[0] == "False"
            await report_serving(w, ONE)
            third = await status(w, (2, 2, 2, 2))

        assert condition(third, "ReplicasReady") == ("True", "ReplicasAvailable")
        assert values(third.status)["observedGeneration"] == 41
        reported = values(third.status)["conditions"]
        assert {each["observedGeneration"] for each in reported} == {41}


async def test_steps_behind_an_instance_that_fails_are_reported_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    async with controller_planes() as w:
        await given(w, 3)
        async with w.running(controller(w)):
            await until_names(w.cell, compute.INSTANCES, ZERO)
            crashing = [condition_value("Ready", "False", "InstanceCrashing")]
            body = merge({"status": {"conditions": crashing}})
            await w.cell.patch(compute.INSTANCES, ZERO, body, w.hub_namespace, subresource="status")
            await until(
                w.cell,
                DEPLOYMENTS,
                NAME,
                w.hub_namespace,
                lambda obj: f"2 instances wait for {ZERO}" in message(obj, "ReplicasReady"),
            )
            await settle(120)

    waiting = [each for each in caplog.records if each.message.startswith("steps wait for an")]
    assert len(waiting) == 1


async def test_the_first_report_is_immediate_and_later_ones_are_rate_limited() -> None:
    async with controller_planes() as w:
        await given(w, 30)
        before = (await w.cell.list(DEPLOYMENTS)).resource_version
        began = w.env.now()
        async with w.running(controller(w)):
            await _each_serves_as_it_comes(w, 30)
            await status(w, (30, 30, 30, 30))
            elapsed = (w.env.now() - began).total_seconds()
        reports = 0
        async with w.cell.watch(DEPLOYMENTS, resource_version=before, timeout_seconds=1) as events:
            async for event in events:
                reports += event.type == "MODIFIED"

        # The finalizer, the first report, and one per tenth of a second after it.
        assert 3 <= reports <= 2 + 10 * elapsed
        assert elapsed < 1


async def test_provider_conditions_are_reported_together_with_the_ready_they_cause() -> None:
    async with controller_planes() as w:
        await given(w, 1)
        async with w.running(controller(w)):
            await _provider_serves(w, ZERO)
            await settle(0.02)
            unreported = await reported_now(w)
            await report_serving(w, ZERO)
            await settle(0.01)
            reported = await reported_now(w)

        assert counters(unreported) == (1, 0, 0, 1)
        assert counters(reported) == (1, 1, 1, 1)
        assert values(reported.status)["currentReplicas"] == 1


async def test_a_report_waits_only_briefly_for_ready() -> None:
    async with controller_planes() as w:
        await given(w, 1)
        async with w.running(controller(w)):
            await _provider_serves(w, ZERO)
            await settle(0.19)
            unreported = await reported_now(w)
            await settle(0.02)
            reported = await reported_now(w)
            await scale(w, 2)
            await settle(0.2)
            later = await reported_now(w)

        assert counters(unreported) == (1, 0, 0, 1)
        assert counters(reported) == (1, 1, 0, 1)
        assert counters(later) == (1, 1, 0, 2)


async def test_the_start_of_an_instance_takes_one_reconcile_besides_reports() -> None:
    async with controller_planes() as w:
        await given(w, 30)
        deployments = controller(w)
        began = w.env.now()
        async with w.running(deployments):
            await _each_serves_as_it_comes(w, 30)
            await status(w, (30, 30, 30, 30))
            elapsed = (w.env.now() - began).total_seconds()
            runs = deployments.statistics().runs

        assert runs <= 30 + 5 + 20 * elapsed


async def reported_now(w: ControllerPlanes) -> Object:
    return await w.cell.get(DEPLOYMENTS, NAME, w.hub_namespace)


async def _provider_serves(w: ControllerPlanes, name: str) -> None:
    """An Instance that its provider reports as available, a while after its creation; the Instance
    controller has not reported it yet."""
    instance = (await until_names(w.cell, compute.INSTANCES, name))[0]
    controlled: dict[str, Any] = {"spec": {"controller": {"schedulingGates": []}}}
    await w.cell.patch(compute.INSTANCES, name, merge(controlled), w.hub_namespace)
    await settle(1)
    types = {"Programmed": "Programmed", "Available": "Available"}
    body = {
        "conditions": [condition_value(type_, "True", reason) for type_, reason in types.items()],
        "controller": {"observedTemplateHash": instance.view(compute.Instance).template_hash},
    }
    await w.cell.patch(
        compute.INSTANCES, name, merge({"status": body}), w.hub_namespace, subresource="status"
    )


async def _each_serves_as_it_comes(w: ControllerPlanes, count: int) -> None:
    async with w.cell.watch(compute.INSTANCES) as events:
        async for event in events:
            if event.type == "ADDED":
                await report_serving(w, event.object.name)
                count -= 1
            if not count:
                return


@pytest.mark.parametrize("with_networks", [False, True])
async def test_a_settled_deployment_is_not_written_again(with_networks: bool) -> None:
    async with controller_planes() as w:
        await given_location(w)
        await given(w, 1)
        async with w.running(controller(w, with_networks=with_networks)):
            await until_names(w.cell, compute.INSTANCES, ZERO)
            await report_serving(w, ZERO)
            await settle()
            kinds = (DEPLOYMENTS, compute.INSTANCES, networking.NETWORK_BINDINGS)
            before = [(await w.cell.list(kind)).resource_version for kind in kinds]
            await settle(600)

        assert [(await w.cell.list(kind)).resource_version for kind in kinds] == before
        assert await find(w.cell, DEPLOYMENTS, NAME, w.hub_namespace) is not None
