"""A Workload becomes deployments, and their reports become its status."""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.client.protocol import merge
from datum_compute.controllers.management.workload import workload_controller
from datum_compute.runtime.writes.patch import values
from tests.support.controllers.planes import (
    NAMESPACE,
    ControllerPlanes,
    condition_value,
    controller_planes,
    counters,
    deployment,
    given_location_binding,
    given_project,
    remove_finalizers,
    report,
    settle,
    workload,
)
from tests.support.objects import condition, find, message, until, until_gone, until_names

DEPLOYMENTS = compute.WORKLOAD_DEPLOYMENTS


async def name_cities(w: ControllerPlanes, *cities: str) -> None:
    spec = workload(*cities)["spec"]
    await w.project.patch(compute.WORKLOADS, "web", merge({"spec": spec}), NAMESPACE)


async def test_one_deployment_per_city_owned_by_the_workload() -> None:
    async with controller_planes() as w:
        await given_project(w, "DFW", "LHR")
        async with w.running(workload_controller(w.projects(), w.env)):
            made = await w.project.create(compute.WORKLOADS, workload("DFW", "LHR", replicas=2))
            found = await until_names(w.project, DEPLOYMENTS, "web-main-dfw", "web-main-lhr")

        dfw = found[0].view(compute.WorkloadDeployment)
        assert dfw.metadata.labels == {compute.LABEL_WORKLOAD_UID: made.metadata.uid}
        owner = dfw.metadata.controller()
        assert owner is not None
        assert (owner.kind, owner.uid) == ("Workload", made.metadata.uid)
        assert dfw.spec.workload_ref == compute.WorkloadReference(name="web", uid=made.metadata.uid)
        assert (dfw.spec.placement_name, dfw.spec.city_code) == ("main", "DFW")
        assert dfw.spec.scale_settings.min_replicas == 2
        wanted = values(made.spec)["template"]
        assert values(found[0].spec)["template"] == wanted


async def test_deployment_counters_are_summed() -> None:
    async with controller_planes() as w:
        await given_project(w, "DFW", "LHR")
        async with w.running(workload_controller(w.projects(), w.env)):
            await w.project.create(compute.WORKLOADS, workload("DFW", "LHR", replicas=2))
            await until_names(w.project, DEPLOYMENTS, "web-main-dfw", "web-main-lhr")
            for city, ready in (("dfw", 2), ("lhr", 1)):
                await report(
                    w.project,
                    NAMESPACE,
                    f"web-main-{city}",
                    replicas=2,
                    updatedReplicas=2,
                    readyReplicas=ready,
                    desiredReplicas=2,
                    observedGeneration=1,
                    conditions=[condition_value("Available", "True", "StableInstanceFound")],
                )
            found = await until(
                w.project,
                compute.WORKLOADS,
                "web",
                NAMESPACE,
                lambda obj: counters(obj) == (4, 4, 3, 4),
            )

        assert condition(found, "Available") == ("True", "AvailablePlacementFound")
        assert values(found.status)["deployments"] == 2


async def test_a_report_on_an_older_spec_counts_no_updated_replicas() -> None:
    async with controller_planes() as w:
        await given_project(w, "DFW")
        async with w.running(workload_controller(w.projects(), w.env)):
            await w.project.create(compute.WORKLOADS, workload("DFW"))
            await until_names(w.project, DEPLOYMENTS, "web-main-dfw")
            await report(
                w.project,
                NAMESPACE,
                "web-main-dfw",
                replicas=1,
                updatedReplicas=1,
                readyReplicas=1,
                desiredReplicas=1,
                observedGeneration=1,
            )
            await until(
                w.project,
                compute.WORKLOADS,
                "web",
                NAMESPACE,
                lambda obj: counters(obj) == (1, 1, 1, 1),
            )
            spec = workload("DFW", image="acme/web:2")["spec"]
            await w.project.patch(compute.WORKLOADS, "web", merge({"spec": spec}), NAMESPACE)
            await until(
                w.project,
                compute.WORKLOADS,
                "web",
                NAMESPACE,
                lambda obj: counters(obj) == (1, 0, 1, 1),
            )


