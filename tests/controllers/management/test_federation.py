"""A project's deployment on the hub, its status on the way back, and its end.

The test acts as Karmada: it writes bindings, Works, Clusters and the reports it aggregates.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from datum_compute.api import core, karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object, owner_reference
from datum_compute.client.protocol import merge
from datum_compute.controllers.management.federation import federator, policy_cleanup_controller
from datum_compute.controllers.management.federation.policies import ensure_policy_removed
from datum_compute.controllers.management.workload import workload_controller
from datum_compute.runtime.request import Request
from datum_compute.runtime.writes.patch import values
from tests.support.controllers.planes import (
    NAMESPACE,
    ControllerPlanes,
    condition,
    condition_value,
    controller_planes,
    counters,
    deployment,
    find,
    given_namespace,
    given_project,
    message,
    remove_finalizers,
    report,
    set_condition,
    settle,
    until,
    until_gone,
    until_names,
    workload,
)

DEPLOYMENTS = compute.WORKLOAD_DEPLOYMENTS
NAME = "web-main-dfw"
BINDING = "web-main-dfw-workloaddeployment"


async def given_deployment(w: ControllerPlanes, name: str = NAME, *, replicas: int = 1) -> Object:
    return await w.project.create(DEPLOYMENTS, deployment(name, replicas=replicas), NAMESPACE)


async def on_hub(w: ControllerPlanes, name: str = NAME) -> Object:
    return await until(w.hub, DEPLOYMENTS, name, w.hub_namespace, lambda obj: True)


async def given_cell(w: ControllerPlanes, *, ready: str = "True") -> Object:
    body = {
        "metadata": {"name": "dfw", "labels": {compute.LABEL_TOPOLOGY_CITY_CODE: "DFW"}},
        "spec": {"syncMode": "Push"},
    }
    cell = await find(w.hub, karmada.CLUSTERS, "dfw", "")
    cell = cell or await w.hub.create(karmada.CLUSTERS, body)
    return await set_condition(w, w.hub, karmada.CLUSTERS, cell, "Ready", ready)


async def given_binding(w: ControllerPlanes, *cells: str) -> Object:
    hub_deployment = await on_hub(w)
    body = {
        "metadata": {
            "name": BINDING,
            "finalizers": [karmada.FINALIZER_BINDING],
            "ownerReferences": [owner_reference(hub_deployment, controller=True)],
        },
        "spec": {
            "resource": {
                "apiVersion": DEPLOYMENTS.api_version,
                "kind": DEPLOYMENTS.kind,
                "namespace": w.hub_namespace,
                "name": hub_deployment.name,
            },
            "clusters": [{"name": cell} for cell in cells],
        },
    }
    return await w.hub.create(karmada.RESOURCE_BINDINGS, body, w.hub_namespace)


async def given_work(w: ControllerPlanes) -> None:
    namespace = karmada.execution_namespace("dfw")
    await w.hub.create(core.NAMESPACES, {"metadata": {"name": namespace}})
    notes = {
        karmada.ANNOTATION_BINDING_NAMESPACE: w.hub_namespace,
        karmada.ANNOTATION_BINDING_NAME: BINDING,
    }
    body = {"metadata": {"name": f"{NAME}-abc", "annotations": notes}, "spec": {"workload": {}}}
    await w.hub.create(karmada.WORKS, body, namespace)


async def shown(w: ControllerPlanes, *expected: tuple[str, str, str]) -> Object:
    """The project's deployment once it shows these conditions."""
    return await until(
        w.project,
        DEPLOYMENTS,
        NAME,
        NAMESPACE,
        lambda obj: all(condition(obj, type_) == (s, r) for type_, s, r in expected),
    )


async def test_a_deployment_gets_namespace_policy_and_copy_on_the_hub() -> None:
    async with controller_planes() as w:
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            made = await given_deployment(w, replicas=3)
            copy = await on_hub(w)

        namespace = await w.hub.get(core.NAMESPACES, w.hub_namespace)
        assert namespace.metadata.labels[compute.LABEL_UPSTREAM_CLUSTER_NAME] == "cluster-demo"
        assert namespace.metadata.labels[compute.LABEL_UPSTREAM_NAMESPACE] == NAMESPACE
        assert values(copy.spec) == values(made.spec)
        assert copy.metadata.labels == {
            compute.LABEL_TOPOLOGY_CITY_CODE: "DFW",
            compute.LABEL_UPSTREAM_NAMESPACE: NAMESPACE,
        }
        assert copy.metadata.annotations[compute.ANNOTATION_SOURCE_GENERATION] == "1"
        assert copy.metadata.owner_references == ()
        policy = await w.hub.get(karmada.PROPAGATION_POLICIES, "city-dfw", w.hub_namespace)
        spec = policy.view(karmada.PropagationPolicy).spec
        assert [each.kind for each in spec.resource_selectors] == ["WorkloadDeployment"]
        constraint = spec.placement.spread_constraints[0]
        assert (constraint.spread_by_field, constraint.min_groups, constraint.max_groups) == (
            "cluster",
            1,
            1,
        )


