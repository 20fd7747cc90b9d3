"""A cell's deployment keeps its Instances in number and revision, one step at a time.

Provider and Instance controller are played by hand: an Instance is ready when the test
sets it so, and deleted when the test releases it.
"""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import merge
from datum_compute.controllers.cell.workload_deployment import workload_deployment_controller
from tests.support.client.intercepted_transport import CUT
from tests.support.controllers.cell_deployments import (
    DEPLOYMENTS,
    NAME,
    ONE,
    TWO,
    ZERO,
    all_run,
    change,
    controller,
    deleting,
    federated_controller,
    given,
    replaced,
    scale,
    status,
)
from tests.support.controllers.planes import (
    controller_planes,
    counters,
    remove_finalizers,
    report_serving,
    settle,
    template,
)
from tests.support.objects import condition, find, message, until, until_gone, until_names


async def test_an_instance_carries_its_labels_owner_finalizers_gates_and_hash() -> None:
    async with controller_planes() as w:
        made = await given(w, 1)
        async with w.running(federated_controller(w, w.project)):
            found = (await until_names(w.cell, compute.INSTANCES, ZERO))[0]

        view = found.view(compute.Instance)
        assert view.metadata.labels == {
            "app": "web",
            compute.LABEL_WORKLOAD_UID: "uid-of-web",
            compute.LABEL_WORKLOAD_DEPLOYMENT_UID: made.metadata.uid,
            compute.LABEL_INSTANCE_INDEX: "0",
            compute.LABEL_WORKLOAD_DEPLOYMENT_NAME: NAME,
            compute.LABEL_CITY_CODE: "DFW",
            compute.LABEL_WORKLOAD_NAME: "web",
            compute.LABEL_PLACEMENT_NAME: "main",
        }
        assert view.metadata.annotations == {"team": "blue"}
        assert view.metadata.finalizers == (
            compute.FINALIZER_INSTANCE,
            compute.FINALIZER_QUOTA_CLAIM,
        )
        owner = view.metadata.controller()
        assert owner is not None
        assert owner.uid == made.metadata.uid
        assert view.gates == (compute.GATE_QUOTA,)
        assert view.template_hash


async def test_an_instance_has_no_quota_gate_where_quota_is_not_enforced() -> None:
    async with controller_planes() as w:
        await given(w, 1)
        async with w.running(controller(w)):
            found = (await until_names(w.cell, compute.INSTANCES, ZERO))[0]

        assert found.view(compute.Instance).gates == ()


async def test_instances_are_created_in_order_each_after_its_predecessor_is_ready() -> None:
    async with controller_planes() as w:
        await given(w, 3)
        async with w.running(controller(w)):
            await until_names(w.cell, compute.INSTANCES, ZERO)
            await settle()
            await until_names(w.cell, compute.INSTANCES, ZERO)
            await report_serving(w, ZERO)
            await until_names(w.cell, compute.INSTANCES, ZERO, ONE)
            await settle()
            await until_names(w.cell, compute.INSTANCES, ZERO, ONE)
            await report_serving(w, ONE)
            await until_names(w.cell, compute.INSTANCES, ZERO, ONE, TWO)


async def test_lesson_12_a_new_image_rolls_from_the_top_one_by_one() -> None:
    async with controller_planes() as w:
        await given(w, 3)
        async with w.running(controller(w)):
            await all_run(w, ZERO, ONE, TWO)
            await status(w, (3, 3, 3, 3))
            await change(w, template=template("acme/web:2"))
            for name, others in ((TWO, (ZERO, ONE)), (ONE, (ZERO, TWO)), (ZERO, (ONE, TWO))):
                old = await deleting(w, name)
                await settle()
                for other in others:
                    kept = await w.cell.get(compute.INSTANCES, other, w.hub_namespace)
                    assert not kept.metadata.deleting
                await replaced(w, name, old)
            await status(w, (3, 3, 3, 3))

        for obj in (await w.cell.list(compute.INSTANCES)).items:
            sandbox = obj.view(compute.Instance).spec.runtime.sandbox
            assert sandbox is not None
            assert sandbox.containers[0].image == "acme/web:2"


async def test_a_bad_image_is_fixed_by_a_good_one() -> None:
    async with controller_planes() as w:
        await given(w, 2, image="acme/web:bad")
        async with w.running(controller(w)):
            await until_names(w.cell, compute.INSTANCES, ZERO)
            await settle()
            await change(w, template=template("acme/web:good"))
            old = await deleting(w, ZERO)
            await replaced(w, ZERO, old)
            await until_names(w.cell, compute.INSTANCES, ZERO, ONE)


async def test_a_template_that_cannot_be_instantiated_is_reported_until_it_changes() -> None:
    """Admission would have refused it."""
    async with controller_planes() as w:
        await given(w, 1)
        large = template()
        large["metadata"]["annotations"] = {"note": "x" * (256 * 1024)}
        await change(w, template=large)
        async with w.running(controller(w)):
            reported = await until(
                w.cell,
                DEPLOYMENTS,
                NAME,
                w.hub_namespace,
                lambda it: condition(it, "ReplicasReady") == ("False", "ConfigurationError"),
            )
            assert message(reported, "ReplicasReady") == (
                "the cell rejects Instances of this template: metadata.annotations: Too long:"
                " may not be more than 262144 bytes"
            )
            await settle(3600)
            again = await find(w.cell, DEPLOYMENTS, NAME, w.hub_namespace)
            assert again is not None
            assert again.metadata.resource_version == reported.metadata.resource_version

            await change(w, template={"metadata": {"annotations": {"note": None}}})
            await until_names(w.cell, compute.INSTANCES, ZERO)
            await report_serving(w, ZERO)
            await until(
                w.cell,
                DEPLOYMENTS,
                NAME,
                w.hub_namespace,
                lambda it: condition(it, "ReplicasReady") == ("True", "ReplicasAvailable"),
            )


