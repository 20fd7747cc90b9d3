"""Scenarios in which every process makes every call that it can make.

What a process calls depends on what it finds: it reads live only what a late watch has not
delivered, and some writes only repair what others have changed. So besides the lifecycle of a
workload there are partitions, lost and changed objects, exhausted quota, and projects, cities
and processes that are added and removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from datum_compute.api import core, karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.api.scheme import Resource
from datum_compute.client.protocol import Client, merge
from datum_compute.providers.simulated.behaviour import FAIL
from datum_compute.testing.calls import RecordedCall
from datum_compute.testing.expectations import eventually
from tests.support.federation.data import KEYS, SETTINGS, create_sources, named
from tests.support.federation.lifecycle import Lifecycle
from tests.support.federation.stage import NAMESPACE, Stage, stage
from tests.support.simulation.damage import damage, stored_objects
from tests.support.simulation.platform import apply, list_on_planes, missing_for_image, workload

LATE = 20.0
"""Seconds by which a watch is late."""

RightsScenario = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True)
class RecordedScenario:
    scenario: RightsScenario
    instances: int = 100
    """The project's limit of Instances."""
    router_port: int = 0

    async def record(self) -> set[RecordedCall]:
        async with stage(
            grant={"instances": self.instances}, permissive=True, router_port=self.router_port
        ) as on:
            await self.scenario(on)
            return on.calls.calls


async def the_whole_lifecycle(on: Stage) -> None:
    await Lifecycle(on, within=600).run()


async def a_deleted_project(on: Stage) -> None:
    await Lifecycle(on, within=600).delete_the_project()


async def deployed(on: Stage, minimum: int = 2) -> None:
    await apply(on, workload("acme/web:1", minimum))
    await eventually("deployed", lambda: missing_for_image(on, "acme/web:1", 2 * minimum))


async def exhausted_quota(on: Stage) -> None:
    """Denied, then freed; denied, then granted more."""
    await apply(on, workload("acme/web:1", 3))
    await asyncio.sleep(300)
    await apply(on, workload("acme/web:1", 1))
    await asyncio.sleep(300)
    await apply(on, workload("acme/web:1", 3))
    await asyncio.sleep(300)
    [grant] = (await on.project.list(quota.RESOURCE_GRANTS)).items
    await on.project.delete(quota.RESOURCE_GRANTS, grant.name, grant.namespace)
    await asyncio.sleep(900)
    await on.project.create(quota.RESOURCE_CLAIMS, claim_without_owner(on), NAMESPACE)
    await asyncio.sleep(60)


def claim_without_owner(on: Stage) -> dict[str, Any]:
    """As admission creates them for other services: no claimant reads a denial."""
    project = {
        "apiGroup": resourcemanager.PROJECTS.group,
        "kind": resourcemanager.PROJECTS.kind,
        "name": on.settings.project,
    }
    return {
        "metadata": {
            "name": "without-owner",
            "labels": {"quota.miloapis.com/auto-created": "true"},
            "annotations": {"quota.miloapis.com/created-by": "claim-creation-plugin"},
        },
        "spec": {
            "consumerRef": project,
            "resourceRef": project,
            "requests": [{"resourceType": "compute.datumapis.com/instances", "amount": 1000}],
        },
    }


async def a_disconnected_cell(on: Stage) -> None:
    """It scales down while disconnected, and is swept on reconnect."""
    await deployed(on, 3)
    within = {"compute-cell-dfw", "provider-dfw", "cell/dfw", "standin-network"}
    beyond = {"root", "hub", "project/demo", *(set(on.parts) - within)}
    cut = on.network.partition(within, beyond, silent=False)
    [found] = await list_on_planes(on, compute.WORKLOAD_DEPLOYMENTS, "cell/dfw")
    body = merge({"spec": {"scaleSettings": {"minReplicas": 1}}})
    await on.cell().patch(compute.WORKLOAD_DEPLOYMENTS, found.name, body, found.namespace)
    await asyncio.sleep(900)
    await apply(on, workload("acme/web:1", 1))
    on.network.heal(cut)
    await eventually("swept", lambda: missing_for_image(on, "acme/web:1", 2), within=600)