async def test_the_hub_location_is_recorded_before_anything_is_created() -> None:
    def crash() -> None:
        raise RuntimeError("the process ends here")

    async with controller_planes() as w:
        w.env.on_fault("federation.before-hub-write", crash)
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            await given_deployment(w)
            found = await until(
                w.project, DEPLOYMENTS, NAME, NAMESPACE, lambda obj: obj.metadata.finalizers
            )
            await settle(5)

        assert found.metadata.finalizers == (compute.FINALIZER_FEDERATOR,)
        recorded = found.metadata.annotations[compute.ANNOTATION_FEDERATION_NAMESPACE]
        assert recorded == w.hub_namespace
        assert await find(w.hub, core.NAMESPACES, w.hub_namespace, "") is None


async def test_a_change_is_copied_with_its_generation_and_keeps_karmadas_labels() -> None:
    async with controller_planes() as w:
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            await given_deployment(w)
            await on_hub(w)
            claim = {"metadata": {"labels": {karmada.LABEL_POLICY_ID: "id"}}}
            await w.hub.patch(DEPLOYMENTS, NAME, merge(claim), w.hub_namespace)
            body = {"spec": {"scaleSettings": {"minReplicas": 5}}}
            await w.project.patch(DEPLOYMENTS, NAME, merge(body), NAMESPACE)
            stamp = compute.ANNOTATION_SOURCE_GENERATION
            copy = await until(
                w.hub,
                DEPLOYMENTS,
                NAME,
                w.hub_namespace,
                lambda obj: obj.metadata.annotations[stamp] == "2",
            )

        assert copy.view(compute.WorkloadDeployment).spec.scale_settings.min_replicas == 5
        assert copy.metadata.labels[karmada.LABEL_POLICY_ID] == "id"


async def test_a_hub_copy_changed_by_hand_is_restored() -> None:
    async with controller_planes() as w, w.running(federator(w.projects(), w.hub_fleet(), w.env)):
        made = await given_deployment(w, replicas=2)
        await on_hub(w)
        body = {"spec": {"scaleSettings": {"minReplicas": 9}}}
        await w.hub.patch(DEPLOYMENTS, NAME, merge(body), w.hub_namespace)
        await until(
            w.hub,
            DEPLOYMENTS,
            NAME,
            w.hub_namespace,
            lambda obj: values(obj.spec) == values(made.spec),
        )


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


async def test_deletion_drains_first_and_waits_for_copy_binding_and_works() -> None:
    async with controller_planes() as w:
        await given_cell(w)
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            await given_deployment(w, replicas=2)
            await given_binding(w, "dfw")
            await given_work(w)
            await report(
                w.hub,
                w.hub_namespace,
                NAME,
                replicas=2,
                readyReplicas=2,
                desiredReplicas=2,
                observedGeneration=1,
            )
            await w.project.delete(DEPLOYMENTS, NAME, NAMESPACE)
            copy = await until(
                w.hub,
                DEPLOYMENTS,
                NAME,
                w.hub_namespace,
                lambda obj: (
                    obj.view(compute.WorkloadDeployment).spec.scale_settings.min_replicas == 0
                ),
            )
            await settle()
            assert await find(w.hub, DEPLOYMENTS, NAME, w.hub_namespace) is not None

            stamp = copy.view(compute.WorkloadDeployment).source_generation
            await report(w.hub, w.hub_namespace, NAME, replicas=1, observedGeneration=stamp)
            await until(w.project, DEPLOYMENTS, NAME, NAMESPACE, lambda o: counters(o)[0] == 1)
            await report(w.hub, w.hub_namespace, NAME, observedGeneration=stamp)
            await until_gone(w.hub, DEPLOYMENTS, NAME, w.hub_namespace)
            await settle()
            assert await find(w.project, DEPLOYMENTS, NAME, NAMESPACE) is not None

            await remove_finalizers(w.hub, karmada.RESOURCE_BINDINGS, BINDING, w.hub_namespace)
            await until_gone(w.hub, karmada.RESOURCE_BINDINGS, BINDING, w.hub_namespace)
            await settle()
            assert await find(w.project, DEPLOYMENTS, NAME, NAMESPACE) is not None

            await w.hub.delete(karmada.WORKS, f"{NAME}-abc", karmada.execution_namespace("dfw"))
            await until_gone(w.project, DEPLOYMENTS, NAME, NAMESPACE)

        assert (await w.hub.list(karmada.PROPAGATION_POLICIES)).items == []