async def test_a_change_reaches_the_deployment_and_keeps_fields_of_others() -> None:
    async with controller_planes() as w:
        await given_project(w, "DFW")
        async with w.running(workload_controller(w.projects(), w.env)):
            await w.project.create(compute.WORKLOADS, workload("DFW"))
            await until_names(w.project, DEPLOYMENTS, "web-main-dfw")
            notes = {"labels": {"theirs": "yes"}, "annotations": {"theirs": "too"}}
            await w.project.patch(
                DEPLOYMENTS, "web-main-dfw", merge({"metadata": notes}), NAMESPACE
            )
            spec = workload("DFW", replicas=3, image="acme/web:2")["spec"]
            await w.project.patch(compute.WORKLOADS, "web", merge({"spec": spec}), NAMESPACE)
            found = await until(
                w.project,
                DEPLOYMENTS,
                "web-main-dfw",
                NAMESPACE,
                lambda obj: obj.metadata.generation == 2,
            )

        view = found.view(compute.WorkloadDeployment)
        sandbox = view.spec.template.spec.runtime.sandbox
        assert sandbox is not None
        assert sandbox.containers[0].image == "acme/web:2"
        assert view.spec.scale_settings.min_replicas == 3
        assert view.metadata.labels["theirs"] == "yes"
        assert view.metadata.annotations["theirs"] == "too"