async def test_scaling_down_removes_the_highest_ordinals_one_by_one() -> None:
    async with controller_planes() as w:
        await given(w, 3)
        async with w.running(controller(w)):
            await all_run(w, ZERO, ONE, TWO)
            await scale(w, 1)
            await deleting(w, TWO)
            await settle()
            kept = await w.cell.get(compute.INSTANCES, ONE, w.hub_namespace)
            assert not kept.metadata.deleting

            await remove_finalizers(w.cell, compute.INSTANCES, TWO, w.hub_namespace)
            await deleting(w, ONE)
            await remove_finalizers(w.cell, compute.INSTANCES, ONE, w.hub_namespace)
            await until_names(w.cell, compute.INSTANCES, ZERO)
            await status(w, (1, 1, 1, 1))


async def test_scaling_to_zero_deletes_all_at_once_and_reports_zero() -> None:
    async with controller_planes() as w:
        await given(w, 2)
        async with w.running(controller(w)):
            await all_run(w, ZERO, ONE)
            await scale(w, 0)
            for name in (ZERO, ONE):
                await deleting(w, name)
            for name in (ZERO, ONE):
                await remove_finalizers(w.cell, compute.INSTANCES, name, w.hub_namespace)
            await status(w, (0, 0, 0, 0))


async def test_deletion_waits_for_the_last_instance() -> None:
    async with controller_planes() as w:
        await given(w, 2)
        async with w.running(controller(w)):
            await all_run(w, ZERO, ONE)
            await w.cell.delete(DEPLOYMENTS, NAME, w.hub_namespace)
            for name in (ZERO, ONE):
                await deleting(w, name)
            await remove_finalizers(w.cell, compute.INSTANCES, ONE, w.hub_namespace)
            await settle()
            left = await w.cell.get(DEPLOYMENTS, NAME, w.hub_namespace)
            assert counters(left)[0] == 1

            await remove_finalizers(w.cell, compute.INSTANCES, ZERO, w.hub_namespace)
            await until_gone(w.cell, DEPLOYMENTS, NAME, w.hub_namespace)


async def test_lesson_14_labels_are_corrected_while_other_actions_wait() -> None:
    async with controller_planes() as w:
        made = await given(w, 2)
        async with w.running(controller(w)):
            await until_names(w.cell, compute.INSTANCES, ZERO)
            body = {"metadata": {"labels": {compute.LABEL_CITY_CODE: None, "theirs": "yes"}}}
            await w.cell.patch(compute.INSTANCES, ZERO, merge(body), w.hub_namespace)
            found = await until(
                w.cell,
                compute.INSTANCES,
                ZERO,
                w.hub_namespace,
                lambda obj: obj.metadata.labels.get(compute.LABEL_CITY_CODE) == "DFW",
            )

        assert found.metadata.labels["theirs"] == "yes"
        assert found.metadata.generation == 1
        assert found.metadata.labels[compute.LABEL_WORKLOAD_DEPLOYMENT_UID] == made.metadata.uid


async def test_an_instance_without_its_deployment_label_gets_it_back() -> None:
    async with controller_planes() as w:
        made = await given(w, 1)
        async with w.running(controller(w)):
            await until_names(w.cell, compute.INSTANCES, ZERO)
            key = compute.LABEL_WORKLOAD_DEPLOYMENT_UID
            body = {"metadata": {"labels": {key: None}}}
            await w.cell.patch(compute.INSTANCES, ZERO, merge(body), w.hub_namespace)
            await until(
                w.cell,
                compute.INSTANCES,
                ZERO,
                w.hub_namespace,
                lambda obj: obj.metadata.labels.get(key) == made.metadata.uid,
            )


async def test_a_cell_without_contact_rolls_nothing_and_still_scales_down() -> None:
    async with controller_planes() as w:
        await given(w, 2)
        client, link = w.linked("hub")
        hub = w.hub_fleet(client)
        cell = w.cell_fleet()
        cut_off = workload_deployment_controller(cell, w.env, networking=False, hub=hub)
        link.rules.append(CUT)
        async with w.running(cut_off):
            await all_run(w, ZERO, ONE)
            await change(w, template=template("acme/web:2"))
            await settle()
            for obj in await until_names(w.cell, compute.INSTANCES, ZERO, ONE):
                assert not obj.metadata.deleting

            await scale(w, 1)
            await deleting(w, ONE)
            await remove_finalizers(w.cell, compute.INSTANCES, ONE, w.hub_namespace)
            await settle()
            kept = await w.cell.get(compute.INSTANCES, ZERO, w.hub_namespace)
            assert not kept.metadata.deleting

            link.rules.remove(CUT)
            await deleting(w, ZERO)


async def test_an_action_interrupted_by_a_crash_is_repeated() -> None:
    crashes = iter([True, False, True])

    def crash() -> None:
        if next(crashes, False):
            raise RuntimeError("the process ends here")

    async with controller_planes() as w:
        w.env.on_fault("workload-deployment.action", crash)
        await given(w, 2)
        async with w.running(controller(w)):
            await all_run(w, ZERO, ONE)
            await status(w, (2, 2, 2, 2))