async def test_deletion_waits_ten_minutes_for_a_cell_that_does_not_drain() -> None:
    async with controller_planes() as w:
        await given_cell(w)
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            await given_deployment(w)
            await given_binding(w, "dfw")
            await report(w.hub, w.hub_namespace, NAME, replicas=1, observedGeneration=1)
            await w.project.delete(DEPLOYMENTS, NAME, NAMESPACE)
            await settle(590)
            assert await find(w.hub, DEPLOYMENTS, NAME, w.hub_namespace) is not None

            await until_gone(w.hub, DEPLOYMENTS, NAME, w.hub_namespace)


async def test_an_unreachable_cell_does_not_delay_deletion_of_the_hub_copy() -> None:
    async with controller_planes() as w:
        await given_cell(w, ready="Unknown")
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            await given_deployment(w)
            await given_binding(w, "dfw")
            await w.project.delete(DEPLOYMENTS, NAME, NAMESPACE)
            await until_gone(w.hub, DEPLOYMENTS, NAME, w.hub_namespace)


async def test_a_deployment_without_a_cell_is_deleted_at_once() -> None:
    async with controller_planes() as w:
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            await given_deployment(w)
            await on_hub(w)
            await w.project.delete(DEPLOYMENTS, NAME, NAMESPACE)
            await until_gone(w.project, DEPLOYMENTS, NAME, NAMESPACE)

        assert (await w.hub.list(DEPLOYMENTS)).items == []


async def test_a_copy_that_arrives_after_its_deployment_is_deleted_is_removed() -> None:
    """Its create timed out and arrived later."""
    policies = karmada.PROPAGATION_POLICIES
    async with controller_planes() as w, w.running(federator(w.projects(), w.hub_fleet(), w.env)):
        await given_deployment(w)
        late = await on_hub(w)
        policy = await until(w.hub, policies, "city-dfw", w.hub_namespace, lambda obj: True)
        await w.project.delete(DEPLOYMENTS, NAME, NAMESPACE)
        await until_gone(w.project, DEPLOYMENTS, NAME, NAMESPACE)
        body = {"metadata": {"name": policy.name}, "spec": values(policy.spec)}
        await w.hub.create(policies, body, w.hub_namespace)
        metadata = {
            "name": late.name,
            "labels": dict(late.metadata.labels),
            "annotations": dict(late.metadata.annotations),
        }
        body = {"metadata": metadata, "spec": values(late.spec)}
        await w.hub.create(DEPLOYMENTS, body, w.hub_namespace)

        await until_gone(w.hub, DEPLOYMENTS, NAME, w.hub_namespace)
        await until_gone(w.hub, policies, "city-dfw", w.hub_namespace)


async def test_foreign_objects_on_the_hub_are_not_removed() -> None:
    async with controller_planes() as w, w.running(federator(w.projects(), w.hub_fleet(), w.env)):
        await given_deployment(w)
        await on_hub(w)
        await w.hub.create(DEPLOYMENTS, deployment("own-main-dfw"), w.hub_namespace)
        await settle()

        assert await find(w.hub, DEPLOYMENTS, "own-main-dfw", w.hub_namespace) is not None


async def test_a_policy_is_shared_and_deleted_with_the_last_deployment_of_the_city() -> None:
    policies = karmada.PROPAGATION_POLICIES
    async with controller_planes() as w, w.running(federator(w.projects(), w.hub_fleet(), w.env)):
        await given_deployment(w, "a-main-dfw")
        await given_deployment(w, "b-main-dfw")
        await until_names(w.hub, DEPLOYMENTS, "a-main-dfw", "b-main-dfw")
        policy = await w.hub.get(policies, "city-dfw", w.hub_namespace)
        await w.project.delete(DEPLOYMENTS, "a-main-dfw", NAMESPACE)
        await until_gone(w.project, DEPLOYMENTS, "a-main-dfw", NAMESPACE)
        kept = await w.hub.get(policies, "city-dfw", w.hub_namespace)
        assert kept.metadata.uid == policy.metadata.uid

        await w.project.delete(DEPLOYMENTS, "b-main-dfw", NAMESPACE)
        await until_gone(w.hub, policies, "city-dfw", w.hub_namespace)


async def test_a_policy_deleted_by_hand_is_recreated() -> None:
    policies = karmada.PROPAGATION_POLICIES
    async with controller_planes() as w, w.running(federator(w.projects(), w.hub_fleet(), w.env)):
        await given_deployment(w)
        first = await until(w.hub, policies, "city-dfw", w.hub_namespace, lambda obj: True)
        await w.hub.delete(policies, "city-dfw", w.hub_namespace)
        await until(
            w.hub,
            policies,
            "city-dfw",
            w.hub_namespace,
            lambda obj: obj.metadata.uid != first.metadata.uid,
        )


