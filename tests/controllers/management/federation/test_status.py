"""What the hub knows of a deployment is shown in its project.

Karmada is played by hand: its bindings, Works, Clusters and the reports it aggregates.
"""

from __future__ import annotations

from datum_compute.api import core, karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import merge
from datum_compute.controllers.management.federation import federator
from datum_compute.runtime.request import Request
from datum_compute.runtime.writes.patch import values
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
    condition_value,
    controller_planes,
    counters,
    deployment,
    report,
    set_condition,
    settle,
)
from tests.support.objects import condition, message, until


async def test_lesson_09_a_report_on_the_hub_is_shown_in_the_project_at_once() -> None:
    async with controller_planes() as w:
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            await given_deployment(w)
            await on_hub(w)
            available = [condition_value("Available", "True", "StableInstanceFound")]
            await report(
                w.hub,
                w.hub_namespace,
                NAME,
                replicas=1,
                updatedReplicas=1,
                readyReplicas=1,
                desiredReplicas=1,
                observedGeneration=1,
                conditions=available,
            )
            found = await until(
                w.project,
                DEPLOYMENTS,
                NAME,
                NAMESPACE,
                lambda obj: counters(obj) == (1, 1, 1, 1),
                within=1.0,
            )

        assert condition(found, "Available") == ("True", "StableInstanceFound")
        assert values(found.status)["observedGeneration"] == 1


async def test_lesson_10_a_project_is_found_by_the_last_segment_of_its_label() -> None:
    async with controller_planes() as w:
        await w.hub.create(
            core.NAMESPACES,
            {
                "metadata": {
                    "name": w.hub_namespace,
                    "labels": {
                        compute.LABEL_UPSTREAM_CLUSTER_NAME: "cluster-acme_demo",
                        compute.LABEL_UPSTREAM_NAMESPACE: NAMESPACE,
                    },
                }
            },
        )
        controller = federator(w.projects(), w.hub_fleet(), w.env)
        async with w.running(controller):
            await w.hub.create(DEPLOYMENTS, deployment("stranger"), w.hub_namespace)
            await settle(5)

            assert controller.statistics().runs == 1
            assert controller.statistics().dropped_unengaged == 0


async def test_lesson_11_a_request_without_a_cluster_is_dropped() -> None:
    async with controller_planes() as w:
        controller = federator(w.projects(), w.hub_fleet(), w.env)
        async with w.running(controller):
            controller.enqueue(Request("", NAMESPACE, NAME))
            await settle(5)

            statistics = controller.statistics()
            assert (statistics.dropped_empty, statistics.runs) == (1, 0)


async def test_a_city_without_a_cell_is_reported_and_recovers() -> None:
    async with controller_planes() as w:
        await given_cell(w)
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            await given_deployment(w)
            binding = await given_binding(w)
            await set_condition(
                w,
                w.hub,
                karmada.RESOURCE_BINDINGS,
                binding,
                "Scheduled",
                "False",
                karmada.REASON_NO_CLUSTER_FIT,
            )
            found = await shown(
                w,
                ("Scheduled", "False", "NoCellForCity"),
                ("Available", "False", "NoCellForCity"),
                ("ReplicasReady", "False", "NoCellForCity"),
            )
            assert "DFW" in message(found, "Scheduled")

            body = {"spec": {"clusters": [{"name": "dfw"}]}}
            await w.hub.patch(karmada.RESOURCE_BINDINGS, BINDING, merge(body), w.hub_namespace)
            await shown(
                w, ("Scheduled", "True", "Scheduled"), ("CellReachable", "True", "CellReady")
            )


async def test_the_last_report_of_a_cell_without_the_deployment_is_dropped() -> None:
    """The hub keeps the last report of a cell that was removed; in the project it would look
    healthy."""
    async with controller_planes() as w:
        await given_cell(w)
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            await given_deployment(w)
            await given_binding(w, "dfw")
            available = [condition_value("Available", "True", "StableInstanceFound")]
            await report(
                w.hub,
                w.hub_namespace,
                NAME,
                replicas=1,
                readyReplicas=1,
                observedGeneration=1,
                conditions=available,
            )
            found = await shown(
                w,
                ("Available", "True", "StableInstanceFound"),
                ("CellReachable", "True", "CellReady"),
            )
            assert counters(found)[:2] != (0, 0)

            body: dict[str, dict[str, list[str]]] = {"spec": {"clusters": []}}
            binding = await w.hub.patch(
                karmada.RESOURCE_BINDINGS, BINDING, merge(body), w.hub_namespace
            )
            await set_condition(
                w,
                w.hub,
                karmada.RESOURCE_BINDINGS,
                binding,
                "Scheduled",
                "False",
                karmada.REASON_NO_CLUSTER_FIT,
            )
            found = await shown(
                w,
                ("Scheduled", "False", "NoCellForCity"),
                ("Available", "False", "NoCellForCity"),
            )
            assert counters(found) == (0, 0, 0, 1)  # desired, and none present
            assert not found.view(compute.WorkloadDeployment).status.observed_generation
            assert condition(found, "CellReachable") == ("", "")


async def test_a_cell_that_refuses_a_deployment_is_reported_with_its_reason() -> None:
    async with controller_planes() as w:
        await given_cell(w)
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            await given_deployment(w)
            await given_binding(w, "dfw")
            await shown(w, ("Scheduled", "True", "Scheduled"))
            for why, expected in (("it is not ours", True), ("", False)):
                item = {"clusterName": "dfw", "applied": not why, "appliedMessage": why}
                await w.hub.patch(
                    karmada.RESOURCE_BINDINGS,
                    BINDING,
                    merge({"status": {"aggregatedStatus": [item]}}),
                    w.hub_namespace,
                    subresource="status",
                )
                await settle(1)
                found = await shown(w, ("Scheduled", "True", "Scheduled"))
                assert ("it is not ours" in message(found, "Scheduled")) is expected


async def test_two_cells_for_one_city_are_reported_as_ambiguous() -> None:
    async with controller_planes() as w:
        await given_cell(w)
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            await given_deployment(w)
            await given_binding(w, "dfw", "dfw2")
            found = await shown(
                w,
                ("Scheduled", "False", "AmbiguousCell"),
                ("Available", "False", "AmbiguousCell"),
            )

        assert "dfw, dfw2" in message(found, "Scheduled")


async def test_an_unreachable_cell_is_reported_with_its_time_and_keeps_its_last_report() -> None:
    async with controller_planes() as w:
        cell = await given_cell(w)
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            await given_deployment(w)
            await given_binding(w, "dfw")
            available = [condition_value("Available", "True", "StableInstanceFound")]
            await report(
                w.hub, w.hub_namespace, NAME, replicas=1, readyReplicas=1, conditions=available
            )
            await shown(
                w,
                ("Available", "True", "StableInstanceFound"),
                ("CellReachable", "True", "CellReady"),
            )
            await settle(90)
            await set_condition(w, w.hub, karmada.CLUSTERS, cell, "Ready", "False")
            found = await shown(w, ("CellReachable", "False", "CellUnreachable"))

            assert "2026-01-01T00:01:3" in message(found, "CellReachable")
            assert condition(found, "Available") == ("True", "StableInstanceFound")

            await report(
                w.hub, w.hub_namespace, NAME, replicas=2, readyReplicas=1, conditions=available
            )
            found = await until(
                w.project, DEPLOYMENTS, NAME, NAMESPACE, lambda obj: counters(obj)[0] == 2
            )
            assert condition(found, "CellReachable") == ("False", "CellUnreachable")
