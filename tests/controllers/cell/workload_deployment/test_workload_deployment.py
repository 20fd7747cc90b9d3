"""A cell's deployment keeps its Instances in number and revision, one step at a time.

The test acts as provider and Instance controller: an Instance is ready when the test
sets it so, and deleted when the test releases it.
"""

from __future__ import annotations

from typing import Any

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.client.protocol import merge
from datum_compute.controllers.cell.workload_deployment import workload_deployment_controller
from datum_compute.runtime.writes.patch import values
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
    given,
    replaced,
    status,
)
from tests.support.controllers.planes import (
    ControllerPlanes,
    condition,
    condition_value,
    controller_planes,
    counters,
    find,
    message,
    remove_finalizers,
    report_serving,
    set_condition,
    settle,
    template,
    until,
    until_gone,
    until_names,
)


async def scale(w: ControllerPlanes, replicas: int) -> None:
    await change(w, scaleSettings={"minReplicas": replicas})


async def test_an_instance_carries_its_labels_owner_finalizers_gates_and_hash() -> None:
    async with controller_planes() as w:
        made = await given(w, 1)
        async with w.running(controller(w)):
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
            await settle(0.09)
            unreported = await reported_now(w)
            await settle(0.02)
            reported = await reported_now(w)
            await scale(w, 2)
            await settle(0.2)
            later = await reported_now(w)

        assert counters(unreported) == (1, 0, 0, 1)
        assert counters(reported) == (1, 1, 0, 1)
        assert counters(later) == (1, 1, 0, 2)


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


# Networks.


async def given_location(w: ControllerPlanes) -> None:
    spec = {"topology": {networking.TOPOLOGY_CITY_CODE: "DFW"}}
    await w.cell.create(networking.LOCATIONS, {"metadata": {"name": "dfw"}, "spec": spec})


async def bind(w: ControllerPlanes, network: str = "default") -> None:
    """The network service answers the binding with a ready context."""
    reference = {"name": "dfw", "namespace": ""}
    context = {
        "metadata": {"name": f"{network}-dfw"},
        "spec": {"network": {"name": network}, "location": reference},
    }
    made = await w.cell.create(networking.NETWORK_CONTEXTS, context, w.hub_namespace)
    await set_condition(w, w.cell, networking.NETWORK_CONTEXTS, made, "Ready")
    name = f"{NAME}-net-0"
    binding = await until(
        w.cell,
        networking.NETWORK_BINDINGS,
        name,
        w.hub_namespace,
        lambda obj: obj.view(networking.NetworkBinding).spec.network.name == network,
    )
    await set_condition(
        w,
        w.cell,
        networking.NETWORK_BINDINGS,
        binding,
        "Ready",
        networkContextRef={"namespace": w.hub_namespace, "name": f"{network}-dfw"},
    )


async def give_subnet(w: ControllerPlanes, network: str = "default") -> None:
    """The network service fulfils the claim with a ready subnet."""
    claim = await until(
        w.cell, networking.SUBNET_CLAIMS, f"{network}-dfw-0", w.hub_namespace, lambda obj: True
    )
    spec = {**values(claim.spec), "startAddress": "10.128.0.0", "prefixLength": 20}
    body = {"metadata": {"name": claim.name}, "spec": spec}
    subnet = await w.cell.create(networking.SUBNETS, body, w.hub_namespace)
    await set_condition(w, w.cell, networking.SUBNETS, subnet, "Ready")
    await set_condition(
        w, w.cell, networking.SUBNET_CLAIMS, claim, "Ready", subnetRef={"name": claim.name}
    )


