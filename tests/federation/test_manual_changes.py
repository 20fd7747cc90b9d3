"""Manual changes on planes that users do not own, and their results."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import msgspec
import pytest

from datum_compute.api import core, karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.scheme import Resource
from datum_compute.client.errors import NotFound, NotServed
from datum_compute.client.protocol import merge
from datum_compute.testing.expectations import eventually
from tests.support.federation.stage import NAMESPACE, Stage, stage
from tests.support.simulation.platform import apply, leftovers, list_on_planes, missing_for_image
from tests.support.simulation.random_operations import DesiredWorkload
from tests.support.simulation.settled import unsettled

MANAGEMENT = "compute-management"
DESIRED = DesiredWorkload("web", "acme/web:1", 2, ("DFW", "LHR"))


async def deployed(on: Stage) -> None:
    await apply(on, DESIRED.to_create())
    await eventually("deployed", lambda: unsettled(on, {"web": DESIRED}))


async def orphan_on_hub(on: Stage) -> None:
    for obj in await list_on_planes(on, compute.WORKLOAD_DEPLOYMENTS, "hub"):
        await on.hub.delete(
            compute.WORKLOAD_DEPLOYMENTS, obj.name, obj.namespace, propagation="Orphan"
        )


async def test_hub_copies_deleted_with_orphaned_dependents_are_recreated() -> None:
    async with stage() as on:
        await deployed(on)
        before = {
            obj.metadata.uid for obj in await list_on_planes(on, compute.INSTANCES, "cell/dfw")
        }
        await orphan_on_hub(on)
        await eventually("as before", lambda: unsettled(on, {"web": DESIRED}))
        after = {
            obj.metadata.uid for obj in await list_on_planes(on, compute.INSTANCES, "cell/dfw")
        }

        assert after == before, "nothing that ran was lost"
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        await eventually("gone", lambda: leftovers(on), within=60)


async def test_a_workload_is_deleted_although_its_hub_copies_were_orphaned() -> None:
    async with stage() as on:
        await deployed(on)
        on.stop(MANAGEMENT)
        await orphan_on_hub(on)
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        for obj in (await on.project.list(compute.WORKLOAD_DEPLOYMENTS)).items:
            await on.project.delete(compute.WORKLOAD_DEPLOYMENTS, obj.name, NAMESPACE)
        await on.start(MANAGEMENT)

        await eventually("gone", lambda: leftovers(on), within=60)


@pytest.mark.parametrize("cut", [False, pytest.param(True, marks=pytest.mark.long)])
async def test_a_workload_moved_to_another_network_uses_it(cut: bool) -> None:
    """Also when its cells restart meanwhile."""
    async with stage() as on:
        await deployed(on)
        blue = {"metadata": {"name": "blue"}, "spec": {"ipam": {"mode": "Auto"}}}
        await on.project.create(networking.NETWORKS, blue, NAMESPACE)
        interfaces = [{"network": {"name": "blue"}}]
        body = {"spec": {"template": {"spec": {"networkInterfaces": interfaces}}}}
        await on.project.patch(compute.WORKLOADS, "web", merge(body), NAMESPACE)
        if cut:
            await asyncio.sleep(0.05)
            await on.restart("compute-cell-dfw", "provider-dfw", "compute-cell-lhr")

        async def on_blue() -> str:
            for obj in await list_on_planes(
                on, networking.NETWORK_BINDINGS, "cell/dfw", "cell/lhr"
            ):
                name = obj.view(networking.NetworkBinding).spec.network.name
                if name != "blue":
                    return f"{obj.name} is for {name}"
            for obj in await list_on_planes(on, compute.INSTANCES, "cell/dfw", "cell/lhr"):
                [interface] = obj.view(compute.Instance).spec.network_interfaces
                if interface.network.name != "blue":
                    return f"{obj.name} is on {interface.network.name}"
            return await missing_for_image(on, "acme/web:1", 4)

        await eventually("on blue", on_blue, within=120)


async def test_instances_of_a_cell_removed_from_the_hub_are_not_counted() -> None:
    async with stage() as on:
        await deployed(on)
        on.platform.restores_setup = False
        await on.hub.delete(karmada.CLUSTERS, "dfw")

        async def reported() -> str:
            obj = await on.project.get(compute.WORKLOADS, "web", NAMESPACE)
            status = obj.view(compute.Workload).status
            counted = (status.replicas, status.ready_replicas, status.desired_replicas)
            return "" if counted == (2, 2, 4) else f"it counts {counted}"

        await eventually("half of the replicas are counted", reported, within=60)


async def test_a_deleted_cluster_of_the_platform_comes_back_by_itself() -> None:
    async with stage() as on:
        await deployed(on)
        before = await on.hub.get(karmada.CLUSTERS, "dfw")
        await on.hub.delete(karmada.CLUSTERS, "dfw")

        async def restored() -> str:
            try:
                cluster = await on.hub.get(karmada.CLUSTERS, "dfw")
            except NotFound:
                return "there is no Cluster dfw"
            if cluster.metadata.uid == before.metadata.uid:
                return "the Cluster is being deleted"
            return await missing_for_image(on, "acme/web:1", 4)

        await eventually("dfw runs its Instances again", restored, within=180)


async def test_a_deleted_definition_of_the_platform_comes_back_by_itself() -> None:
    definitions = Resource(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        namespaced=False,
    )
    async with stage() as on:
        before = {each.metadata.uid for each in (await on.hub.list(karmada.CLUSTERS)).items}
        await on.hub.delete(definitions, "clusters.cluster.karmada.io")

        async def restored() -> str:
            try:
                clusters = (await on.hub.list(karmada.CLUSTERS)).items
            except NotServed:
                return "the kind is not served"
            new = {each.name for each in clusters if each.metadata.uid not in before}
            return "" if new == {"dfw", "lhr"} else f"the new Clusters are {new}"

        await eventually("the Clusters are there again", restored, within=60)


async def test_a_deployment_whose_binding_was_deleted_is_reported_and_comes_back() -> None:
    """Karmada empties the cell and does not make the binding again by itself."""
    async with stage() as on:
        await deployed(on)
        [binding] = [
            each
            for each in await list_on_planes(on, karmada.RESOURCE_BINDINGS, "hub")
            if "-dfw-" in each.name
        ]
        await on.hub.delete(karmada.RESOURCE_BINDINGS, binding.name, binding.namespace)

        async def reported() -> str:
            # The condition itself lasts only until the stand-in has sent it again.
            events = (await on.project.list(core.EVENTS, NAMESPACE)).items
            found = [msgspec.json.decode(each.to_wire())["reason"] for each in events]
            return "" if "NotPropagated" in found else str(found)

        await eventually("reported", reported, within=20)
        await eventually("as before", lambda: unsettled(on, {"web": DESIRED}), within=60)


async def strip(on: Stage, resource: Resource, name: str, namespace: str = "") -> None:
    """Remove every label and annotation of an object in the cell."""
    found = await on.cell().get(resource, name, namespace)
    metadata = {
        "labels": dict.fromkeys(found.metadata.labels),
        "annotations": dict.fromkeys(found.metadata.annotations),
    }
    await on.cell().patch(resource, name, merge({"metadata": metadata}), namespace)


async def test_a_deployment_stripped_of_its_labels_in_the_cell_is_destroyed_whole() -> None:
    async with stage() as on:
        await deployed(on)
        await strip(on, compute.WORKLOAD_DEPLOYMENTS, "web-default-dfw", on.hub_namespace)
        await asyncio.sleep(30)
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)

        await eventually("gone", lambda: leftovers(on), within=60)


async def test_an_update_reaches_a_deployment_that_was_stripped_of_its_labels() -> None:
    async with stage() as on:
        await deployed(on)
        await strip(on, compute.WORKLOAD_DEPLOYMENTS, "web-default-dfw", on.hub_namespace)
        await asyncio.sleep(30)
        later = replace(DESIRED, image="acme/web:2")
        await apply(on, later.to_create())

        await eventually("updated", lambda: unsettled(on, {"web": later}), within=120)


async def test_what_runs_in_a_cell_and_is_unknown_to_the_hub_is_removed_in_the_end() -> None:
    """The hub copy goes while the cell is stripped of its marks, and the cell is unreachable."""
    async with stage() as on:
        await deployed(on)
        on.stop(MANAGEMENT)
        await strip(on, compute.WORKLOAD_DEPLOYMENTS, "web-default-dfw", on.hub_namespace)
        await on.hub.delete(compute.WORKLOAD_DEPLOYMENTS, "web-default-dfw", on.hub_namespace)
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        await asyncio.sleep(120)
        assert await list_on_planes(on, compute.INSTANCES, "cell/dfw")
        await on.start(MANAGEMENT)

        await eventually("gone", lambda: leftovers(on), within=900)


async def test_new_instances_start_in_a_namespace_that_was_stripped_of_its_labels() -> None:
    async with stage() as on:
        await deployed(on)
        await strip(on, core.NAMESPACES, on.hub_namespace)
        await asyncio.sleep(30)
        more = replace(DESIRED, minimum=4)
        await apply(on, more.to_create())

        await eventually("scaled", lambda: unsettled(on, {"web": more}), within=120)