async def test_a_field_removed_from_the_workload_is_removed_from_the_deployment() -> None:
    async with controller_planes() as w:
        await given_project(w, "DFW")
        async with w.running(workload_controller(w.projects(), w.env)):
            body = workload("DFW")
            container = body["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]
            container["command"] = ["/bin/true"]
            body["spec"]["placements"][0]["scaleSettings"]["maxReplicas"] = 4
            await w.project.create(compute.WORKLOADS, body)
            await until_names(w.project, DEPLOYMENTS, "web-main-dfw")
            spec = workload("DFW")["spec"]
            await w.project.patch(compute.WORKLOADS, "web", merge({"spec": spec}), NAMESPACE)
            found = await until(
                w.project,
                DEPLOYMENTS,
                "web-main-dfw",
                NAMESPACE,
                lambda obj: obj.metadata.generation == 2,
            )

        view = found.view(compute.WorkloadDeployment)
        sandbox = view.spec.template.spec.runtime.sandbox
        assert sandbox is not None
        assert not sandbox.containers[0].command
        assert view.spec.scale_settings.max_replicas is None


async def test_a_missing_network_is_named_and_its_creation_reconciles_the_workload() -> None:
    async with controller_planes() as w:
        await given_location_binding(w, "DFW")
        async with w.running(workload_controller(w.projects(), w.env)):
            await w.project.create(compute.WORKLOADS, workload("DFW"))
            found = await until(
                w.project,
                compute.WORKLOADS,
                "web",
                NAMESPACE,
                lambda obj: condition(obj, "Available") == ("False", "NetworkNotFound"),
            )
            assert "default" in message(found, "Available")
            assert await find(w.project, DEPLOYMENTS, "web-main-dfw", NAMESPACE) is None

            network = {"metadata": {"name": "default"}, "spec": {"ipam": {"mode": "Auto"}}}
            await w.project.create(networking.NETWORKS, network, NAMESPACE)
            await until_names(w.project, DEPLOYMENTS, "web-main-dfw")


async def test_a_city_without_a_binding_is_reported_and_its_binding_reconciles_the_workload() -> (
    None
):
    async with controller_planes() as w:
        await given_project(w)
        async with w.running(workload_controller(w.projects(), w.env)):
            await w.project.create(compute.WORKLOADS, workload("DFW"))
            await until(
                w.project,
                compute.WORKLOADS,
                "web",
                NAMESPACE,
                lambda obj: condition(obj, "Available") == ("False", "NoMatchingLocation"),
            )
            assert (await w.project.list(DEPLOYMENTS)).items == []

            await given_location_binding(w, "DFW")
            await until_names(w.project, DEPLOYMENTS, "web-main-dfw")


async def test_a_deployment_stays_when_its_location_binding_is_deleted() -> None:
    """A deleted binding stops nothing."""
    async with controller_planes() as w:
        await given_project(w, "DFW")
        async with w.running(workload_controller(w.projects(), w.env)):
            await w.project.create(compute.WORKLOADS, workload("DFW"))
            await until_names(w.project, DEPLOYMENTS, "web-main-dfw")
            await w.project.delete(networking.LOCATION_BINDINGS, "dfw")
            spec = workload("DFW", replicas=4)["spec"]
            await w.project.patch(compute.WORKLOADS, "web", merge({"spec": spec}), NAMESPACE)
            found = await until(
                w.project,
                DEPLOYMENTS,
                "web-main-dfw",
                NAMESPACE,
                lambda obj: obj.metadata.generation == 2,
            )

        assert not found.metadata.deleting


async def test_the_deployment_of_a_removed_city_is_counted_until_it_is_deleted() -> None:
    async with controller_planes() as w:
        await given_project(w, "DFW", "LHR")
        async with w.running(workload_controller(w.projects(), w.env)):
            await w.project.create(compute.WORKLOADS, workload("DFW", "LHR"))
            await until_names(w.project, DEPLOYMENTS, "web-main-dfw", "web-main-lhr")
            hold = {"metadata": {"finalizers": ["test/hold"]}}
            await w.project.patch(DEPLOYMENTS, "web-main-lhr", merge(hold), NAMESPACE)
            await report(w.project, NAMESPACE, "web-main-lhr", replicas=2, readyReplicas=2)
            spec = workload("DFW")["spec"]
            await w.project.patch(compute.WORKLOADS, "web", merge({"spec": spec}), NAMESPACE)
            await until(
                w.project,
                DEPLOYMENTS,
                "web-main-lhr",
                NAMESPACE,
                lambda obj: obj.metadata.deleting,
            )
            await until(
                w.project,
                compute.WORKLOADS,
                "web",
                NAMESPACE,
                lambda obj: counters(obj) == (2, 0, 2, 0),
            )
            await remove_finalizers(w.project, DEPLOYMENTS, "web-main-lhr", NAMESPACE)
            await until(
                w.project,
                compute.WORKLOADS,
                "web",
                NAMESPACE,
                lambda obj: values(obj.status)["deployments"] == 1 and counters(obj)[0] == 0,
            )


async def test_a_replaced_city_is_deleted_once_its_replacement_is_available() -> None:
    async with controller_planes() as w:
        await given_project(w, "DFW", "LHR")

        async with w.running(workload_controller(w.projects(), w.env)):
            await w.project.create(compute.WORKLOADS, workload("DFW"))
            await until_names(w.project, DEPLOYMENTS, "web-main-dfw")
            await name_cities(w, "LHR")
            both = await until_names(w.project, DEPLOYMENTS, "web-main-dfw", "web-main-lhr")
            assert both[0].metadata.annotations == {compute.ANNOTATION_REPLACED_BY: "main/LHR"}
            await until(
                w.project,
                compute.WORKLOADS,
                "web",
                NAMESPACE,
                lambda obj: "DFW stays until LHR is Available" in message(obj, "Available"),
            )
        # The record is in the store: another process goes on from there.
        async with w.running(workload_controller(w.projects(), w.env)):
            await settle()
            await until_names(w.project, DEPLOYMENTS, "web-main-dfw", "web-main-lhr")
            available = [condition_value("Available", "True", "StableInstanceFound")]
            await report(w.project, NAMESPACE, "web-main-lhr", conditions=available)
            await until_gone(w.project, DEPLOYMENTS, "web-main-dfw", NAMESPACE)


async def test_a_city_that_comes_back_is_no_longer_replaced() -> None:
    async with controller_planes() as w:
        await given_project(w, "DFW", "LHR")

        async with w.running(workload_controller(w.projects(), w.env)):
            await w.project.create(compute.WORKLOADS, workload("DFW"))
            await until_names(w.project, DEPLOYMENTS, "web-main-dfw")
            await name_cities(w, "LHR")
            await until_names(w.project, DEPLOYMENTS, "web-main-dfw", "web-main-lhr")
            await name_cities(w, "DFW", "LHR")
            await until(
                w.project,
                DEPLOYMENTS,
                "web-main-dfw",
                NAMESPACE,
                lambda obj: not obj.metadata.annotations,
            )
            await name_cities(w, "LHR")
            await until_gone(w.project, DEPLOYMENTS, "web-main-dfw", NAMESPACE)


async def test_a_restart_of_one_city_is_kept_until_a_later_one_of_all() -> None:
    restarted = compute.ANNOTATION_RESTARTED_AT

    def restart(at: str) -> dict[str, object]:
        return {"spec": {"template": {"metadata": {"annotations": {restarted: at}}}}}

    async with controller_planes() as w:
        await given_project(w, "DFW")
        async with w.running(workload_controller(w.projects(), w.env)):
            await w.project.create(compute.WORKLOADS, workload("DFW"))
            await until_names(w.project, DEPLOYMENTS, "web-main-dfw")
            await w.project.patch(
                DEPLOYMENTS, "web-main-dfw", merge(restart("2026-02-01T00:00:00Z")), NAMESPACE
            )
            await settle()
            kept = await w.project.get(DEPLOYMENTS, "web-main-dfw", NAMESPACE)
            notes = kept.view(compute.WorkloadDeployment).spec.template.metadata.annotations
            assert notes[restarted] == "2026-02-01T00:00:00Z"

            await w.project.patch(
                compute.WORKLOADS, "web", merge(restart("2026-03-01T00:00:00Z")), NAMESPACE
            )
            await until(
                w.project,
                DEPLOYMENTS,
                "web-main-dfw",
                NAMESPACE,
                lambda obj: b"2026-03-01T00:00:00Z" in bytes(obj.spec),
            )


async def test_deletion_waits_for_the_last_deployment() -> None:
    async with controller_planes() as w:
        await given_project(w, "DFW")
        async with w.running(workload_controller(w.projects(), w.env)):
            await w.project.create(compute.WORKLOADS, workload("DFW"))
            await until_names(w.project, DEPLOYMENTS, "web-main-dfw")
            hold = {"metadata": {"finalizers": ["test/hold"]}}
            await w.project.patch(DEPLOYMENTS, "web-main-dfw", merge(hold), NAMESPACE)
            await w.project.delete(compute.WORKLOADS, "web", NAMESPACE)
            await until(
                w.project,
                DEPLOYMENTS,
                "web-main-dfw",
                NAMESPACE,
                lambda obj: obj.metadata.deleting,
            )
            await settle()
            assert await find(w.project, compute.WORKLOADS, "web", NAMESPACE) is not None

            await remove_finalizers(w.project, DEPLOYMENTS, "web-main-dfw", NAMESPACE)
            await until_gone(w.project, compute.WORKLOADS, "web", NAMESPACE)

        assert (await w.project.list(DEPLOYMENTS)).items == []


async def test_a_recreated_workload_waits_until_the_old_deployment_is_gone() -> None:
    async with controller_planes() as w:
        await given_project(w, "DFW")
        predecessor = deployment()
        predecessor["metadata"]["finalizers"] = ["test/hold"]
        await w.project.create(DEPLOYMENTS, predecessor, NAMESPACE)
        await w.project.delete(DEPLOYMENTS, "web-main-dfw", NAMESPACE)
        async with w.running(workload_controller(w.projects(), w.env)):
            made = await w.project.create(compute.WORKLOADS, workload("DFW"))
            reason = ("False", "PreviousDeploymentTerminating")
            await until(
                w.project,
                compute.WORKLOADS,
                "web",
                NAMESPACE,
                lambda obj: condition(obj, "Available") == reason,
            )
            await remove_finalizers(w.project, DEPLOYMENTS, "web-main-dfw", NAMESPACE)
            found = await until(
                w.project,
                DEPLOYMENTS,
                "web-main-dfw",
                NAMESPACE,
                lambda obj: not obj.metadata.deleting,
            )

        view = found.view(compute.WorkloadDeployment)
        assert view.spec.workload_ref.uid == made.metadata.uid


async def test_a_settled_workload_is_not_written_again() -> None:
    async with controller_planes() as w:
        await given_project(w, "DFW")
        async with w.running(workload_controller(w.projects(), w.env)):
            await w.project.create(compute.WORKLOADS, workload("DFW"))
            await until_names(w.project, DEPLOYMENTS, "web-main-dfw")
            await settle()
            before = (await w.project.list(compute.WORKLOADS)).resource_version
            await settle(600)

        assert (await w.project.list(compute.WORKLOADS)).resource_version == before
