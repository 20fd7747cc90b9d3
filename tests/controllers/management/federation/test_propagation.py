"""A deployment that the hub does not propagate is reported, and the hub is asked to look again.

Karmada is played by hand: its bindings, Works, Clusters and the reports it aggregates.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from datum_compute.api import conditions, core, karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client.protocol import merge
from datum_compute.controllers.management.federation import federator
from datum_compute.controllers.management.federation.propagation import REPORT_SECONDS
from tests.support.client.intercepted_transport import (
    CUT,
    Match,
    Rule,
    SentRequest,
    has_method,
    record,
    refuse,
)
from tests.support.controllers.federation import (
    BINDING,
    DEPLOYMENTS,
    NAME,
    given_binding,
    given_cell,
    given_deployment,
    on_hub,
    shown,
)
from tests.support.controllers.planes import (
    NAMESPACE,
    ControllerPlanes,
    condition_value,
    controller_planes,
    counters,
    remove_finalizers,
    report,
    settle,
)
from tests.support.objects import condition, message, until

ASKED = compute.ANNOTATION_PROPAGATION_REQUESTED
LOST = (
    ("Scheduled", "False", "NotPropagated"),
    ("Available", "False", "NotPropagated"),
    ("ReplicasReady", "False", "NotPropagated"),
)
WEBHOOK_AWAY = refuse(500, "InternalError", "failed calling webhook: connection refused")


async def delete_binding(w: ControllerPlanes) -> None:
    await w.hub.delete(karmada.RESOURCE_BINDINGS, BINDING, w.hub_namespace)
    await remove_finalizers(w.hub, karmada.RESOURCE_BINDINGS, BINDING, w.hub_namespace)


async def asked_again(w: ControllerPlanes) -> Object:
    """The hub copy, once its annotation asks Karmada to look again."""
    return await until(w.hub, DEPLOYMENTS, NAME, w.hub_namespace, is_asked)


def is_asked(copy: Object) -> bool:
    return ASKED in copy.metadata.annotations


async def test_a_deployment_whose_binding_is_deleted_is_not_scheduled_and_is_sent_again() -> None:
    async with controller_planes() as w:
        await given_cell(w)
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            await given_deployment(w)
            await given_binding(w, "dfw")
            available = [condition_value("Available", "True", "StableInstanceFound")]
            await report(
                w.hub, w.hub_namespace, NAME, replicas=1, readyReplicas=1, conditions=available
            )
            await shown(
                w, ("Scheduled", "True", "Scheduled"), ("Available", "True", "StableInstanceFound")
            )
            await delete_binding(w)
            found = await shown(w, *LOST)
            assert counters(found) == (0, 0, 0, 1)  # one is desired, and none runs
            assert condition(found, "CellReachable") == ("", "")
            await asked_again(w)

            await given_binding(w, "dfw")
            await shown(
                w, ("Scheduled", "True", "Scheduled"), ("Available", "True", "StableInstanceFound")
            )


async def test_a_new_deployment_has_some_seconds_to_be_taken_up_by_the_hub() -> None:
    async with controller_planes() as w, w.running(federator(w.projects(), w.hub_fleet(), w.env)):
        await given_deployment(w)
        await on_hub(w)
        await settle(4)
        young = await w.project.get(DEPLOYMENTS, NAME, NAMESPACE)
        assert condition(young, "Scheduled") == ("", "")
        assert not is_asked(await on_hub(w))

        await shown(w, *LOST)
        await asked_again(w)


async def test_the_hub_is_asked_again_ever_more_rarely() -> None:
    async with controller_planes() as w:
        sent: list[SentRequest] = []
        hub_client, link = w.linked("hub")
        async with w.running(federator(w.projects(), w.hub_fleet(hub_client), w.env)):
            await given_deployment(w)
            await on_hub(w)
            link.rules += [Rule(record(sent), has_method("PATCH"))]
            await settle(3600)

        assert 10 < len(sent) < 20


async def test_a_binding_that_lost_its_owner_is_given_back_to_its_copy() -> None:
    async with controller_planes() as w:
        await given_cell(w)
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            await given_deployment(w)
            await given_binding(w, "dfw")
            await shown(w, ("Scheduled", "True", "Scheduled"))
            body: dict[str, Any] = {"metadata": {"ownerReferences": []}}
            await w.hub.patch(karmada.RESOURCE_BINDINGS, BINDING, merge(body), w.hub_namespace)
            await asked_again(w)

            await shown(w, ("Scheduled", "True", "Scheduled"))


async def test_a_copy_without_the_report_its_binding_has_is_sent_again() -> None:
    """The interpreter was installed after the cell had reported."""
    async with controller_planes() as w:
        await given_cell(w)
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            await given_deployment(w)
            await given_binding(w, "dfw")
            item = {"clusterName": "dfw", "applied": True, "status": {"replicas": 1}}
            body = merge({"status": {"aggregatedStatus": [item]}})
            await w.hub.patch(
                karmada.RESOURCE_BINDINGS, BINDING, body, w.hub_namespace, subresource="status"
            )
            await settle(60)
            assert not is_asked(await on_hub(w))

            await given_interpreter(w)
            await asked_again(w)


async def test_a_cell_that_answers_and_does_not_take_a_change_is_reported_and_asked_for() -> None:
    async with behind() as w:
        await settle(REPORT_SECONDS - 5)
        assert not is_asked(await on_hub(w))
        young = await w.project.get(DEPLOYMENTS, NAME, NAMESPACE)
        assert condition(young, "Propagated") == ("", "")

        found = await shown(w, ("Propagated", "False", "CellBehind"))
        assert condition(found, "Scheduled") == ("True", "Scheduled")
        since = transition_time(found, "Propagated")
        await asked_again(w)
        events = (await w.project.list(core.EVENTS, NAMESPACE)).items
        assert [msgspec.json.decode(each.extra["reason"]) for each in events].count(
            "CellBehind"
        ) == 1

        await settle(600)
        found = await shown(w, ("Propagated", "False", "CellBehind"))
        assert transition_time(found, "Propagated") == since

        await report(w.hub, w.hub_namespace, NAME, observedGeneration=2)
        await shown(w, ("Propagated", "", ""))
        asked = await on_hub(w)
        await settle(3600)
        assert (await on_hub(w)).metadata.resource_version == asked.metadata.resource_version


async def test_a_cell_that_was_unreachable_has_half_a_minute_after_its_return() -> None:
    async with behind() as w:
        await settle(REPORT_SECONDS - 10)
        await given_cell(w, ready="False")
        await settle(3600)
        assert not is_asked(await on_hub(w))
        lost = await w.project.get(DEPLOYMENTS, NAME, NAMESPACE)
        assert condition(lost, "Propagated") == ("", "")

        await given_cell(w)
        await settle(REPORT_SECONDS - 5)
        assert not is_asked(await on_hub(w))
        await asked_again(w)


async def test_a_cell_that_takes_every_change_late_is_not_called_behind() -> None:
    """Each report gives it its time again."""
    async with behind() as w:
        for generation in range(2, 8):
            await settle(REPORT_SECONDS - 5)
            body = {"spec": {"scaleSettings": {"minReplicas": generation + 1}}}
            await w.project.patch(DEPLOYMENTS, NAME, merge(body), NAMESPACE)
            await report(w.hub, w.hub_namespace, NAME, observedGeneration=generation)
        assert not is_asked(await on_hub(w))


async def test_a_cell_stays_behind_while_the_spec_changes_again_and_again() -> None:
    async with behind() as w:
        for replicas in range(4, 10):
            await settle(REPORT_SECONDS / 3)
            body = {"spec": {"scaleSettings": {"minReplicas": replicas}}}
            await w.project.patch(DEPLOYMENTS, NAME, merge(body), NAMESPACE)
        await asked_again(w)
        await shown(w, ("Propagated", "False", "CellBehind"))


async def test_a_stop_that_a_cell_does_not_report_is_sent_again_and_is_no_failure() -> None:
    async with behind() as w:
        await report(w.hub, w.hub_namespace, NAME, observedGeneration=2)
        for value, reported in (("ana", True), (None, False)):
            before = (await on_hub(w)).metadata.annotations.get(ASKED)
            body = {"metadata": {"annotations": {compute.ANNOTATION_SUSPENDED: value}}}
            await w.project.patch(DEPLOYMENTS, NAME, merge(body), NAMESPACE)
            await settle(REPORT_SECONDS - 5)
            assert (await on_hub(w)).metadata.annotations.get(ASKED) == before
            await settle(20)
            assert (await on_hub(w)).metadata.annotations.get(ASKED) != before
            found = await w.project.get(DEPLOYMENTS, NAME, NAMESPACE)
            assert condition(found, "Propagated") == ("", "")
            await report(w.hub, w.hub_namespace, NAME, suspended=reported)
            asked = await on_hub(w)
            await settle(3600)
            assert (await on_hub(w)).metadata.resource_version == asked.metadata.resource_version


@asynccontextmanager
async def behind() -> AsyncIterator[ControllerPlanes]:
    """A deployment of one cell, which has reported on the spec before the present one."""
    async with controller_planes() as w:
        await given_cell(w)
        await given_interpreter(w)
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            await given_deployment(w)
            await given_binding(w, "dfw")
            await report(w.hub, w.hub_namespace, NAME, observedGeneration=1)
            await shown(w, ("Scheduled", "True", "Scheduled"))
            body = {"spec": {"scaleSettings": {"minReplicas": 3}}}
            await w.project.patch(DEPLOYMENTS, NAME, merge(body), NAMESPACE)
            yield w


async def given_interpreter(w: ControllerPlanes) -> None:
    target = {"apiVersion": DEPLOYMENTS.api_version, "kind": DEPLOYMENTS.kind}
    script = {"luaScript": "function AggregateStatus(a, b) return a end"}
    interpreter = {
        "metadata": {"name": "workloaddeployment-status"},
        "spec": {"target": target, "customizations": {"statusAggregation": script}},
    }
    await w.hub.create(karmada.INTERPRETER_CUSTOMIZATIONS, interpreter)


def transition_time(obj: Object, type_: str) -> object:
    found = conditions.find(obj.view(compute.WorkloadDeployment).status.conditions, type_)
    return found and found.last_transition_time


def creates(plural: str) -> Match:
    return lambda request: request.method == "POST" and request.path.endswith(plural)


async def test_a_hub_that_refuses_the_policy_or_the_copy_is_reported_with_its_reason() -> None:
    for kind in ("propagationpolicies", "workloaddeployments"):
        async with controller_planes() as w:
            await given_cell(w)
            hub_client, link = w.linked("hub")
            link.rules.append(Rule(WEBHOOK_AWAY, creates(kind)))
            async with w.running(federator(w.projects(), w.hub_fleet(hub_client), w.env)):
                await given_deployment(w)
                found = await shown(
                    w,
                    ("Scheduled", "False", "HubRefused"),
                    ("Available", "False", "HubRefused"),
                    ("ReplicasReady", "False", "HubRefused"),
                )
                assert "failed calling webhook" in message(found, "Scheduled")

                link.rules.clear()
                await given_binding(w, "dfw")
                await shown(w, ("Scheduled", "True", "Scheduled"))


async def test_a_deployment_that_a_cell_runs_stays_scheduled_while_the_hub_refuses_a_change() -> (
    None
):
    async with controller_planes() as w:
        await given_cell(w)
        hub_client, link = w.linked("hub")
        async with w.running(federator(w.projects(), w.hub_fleet(hub_client), w.env)):
            await given_deployment(w)
            await given_binding(w, "dfw")
            before = await shown(w, ("Scheduled", "True", "Scheduled"))
            link.rules.append(Rule(WEBHOOK_AWAY, has_method("PATCH")))
            body = {"spec": {"scaleSettings": {"minReplicas": 3}}}
            await w.project.patch(DEPLOYMENTS, NAME, merge(body), NAMESPACE)
            await until(
                w.project,
                DEPLOYMENTS,
                NAME,
                NAMESPACE,
                lambda obj: "failed calling webhook" in message(obj, "Scheduled"),
            )
            await shown(w, ("Scheduled", "True", "Scheduled"))
            link.rules[:] = [CUT]
            await settle(60)
            link.rules.clear()
            await until(
                w.project,
                DEPLOYMENTS,
                NAME,
                NAMESPACE,
                lambda obj: message(obj, "Scheduled") == message(before, "Scheduled"),
            )