async def test_networks_are_requested_and_their_gate_is_removed_when_they_are_ready() -> None:
    async with controller_planes() as w:
        await given_location(w)
        made = await given(w, 2)
        async with w.running(controller(w, with_networks=True)):
            first = await until(w.cell, compute.INSTANCES, ZERO, w.hub_namespace, lambda o: True)
            view = first.view(compute.Instance)
            assert view.gates == (compute.GATE_NETWORK, compute.GATE_QUOTA)
            assert view.spec.location is not None
            assert view.spec.location.name == "dfw"
            found = await status(w, (1, 0, 0, 2))
            assert condition(found, "Available") == ("False", "ProvisioningNetwork")
            assert values(found.status)["location"]["name"] == "dfw"

            await bind(w)
            await give_subnet(w)
            await until(
                w.cell,
                compute.INSTANCES,
                ZERO,
                w.hub_namespace,
                lambda obj: obj.view(compute.Instance).gates == (compute.GATE_QUOTA,),
            )
            await report_serving(w, ZERO)
            second = await until(w.cell, compute.INSTANCES, ONE, w.hub_namespace, lambda o: True)
            assert second.view(compute.Instance).gates == (compute.GATE_QUOTA,)

        binding = await w.cell.get(networking.NETWORK_BINDINGS, f"{NAME}-net-0", w.hub_namespace)
        spec = binding.view(networking.NetworkBinding).spec
        assert (spec.network.name, spec.network.namespace) == ("default", w.hub_namespace)
        owner = binding.metadata.controller()
        assert owner is not None
        assert owner.uid == made.metadata.uid
        claim = await w.cell.get(networking.SUBNET_CLAIMS, "default-dfw-0", w.hub_namespace)
        assert claim.metadata.controller() is None
        assert [each.kind for each in claim.metadata.owner_references] == ["NetworkContext"]
        asked = claim.view(networking.SubnetClaim).spec
        assert (asked.subnet_class, asked.ip_family) == ("private", "IPv4")


def on_networks(*names: str) -> dict[str, Any]:
    """The part of a spec with the networks of its Instances."""
    return {"spec": {"networkInterfaces": [{"network": {"name": name}} for name in names]}}


async def bound_networks(w: ControllerPlanes) -> list[str]:
    found = (await w.cell.list(networking.NETWORK_BINDINGS)).items
    return [obj.view(networking.NetworkBinding).spec.network.name for obj in found]


async def test_a_new_network_is_bound_before_an_instance_starts_in_it() -> None:
    async with controller_planes() as w:
        await given_location(w)
        await given(w, 1)
        async with w.running(controller(w, with_networks=True)):
            await bind(w)
            await give_subnet(w)
            await report_serving(w, ZERO)
            await change(w, template=on_networks("blue"))
            await until(
                w.cell, compute.INSTANCES, ZERO, w.hub_namespace, lambda obj: obj.metadata.deleting
            )
            await remove_finalizers(w.cell, compute.INSTANCES, ZERO, w.hub_namespace)
            found = await until(
                w.cell,
                compute.INSTANCES,
                ZERO,
                w.hub_namespace,
                lambda obj: not obj.view(compute.Instance).ready,
            )
            view = found.view(compute.Instance)
            assert view.gates == (compute.GATE_NETWORK, compute.GATE_QUOTA)
            assert await bound_networks(w) == ["blue"]

            await bind(w, "blue")
            await give_subnet(w, "blue")
            await until(
                w.cell,
                compute.INSTANCES,
                ZERO,
                w.hub_namespace,
                lambda obj: obj.view(compute.Instance).gates == (compute.GATE_QUOTA,),
            )


async def test_bindings_follow_the_interfaces_of_the_template() -> None:
    async with controller_planes() as w:
        await given_location(w)
        await given(w, 1)
        theirs = {
            "metadata": {"name": f"{NAME}-net-1"},
            "spec": {"network": {"name": "red"}, "location": {"name": "dfw", "namespace": ""}},
        }
        async with w.running(controller(w, with_networks=True)):
            for wanted in (["a", "b", "c"], ["c", "b"], ["b"], ["b", "a", "c"], ["c", "c"]):
                await change(w, template=on_networks(*wanted))
                await settle(5)
                assert await bound_networks(w) == wanted

            await change(w, template=on_networks("c"))
            await settle(5)
            await w.cell.create(networking.NETWORK_BINDINGS, theirs, w.hub_namespace)
            await settle(5)
            assert await bound_networks(w) == ["c", "red"], "objects of another origin stay"


async def test_an_unknown_location_is_reported_and_blocks_no_instance() -> None:
    async with controller_planes() as w:
        await given(w, 1)
        async with w.running(controller(w, with_networks=True)):
            await until_names(w.cell, compute.INSTANCES, ZERO)
            found = await status(w, (1, 0, 0, 1))
            assert condition(found, "Available") == ("False", "NoMatchingLocation")

            await given_location(w)
            name = f"{NAME}-net-0"
            await until(w.cell, networking.NETWORK_BINDINGS, name, w.hub_namespace, lambda o: True)


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