async def everything_deleted_by_hand(on: Stage) -> None:
    """One object after the other, on every plane, each restored by its controller."""
    await deployed(on, 1)
    project, cell = f"project/{on.settings.project}", "cell/dfw"
    for plane, resource in (
        (cell, compute.INSTANCES),
        ("hub", compute.INSTANCES),
        (project, compute.INSTANCES),
        (project, quota.RESOURCE_CLAIMS),
        (project, quota.ALLOWANCE_BUCKETS),
        (cell, networking.NETWORK_BINDINGS),
        (cell, networking.SUBNET_CLAIMS),
        (cell, networking.NETWORK_CONTEXTS),
        (cell, networking.NETWORKS),
        ("hub", karmada.PROPAGATION_POLICIES),
        ("hub", karmada.WORKS),
        ("hub", karmada.RESOURCE_BINDINGS),
        (cell, compute.WORKLOAD_DEPLOYMENTS),
        ("hub", compute.WORKLOAD_DEPLOYMENTS),
        (project, compute.WORKLOAD_DEPLOYMENTS),
        (project, networking.LOCATION_BINDINGS),
    ):
        await delete_all(on.client(plane), resource)
        await asyncio.sleep(120)
    await on.project.delete(core.NAMESPACES, quota.NAMESPACE_MILO_SYSTEM)
    await asyncio.sleep(120)
    touched = merge({"metadata": {"labels": {"touched": "yes"}}})
    await on.client("root").patch(resourcemanager.PROJECTS, on.settings.project, touched)
    await asyncio.sleep(120)


async def delete_all(client: Client, resource: Resource) -> None:
    for obj in (await client.list(resource)).items:
        await client.delete(resource, obj.name, obj.namespace)


async def everything_changed_by_hand(on: Stage) -> None:
    """Labels and specs that others have changed are restored by their controllers."""
    await deployed(on, 1)
    project, cell = f"project/{on.settings.project}", "cell/dfw"
    broken: dict[str, Any] = {"metadata": {"labels": {compute.LABEL_WORKLOAD_NAME: "other"}}}
    template = workload("acme/web:other", 1)["spec"]["template"]
    for plane, resource, body in (
        (cell, compute.INSTANCES, broken),
        ("hub", compute.INSTANCES, broken),
        (project, compute.INSTANCES, broken),
        (cell, compute.WORKLOAD_DEPLOYMENTS, broken),
        ("hub", compute.WORKLOAD_DEPLOYMENTS, broken),
        ("hub", compute.WORKLOAD_DEPLOYMENTS, {"spec": {"template": template}}),
        (project, compute.WORKLOAD_DEPLOYMENTS, broken),
        ("hub", karmada.PROPAGATION_POLICIES, {"spec": {"placement": None}}),
        (project, quota.RESOURCE_CLAIMS, broken),
        (project, quota.RESOURCE_CLAIMS, {"metadata": {"labels": None}}),
        (cell, networking.NETWORK_BINDINGS, {"metadata": {"ownerReferences": None}}),
        (cell, networking.SUBNET_CLAIMS, {"spec": {"subnetClass": "other"}}),
        (cell, networking.NETWORKS, {"spec": {"mtu": 1300}}),
        (project, networking.NETWORKS, {"spec": {"mtu": 1400}}),
    ):
        await patch_all(on.client(plane), resource, body)
        await asyncio.sleep(120)
    moved = merge({"metadata": {"labels": {compute.LABEL_UPSTREAM_NAMESPACE: "other"}}})
    await on.hub.patch(core.NAMESPACES, on.hub_namespace, moved)
    elsewhere = merge({"spec": {"topology": {networking.TOPOLOGY_CITY_CODE: "XXX"}}})
    await on.project.patch(networking.LOCATION_BINDINGS, "lhr", elsewhere)
    await apply(on, workload("acme/web:1", 2))
    await asyncio.sleep(120)