async def test_a_release_interrupted_by_a_crash_is_repeated() -> None:
    async with controller_planes() as w:
        crashes = iter([True])

        def crash() -> None:
            if next(crashes, False):
                raise RuntimeError("the process ends here")

        w.env.on_fault("federation.before-release", crash)
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            await given_deployment(w)
            await on_hub(w)
            await w.project.delete(DEPLOYMENTS, NAME, NAMESPACE)
            await until_gone(w.project, DEPLOYMENTS, NAME, NAMESPACE)

        assert w.env.fault_counts["federation.before-release"] == 2


async def test_a_deleted_workload_leaves_nothing_on_the_hub() -> None:
    async with controller_planes() as w:
        await given_project(w, "DFW")
        projects, hub = w.projects(), w.hub_fleet()
        async with w.running(workload_controller(projects, w.env), federator(projects, hub, w.env)):
            await w.project.create(compute.WORKLOADS, workload("DFW"))
            await on_hub(w)
            await w.project.delete(compute.WORKLOADS, "web", NAMESPACE)
            await until_gone(w.project, compute.WORKLOADS, "web", NAMESPACE)

        assert (await w.hub.list(DEPLOYMENTS)).items == []
        assert (await w.hub.list(karmada.PROPAGATION_POLICIES)).items == []


async def given_policy(w: ControllerPlanes, name: str = "city-dfw", city: str = "DFW") -> Object:
    """As the federator creates it, in the hub namespace of a project."""
    selector = {"matchLabels": {compute.LABEL_TOPOLOGY_CITY_CODE: city}}
    spec = {
        "resourceSelectors": [
            {
                "apiVersion": DEPLOYMENTS.api_version,
                "kind": DEPLOYMENTS.kind,
                "labelSelector": selector,
            }
        ],
        "placement": {"clusterAffinity": {"labelSelector": selector}},
    }
    body = {"metadata": {"name": name}, "spec": spec}
    return await w.hub.create(karmada.PROPAGATION_POLICIES, body, w.hub_namespace)


async def test_a_policy_that_arrives_after_its_last_deployment_is_removed() -> None:
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        await given_policy(w)
        await given_policy(w, name="of-another-origin")
        async with w.running(policy_cleanup_controller(w.hub_fleet())):
            await settle(55)
            await until_names(
                w.hub, karmada.PROPAGATION_POLICIES, "city-dfw", "of-another-origin"
            )  # its deployment may be created soon
            await settle(10)
            await until_names(w.hub, karmada.PROPAGATION_POLICIES, "of-another-origin")


@pytest.mark.parametrize("seconds", [-300, 300])
async def test_a_policy_is_kept_for_its_grace_period_whatever_the_servers_clock(
    seconds: int,
) -> None:
    """The creation time of a policy may be wrong in either direction."""
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        w.env.start += timedelta(seconds=seconds)
        await given_policy(w)
        w.env.start -= timedelta(seconds=seconds)
        async with w.running(policy_cleanup_controller(w.hub_fleet())):
            await settle(55)
            await until_names(w.hub, karmada.PROPAGATION_POLICIES, "city-dfw")
            await settle(10)
            await until_names(w.hub, karmada.PROPAGATION_POLICIES)


async def test_a_policy_is_kept_for_as_long_as_a_deployment_needs_it() -> None:
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        await given_policy(w)
        labels = {compute.LABEL_TOPOLOGY_CITY_CODE: "DFW"}
        body = deployment(NAME, replicas=1)
        body["metadata"]["labels"] = labels
        await w.hub.create(DEPLOYMENTS, body, w.hub_namespace)
        async with w.running(policy_cleanup_controller(w.hub_fleet())):
            await settle(600)
            await until_names(w.hub, karmada.PROPAGATION_POLICIES, "city-dfw")
            await w.hub.delete(DEPLOYMENTS, NAME, w.hub_namespace)
            await settle(10)
            await until_names(w.hub, karmada.PROPAGATION_POLICIES)


async def test_a_policy_recreated_for_a_new_deployment_is_not_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The deletion carries the uid of the policy that was read before the deployments."""
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        await given_policy(w)
        hub, list_deployments = w.hub, w.hub.list

        async def list_then_recreate(*args: Any, **options: Any) -> Any:
            found = await list_deployments(*args, **options)
            await hub.delete(karmada.PROPAGATION_POLICIES, "city-dfw", w.hub_namespace)
            await given_policy(w)
            return found

        monkeypatch.setattr(hub, "list", list_then_recreate)
        await ensure_policy_removed(hub, w.hub_namespace, "DFW")
        monkeypatch.undo()

        await until_names(w.hub, karmada.PROPAGATION_POLICIES, "city-dfw")
