"""A deployment of the cell that the hub no longer has, and that Karmada does not manage."""

from __future__ import annotations

import msgspec

from datum_compute.api import core, karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client.protocol import Client, merge
from datum_compute.controllers.cell.workload_deployment import workload_deployment_controller
from datum_compute.runtime.controller import Controller
from datum_compute.runtime.metrics.exposition import render
from datum_compute.runtime.metrics.registry import MetricsRegistry
from tests.support.client.intercepted_transport import CUT
from tests.support.controllers.cell_deployments import DEPLOYMENTS, NAME, ZERO, all_run, given
from tests.support.controllers.planes import (
    ControllerPlanes,
    controller_planes,
    deployment,
    given_namespace,
    remove_finalizers,
    settle,
)
from tests.support.objects import condition, exists, message, until, until_gone


def controller(
    w: ControllerPlanes, hub: Client | None = None, metrics: MetricsRegistry | None = None
) -> Controller:
    return workload_deployment_controller(
        w.cell_fleet(), w.env, networking=False, hub=w.hub_fleet(hub), metrics=metrics
    )


async def given_copy(w: ControllerPlanes) -> None:
    """The deployment on the hub."""
    await given_namespace(w.hub, w.hub_namespace)
    await w.hub.create(DEPLOYMENTS, deployment(NAME), w.hub_namespace)


async def until_orphaned(w: ControllerPlanes, reason: tuple[str, str]) -> str:
    """The message of the condition, once it has this status and reason."""
    found = await until(
        w.cell,
        DEPLOYMENTS,
        NAME,
        w.hub_namespace,
        lambda obj: condition(obj, "FoundOnHub") == reason,
    )
    return message(found, "FoundOnHub")


def _reason(event: Object) -> str:
    return str(msgspec.json.decode(event.to_wire())["reason"])


async def test_a_deployment_unknown_to_the_hub_is_reported_and_deleted_after_ten_minutes() -> None:
    async with controller_planes() as w:
        await given(w, 1, managed=False)
        metrics = MetricsRegistry()
        async with w.running(controller(w, metrics=metrics)):
            await all_run(w, ZERO)
            text = await until_orphaned(w, ("False", "HubCopyMissing"))
            await settle(1)  # the Event follows the status
            events = (await w.cell.list(core.EVENTS, w.hub_namespace)).items
            assert "The hub has had no copy of this deployment since 2026" in text
            assert "HubCopyMissing" in [_reason(each) for each in events]
            assert "\ncompute_orphaned_deployments 1.0\n" in render(metrics)
            await settle(540)
            assert await exists(w.cell, compute.INSTANCES, ZERO, w.hub_namespace)

            await until(
                w.cell,
                compute.INSTANCES,
                ZERO,
                w.hub_namespace,
                lambda obj: obj.metadata.deleting,
                within=120,
            )
            await remove_finalizers(w.cell, compute.INSTANCES, ZERO, w.hub_namespace)
            await until_gone(w.cell, DEPLOYMENTS, NAME, w.hub_namespace)
            assert "\ncompute_orphaned_deployments 0.0\n" in render(metrics)


async def test_a_deployment_that_the_hub_has_is_no_orphan() -> None:
    async with controller_planes() as w:
        await given(w, 1, managed=False)
        await given_copy(w)
        async with w.running(controller(w)):
            await settle(1200)
            found = await w.cell.get(DEPLOYMENTS, NAME, w.hub_namespace)

        assert condition(found, "FoundOnHub") == ("", "")


async def test_the_return_of_the_hub_copy_ends_the_report() -> None:
    async with controller_planes() as w:
        await given(w, 1, managed=False)
        async with w.running(controller(w)):
            await until_orphaned(w, ("False", "HubCopyMissing"))
            await settle(400)
            await given_copy(w)
            await until_orphaned(w, ("", ""))
            await settle(1200)

            assert await exists(w.cell, DEPLOYMENTS, NAME, w.hub_namespace)


async def test_a_hub_that_does_not_answer_proves_no_orphan() -> None:
    async with controller_planes() as w:
        await given(w, 1, managed=False)
        hub_client, link = w.linked("hub")
        async with w.running(controller(w, hub_client)):
            await until_orphaned(w, ("False", "HubCopyMissing"))
            link.rules.append(CUT)
            await settle(1800)

            assert await exists(w.cell, DEPLOYMENTS, NAME, w.hub_namespace)


async def test_what_karmada_manages_and_what_is_in_other_namespaces_is_no_orphan() -> None:
    async with controller_planes() as w:
        made = await given(w, 1, managed=False)
        body = {"metadata": {"labels": {karmada.LABEL_MANAGED: "true"}}}
        await w.cell.patch(DEPLOYMENTS, NAME, merge(body), made.namespace)
        await w.cell.create(DEPLOYMENTS, deployment("own-main-dfw"), "default")
        async with w.running(controller(w)):
            await settle(1800)

            for name, namespace in ((NAME, w.hub_namespace), ("own-main-dfw", "default")):
                found = await w.cell.get(DEPLOYMENTS, name, namespace)
                assert condition(found, "FoundOnHub") == ("", "")