async def patch_all(
    client: Client, resource: Resource, body: dict[str, Any], subresource: str = ""
) -> None:
    for obj in (await client.list(resource)).items:
        await client.patch(resource, obj.name, merge(body), obj.namespace, subresource=subresource)


async def crashes_of_all_processes(on: Stage) -> None:
    """During a roll, between two equal failures, and during deletion."""
    await deployed(on, 2)
    for fail in ("ImageUnavailable", None, "ImageUnavailable"):
        body = {"spec": {"template": {"metadata": {"annotations": {FAIL: fail}}}}}
        await on.project.patch(compute.WORKLOADS, "web", merge(body), NAMESPACE)
        await asyncio.sleep(60)
        await on.restart(*on.controllers)
    healthy = {"spec": {"template": {"metadata": {"annotations": {FAIL: None}}}}}
    await on.project.patch(compute.WORKLOADS, "web", merge(healthy), NAMESPACE)
    await apply(on, workload("acme/web:2", 2))
    await asyncio.sleep(1)
    await on.restart(*on.parts)
    await eventually("rolled", lambda: missing_for_image(on, "acme/web:2", 4))
    await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
    await asyncio.sleep(1)
    await on.restart(*on.parts)
    await asyncio.sleep(300)


async def locations_and_networks_added_and_removed(on: Stage) -> None:
    await deployed(on, 1)
    bindings = (await on.project.list(networking.LOCATION_BINDINGS)).items
    body = {"metadata": {"name": "blue"}, "spec": {"ipam": {"mode": "Auto"}}}
    blue = workload("acme/web:1", 1)
    blue["metadata"]["name"] = "blue"
    interfaces = [{"network": {"name": "blue"}}]
    blue["spec"]["template"]["spec"]["networkInterfaces"] = interfaces
    await on.project.create(networking.NETWORKS, body, NAMESPACE)
    await on.project.create(compute.WORKLOADS, blue, NAMESPACE)
    await asyncio.sleep(120)
    interfaces = [{"network": {"name": "default"}}]  # instead of its own
    body = {"spec": {"template": {"spec": {"networkInterfaces": interfaces}}}}
    await on.project.patch(compute.WORKLOADS, "blue", merge(body), NAMESPACE)
    await asyncio.sleep(120)
    await on.project.delete(compute.WORKLOADS, "blue", NAMESPACE)
    await asyncio.sleep(120)
    await on.project.delete(networking.NETWORKS, "blue", NAMESPACE)
    for binding in bindings:
        await on.project.delete(networking.LOCATION_BINDINGS, binding.name)
    await asyncio.sleep(300)


async def a_second_project(on: Stage) -> None:
    """Created, used at once in its own namespace, and its policies and plane deleted."""
    owner = {"kind": "Organization", "name": "local"}
    body = {"metadata": {"name": "later"}, "spec": {"ownerRef": owner}}
    root_client, later = on.client("root"), on.client("project/later")
    for process in ("compute-management", "compute-cell-dfw"):
        on.network.lags[process, "namespaces"] = LATE
    await root_client.create(resourcemanager.PROJECTS, body)
    await asyncio.sleep(60)
    await later.create(core.NAMESPACES, {"metadata": {"name": "team"}})
    network = {"metadata": {"name": "default"}, "spec": {"ipam": {"mode": "Auto"}}}
    await later.create(networking.NETWORKS, network, "team")
    await later.create(compute.WORKLOADS, workload("acme/web:1", 1), "team")
    await asyncio.sleep(60)
    [policy] = (await root_client.list(quota.GRANT_CREATION_POLICIES)).items
    template = {"metadata": {"labels": {"changed": "yes"}}}
    for spec in (
        {"target": {"resourceGrantTemplate": template}},
        {"trigger": {"constraints": [{"expression": 'trigger.metadata.name == "nobody"'}]}},
    ):
        await root_client.patch(quota.GRANT_CREATION_POLICIES, policy.name, merge({"spec": spec}))
        await asyncio.sleep(60)
    await root_client.delete(resourcemanager.PROJECTS, "later")
    await asyncio.sleep(300)


