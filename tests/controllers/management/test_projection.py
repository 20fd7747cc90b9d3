"""Instances that cells write to the hub are projected for as long as they exist."""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import merge
from datum_compute.controllers.management.projection import projector
from datum_compute.runtime.writes.patch import values
from tests.support.client.intercepted_transport import NO_NEW_WATCHES
from tests.support.controllers.planes import NAMESPACE, controller_planes, given_namespace, settle
from tests.support.controllers.projections import (
    DEPLOYMENT,
    NAME,
    controller,
    given_hub_instance,
    given_owner,
    hub_instance,
    projected,
    projection,
    reported,
)
from tests.support.objects import condition, find, until, until_gone


async def test_an_instance_is_projected_with_labels_spec_status_and_owner() -> None:
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        owner = await given_owner(w)
        async with w.running(controller(w)):
            source = await given_hub_instance(w)
            found = await projection(w)

        assert values(found.spec) == values(source.spec)
        labels = {
            **source.metadata.labels,
            compute.LABEL_WORKLOAD_DEPLOYMENT_UID: owner.metadata.uid,
        }
        assert found.metadata.labels == labels
        assert found.metadata.annotations == {compute.ANNOTATION_INSTANCE_UID: "cell-uid-1"}
        assert [each.uid for each in found.metadata.owner_references] == [owner.metadata.uid]
        assert not found.metadata.owner_references[0].controller
        assert found.metadata.finalizers == ()


async def test_lesson_13_the_owner_is_found_by_name_and_nothing_is_projected_without_one() -> None:
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        async with w.running(controller(w)):
            await given_hub_instance(w)
            await settle(20)
            assert await find(w.project, compute.INSTANCES, NAME, NAMESPACE) is None

            owner = await given_owner(w)
            found = await until(
                w.project, compute.INSTANCES, NAME, NAMESPACE, lambda obj: True, within=1.0
            )
            assert [each.uid for each in found.metadata.owner_references] == [owner.metadata.uid]


async def test_the_owner_of_an_unlabelled_instance_is_derived_from_its_name() -> None:
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        await given_owner(w)
        async with w.running(controller(w)):
            body = hub_instance(w)
            del body["metadata"]["labels"][compute.LABEL_WORKLOAD_DEPLOYMENT_NAME]
            await w.hub.create(compute.INSTANCES, body)
            await until(w.project, compute.INSTANCES, NAME, NAMESPACE, lambda obj: True)


async def test_a_new_instance_and_its_first_status_are_projected_in_one_reconcile() -> None:
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        await given_owner(w)
        controlled = controller(w)
        async with w.running(controlled):
            await settle()
            before = controlled.statistics().runs
            await given_hub_instance(w)
            await projection(w)
            await settle()

            assert controlled.statistics().runs - before == 1


async def test_an_instance_without_a_status_is_projected() -> None:
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        await given_owner(w)
        async with w.running(controller(w)):
            await w.hub.create(compute.INSTANCES, hub_instance(w))
            await until(w.project, compute.INSTANCES, NAME, NAMESPACE, lambda obj: True, within=1.0)


async def test_a_status_change_is_projected_at_once() -> None:
    async with projected() as w:
        await reported(w, "Ready", "True", "Available")
        await until(
            w.project,
            compute.INSTANCES,
            NAME,
            NAMESPACE,
            lambda obj: condition(obj, "Ready") == ("True", "Available"),
            within=1.0,
        )


async def test_a_projection_is_deleted_with_the_hub_copy() -> None:
    async with projected() as w:
        await w.hub.delete(compute.INSTANCES, NAME, w.hub_namespace)
        await until_gone(w.project, compute.INSTANCES, NAME, NAMESPACE)


async def test_a_projection_without_a_hub_copy_is_deleted_after_a_restart() -> None:
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        await given_owner(w)
        async with w.running(controller(w)):
            await given_hub_instance(w)
            await projection(w)
        await w.hub.delete(compute.INSTANCES, NAME, w.hub_namespace)
        async with w.running(controller(w)):
            await until_gone(w.project, compute.INSTANCES, NAME, NAMESPACE)


async def test_a_projection_stays_while_only_a_stale_cache_lacks_its_hub_copy() -> None:
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        await given_owner(w)
        hub_client, link = w.linked("hub")
        link.rules.append(NO_NEW_WATCHES)
        async with w.running(projector(w.projects(), w.hub_fleet(hub_client), w.env)):
            await settle(5)  # the hub has been listed, without the copy
            await given_hub_instance(w)
            body = hub_instance(w)
            body["metadata"]["namespace"] = NAMESPACE
            shown = await w.project.create(compute.INSTANCES, body, NAMESPACE)
            await settle(60)
            kept = await w.project.get(compute.INSTANCES, NAME, NAMESPACE)
            assert kept.metadata.uid == shown.metadata.uid

            link.rules.clear()
            await settle(60)
            assert (await projection(w)).metadata.owner_references


async def test_a_projection_deleted_by_hand_is_restored() -> None:
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        await given_owner(w)
        async with w.running(controller(w)):
            await given_hub_instance(w)
            first = await projection(w)
            await w.project.delete(compute.INSTANCES, NAME, NAMESPACE)
            await until(
                w.project,
                compute.INSTANCES,
                NAME,
                NAMESPACE,
                lambda obj: obj.metadata.uid != first.metadata.uid,
            )


async def test_a_recreated_instance_gets_a_new_projection() -> None:
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        await given_owner(w)
        async with w.running(controller(w)):
            await given_hub_instance(w)
            first = await projection(w)
            await settle(60)
            successor = {compute.ANNOTATION_INSTANCE_UID: "cell-uid-2"}
            body = {"metadata": {"annotations": successor}}
            await w.hub.patch(compute.INSTANCES, NAME, merge(body), w.hub_namespace)
            found = await until(
                w.project,
                compute.INSTANCES,
                NAME,
                NAMESPACE,
                lambda obj: obj.metadata.annotations == successor,
            )

        assert found.metadata.uid != first.metadata.uid
        assert found.metadata.creation_timestamp != first.metadata.creation_timestamp


async def test_a_projection_without_an_owner_gets_one() -> None:
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        owner = await given_owner(w)
        async with w.running(controller(w)):
            await given_hub_instance(w)
            await projection(w)
            body = {"metadata": {"ownerReferences": None}}
            await w.project.patch(compute.INSTANCES, NAME, merge(body), NAMESPACE)
            await until(
                w.project,
                compute.INSTANCES,
                NAME,
                NAMESPACE,
                lambda obj: (
                    [each.uid for each in obj.metadata.owner_references] == [owner.metadata.uid]
                ),
            )


async def test_instances_of_a_deleted_deployment_are_collected_with_it() -> None:
    async with projected() as w:
        await w.project.delete(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, NAMESPACE)
        await until_gone(w.project, compute.INSTANCES, NAME, NAMESPACE)


async def test_an_instance_of_an_unknown_project_is_left_alone() -> None:
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        await given_owner(w)
        labels = {compute.LABEL_UPSTREAM_CLUSTER_NAME: "cluster-elsewhere"}
        async with w.running(controller(w)):
            await w.hub.create(compute.INSTANCES, hub_instance(w, **labels))
            await settle()

        assert (await w.project.list(compute.INSTANCES)).items == []


async def test_a_settled_projection_is_not_written_again() -> None:
    async with projected() as w:
        await settle()
        before = (await w.project.list(compute.INSTANCES)).resource_version
        await settle(600)

        assert (await w.project.list(compute.INSTANCES)).resource_version == before
