"""A deployment that the hub does not propagate is reported, and the hub is asked to look again.

Karmada is played by hand: its bindings, Works, Clusters and the reports it aggregates.
"""

from __future__ import annotations

from typing import Any

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client.protocol import merge
from datum_compute.controllers.management.federation import federator
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
    return compute.ANNOTATION_PROPAGATION_REQUESTED in copy.metadata.annotations


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

            target = {"apiVersion": DEPLOYMENTS.api_version, "kind": DEPLOYMENTS.kind}
            script = {"luaScript": "function AggregateStatus(a, b) return a end"}
            interpreter = {
                "metadata": {"name": "workloaddeployment-status"},
                "spec": {"target": target, "customizations": {"statusAggregation": script}},
            }
            await w.hub.create(karmada.INTERPRETER_CUSTOMIZATIONS, interpreter)
            await asked_again(w)


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