async def a_removed_city(on: Stage) -> None:
    """Its location first, then its cell."""
    await deployed(on, 1)
    await on.cell("LHR").delete(networking.LOCATIONS, "lhr")
    await asyncio.sleep(60)
    await apply(on, workload("acme/web:1", 1, ("DFW",)))
    await asyncio.sleep(60)
    on.platform.restores_setup = False
    await on.hub.delete(karmada.CLUSTERS, "lhr")
    await asyncio.sleep(300)


async def an_unreadable_deployment(on: Stage) -> None:
    """On the hub, where no other Event is written."""
    await deployed(on, 1)
    store = on.platform.store
    [stored, *_] = stored_objects(store, "hub", compute.WORKLOAD_DEPLOYMENTS)
    damage(
        store,
        "hub",
        compute.WORKLOAD_DEPLOYMENTS,
        stored,
        lambda obj: obj["status"].update(replicas=1.5),
    )
    await store.wait_durable()
    await asyncio.sleep(60)


async def a_deployment_unknown_to_the_hub(on: Stage) -> None:
    """Its hub copy was deleted after Karmada's labels had been removed in the cell."""
    await deployed(on, 1)
    [found] = await list_on_planes(on, compute.WORKLOAD_DEPLOYMENTS, "cell/dfw")
    body = {"metadata": {"name": "left-default-dfw"}, "spec": found.spec}
    await on.cell().create(compute.WORKLOAD_DEPLOYMENTS, body, found.namespace)
    await asyncio.sleep(900)


async def named_data(on: Stage) -> None:
    """Shared by two workloads, changed, deleted, created again, and its copies changed by hand."""
    await create_sources(on)
    for name in ("web", "api"):
        await on.project.create(compute.WORKLOADS, named(name), NAMESPACE)
    await asyncio.sleep(60)
    for resource, name in ((core.CONFIG_MAPS, SETTINGS), (core.SECRETS, KEYS)):
        for client, where in (
            (on.hub, on.hub_namespace),
            (on.cell(), on.hub_namespace),
            (on.project, NAMESPACE),
        ):
            await client.patch(resource, name, merge({"data": {"other": "eA=="}}), where)
            await asyncio.sleep(30)
            await client.delete(resource, name, where)
            await asyncio.sleep(30)
    await create_sources(on)
    await asyncio.sleep(60)
    for name in ("web", "api"):
        await on.project.delete(compute.WORKLOADS, name, NAMESPACE)
        await asyncio.sleep(60)


async def a_url(on: Stage) -> None:
    """Given, and removed with its port."""
    await deployed(on, 1)
    for port in ("8080", None):
        body = {"metadata": {"annotations": {compute.ANNOTATION_HTTP_PORT: port}}}
        await on.project.patch(compute.WORKLOADS, "web", merge(body), NAMESPACE)
        await asyncio.sleep(60)


SCENARIOS = [
    RecordedScenario(the_whole_lifecycle),
    RecordedScenario(a_deleted_project),
    RecordedScenario(a_second_project),
    RecordedScenario(a_removed_city),
    RecordedScenario(exhausted_quota, instances=4),
    RecordedScenario(a_disconnected_cell),
    RecordedScenario(everything_deleted_by_hand),
    RecordedScenario(everything_changed_by_hand),
    RecordedScenario(crashes_of_all_processes),
    RecordedScenario(locations_and_networks_added_and_removed),
    RecordedScenario(an_unreadable_deployment),
    RecordedScenario(a_deployment_unknown_to_the_hub),
    RecordedScenario(named_data),
    RecordedScenario(a_url, router_port=7480),
]
