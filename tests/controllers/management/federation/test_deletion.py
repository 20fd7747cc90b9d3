"""A deployment that is deleted in its project leaves the hub.

Karmada is played by hand: its bindings, Works and Clusters.
"""

from __future__ import annotations

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client.protocol import merge
from datum_compute.controllers.management.federation import federator
from datum_compute.controllers.management.workload import workload_controller
from datum_compute.runtime.writes.patch import values
from tests.support.controllers.federation import (
    BINDING,
    DEPLOYMENTS,
    NAME,
    given_binding,
    given_cell,
    given_deployment,
    given_work,
    on_hub,
    shown,
)
from tests.support.controllers.planes import (
    NAMESPACE,
    ControllerPlanes,
    controller_planes,
    counters,
    deployment,
    given_project,
    remove_finalizers,
    report,
    settle,
    workload,
)
from tests.support.objects import condition, find, message, until, until_gone


async def scaled_to_zero(w: ControllerPlanes) -> int:
    """The project generation that asks for zero, once the hub copy does."""

    def is_zero(obj: Object) -> bool:
        return obj.view(compute.WorkloadDeployment).spec.scale_settings.min_replicas == 0

    copy = await until(w.hub, DEPLOYMENTS, NAME, w.hub_namespace, is_zero)
    return copy.view(compute.WorkloadDeployment).source_generation


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
            stamp = await scaled_to_zero(w)
            await settle()
            assert await find(w.hub, DEPLOYMENTS, NAME, w.hub_namespace) is not None

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


async def test_deletion_waits_ten_minutes_for_a_cell_that_acknowledges_and_does_not_drain() -> None:
    async with controller_planes() as w:
        await given_cell(w)
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            await given_deployment(w)
            await given_binding(w, "dfw")
            await report(w.hub, w.hub_namespace, NAME, replicas=1, observedGeneration=1)
            await w.project.delete(DEPLOYMENTS, NAME, NAMESPACE)
            stamp = await scaled_to_zero(w)
            await report(w.hub, w.hub_namespace, NAME, replicas=1, observedGeneration=stamp)
            found = await shown(w, ("Removed", "False", "Draining"))
            assert "Cell dfw has been stopping Instances since 2026" in message(found, "Removed")
            assert "1 is left" in message(found, "Removed")
            await settle(580)
            assert await find(w.hub, DEPLOYMENTS, NAME, w.hub_namespace) is not None

            await until_gone(w.hub, DEPLOYMENTS, NAME, w.hub_namespace)


async def test_deletion_goes_on_after_ninety_seconds_where_the_cell_acknowledges_nothing() -> None:
    """The API server of the cell answers, so that the cell counts as reachable; its manager is
    down."""
    async with controller_planes() as w:
        await given_cell(w)
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            await given_deployment(w)
            await given_binding(w, "dfw")
            await report(w.hub, w.hub_namespace, NAME, replicas=1, observedGeneration=1)
            await w.project.delete(DEPLOYMENTS, NAME, NAMESPACE)
            await scaled_to_zero(w)
            found = await shown(w, ("Removed", "False", "DrainNotAcknowledged"))
            assert "was asked at 2026" in message(found, "Removed")
            await settle(75)
            assert await find(w.hub, DEPLOYMENTS, NAME, w.hub_namespace) is not None

            await until_gone(w.hub, DEPLOYMENTS, NAME, w.hub_namespace, within=20.0)
            await shown(w, ("Removed", "False", "RemovingFromHub"))
            await remove_finalizers(w.hub, karmada.RESOURCE_BINDINGS, BINDING, w.hub_namespace)
            await until_gone(w.project, DEPLOYMENTS, NAME, NAMESPACE)


async def test_a_copy_that_its_cell_refuses_is_kept_for_ten_minutes_and_the_project_says_so() -> (
    None
):
    """Karmada would delete neither what it could not apply to, nor its Instances."""
    async with controller_planes() as w:
        await given_cell(w)
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            await given_deployment(w)
            await given_binding(w, "dfw")
            await report(w.hub, w.hub_namespace, NAME, replicas=1, observedGeneration=1)
            item = {"clusterName": "dfw", "applied": False, "appliedMessage": "it exists already"}
            await w.hub.patch(
                karmada.RESOURCE_BINDINGS,
                BINDING,
                merge({"status": {"aggregatedStatus": [item]}}),
                w.hub_namespace,
                subresource="status",
            )
            await w.project.delete(DEPLOYMENTS, NAME, NAMESPACE)
            await scaled_to_zero(w)
            found = await shown(w, ("Removed", "False", "DrainRefused"))
            assert "it exists already" in message(found, "Removed")
            await settle(570)
            assert await find(w.hub, DEPLOYMENTS, NAME, w.hub_namespace) is not None

            await until_gone(w.hub, DEPLOYMENTS, NAME, w.hub_namespace)


async def test_a_deletion_that_takes_a_few_seconds_reports_no_wait() -> None:
    async with controller_planes() as w:
        await given_cell(w)
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            await given_deployment(w)
            await given_binding(w, "dfw")
            await report(w.hub, w.hub_namespace, NAME, replicas=1, observedGeneration=1)
            await w.project.delete(DEPLOYMENTS, NAME, NAMESPACE)
            await scaled_to_zero(w)
            await settle(3)
            current = await w.project.get(DEPLOYMENTS, NAME, NAMESPACE)

        assert condition(current, "Removed") == ("", "")


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
