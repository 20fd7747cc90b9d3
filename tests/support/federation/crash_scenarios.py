"""Scenarios in which a process may crash at any of its writes."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

from datum_compute.api import conditions, core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.api.scheme import Resource
from datum_compute.api.services import v1alpha1 as services
from datum_compute.assembly.local import bootstrap
from datum_compute.client import errors
from datum_compute.client.protocol import Client, merge
from datum_compute.decisions.instances.revisions import template_hash
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.expectations import eventually
from tests.support.federation.crashes import Scenario
from tests.support.federation.stage import NAMESPACE, SINGLE_CLUSTER, Stage, deployment
from tests.support.simulation.random_operations import DesiredWorkload

WEB = DesiredWorkload("web", "acme/web:1", 2, ("DFW",))


API = DesiredWorkload("api", "acme/api:1", 1, ("DFW",))


async def made(client: Client, resource: Resource, body: dict[str, Any], at: str = "") -> None:
    try:
        await client.create(resource, body, at)
    except errors.AlreadyExists:
        pass


async def gone(client: Client, resource: Resource, name: str, at: str = "") -> None:
    try:
        await client.delete(resource, name, at)
    except errors.NotFound:
        pass


async def create(on: Stage, desired: DesiredWorkload = WEB) -> None:
    await made(on.project, compute.WORKLOADS, desired.to_create(), NAMESPACE)


async def change(on: Stage, desired: DesiredWorkload) -> None:
    body = merge({"spec": desired.body()["spec"]})
    await on.project.patch(compute.WORKLOADS, desired.name, body, NAMESPACE)


async def settled(on: Stage) -> None:
    await asyncio.sleep(60)


async def deployed(on: Stage) -> None:
    await create(on)


async def deployed_badly(on: Stage) -> None:
    await create(on, replace(WEB, image="acme/web:bad", fail="ImageUnavailable"))


async def deployed_in_two_cities(on: Stage) -> None:
    await create(on, replace(WEB, minimum=1, cities=("DFW", "LHR")))


async def one_denied(on: Stage) -> None:
    await create(on, replace(WEB, minimum=1))
    await settled(on)
    await create(on, API)


async def full_beside_a_competitor(on: Stage) -> None:
    """All quota is held, and another workload waits for it."""
    await create(on)
    await settled(on)
    await create(on, API)


async def without_network(on: Stage) -> None:
    body = replace(WEB, minimum=1).to_create()
    body["spec"]["template"]["spec"]["networkInterfaces"] = [{"network": {"name": "blue"}}]
    await made(on.project, compute.WORKLOADS, body, NAMESPACE)


async def deploy(on: Stage) -> None:
    await create(on)


async def scale_up(on: Stage) -> None:
    await change(on, replace(WEB, minimum=3))


async def scale_down(on: Stage) -> None:
    await change(on, replace(WEB, minimum=1))


async def change_the_image(on: Stage) -> None:
    await change(on, replace(WEB, image="acme/web:2"))


async def restart(on: Stage) -> None:
    await change(on, replace(WEB, restarted="2026-02-01T00:00:00Z"))


async def restart_one_city(on: Stage) -> None:
    note = {compute.ANNOTATION_RESTARTED_AT: "2026-02-01T00:00:00Z"}
    body = merge({"spec": {"template": {"metadata": {"annotations": note}}}})
    await on.project.patch(compute.WORKLOAD_DEPLOYMENTS, "web-default-dfw", body, NAMESPACE)


async def fix_a_bad_image(on: Stage) -> None:
    await change(on, WEB)


async def add_a_city(on: Stage) -> None:
    await change(on, replace(WEB, cities=("DFW", "LHR")))


async def leave_a_city(on: Stage) -> None:
    await change(on, replace(WEB, minimum=1, cities=("LHR",)))


async def destroy(on: Stage) -> None:
    await gone(on.project, compute.WORKLOADS, "web", NAMESPACE)


async def delete_and_recreate(on: Stage) -> None:
    again = replace(WEB, image="acme/web:2", minimum=1)
    while True:
        try:
            await on.project.create(compute.WORKLOADS, again.to_create(), NAMESPACE)
        except errors.AlreadyExists:
            found = await on.project.get(compute.WORKLOADS, "web", NAMESPACE)
            if again.image in str(values(found.spec)):
                return
            await gone(on.project, compute.WORKLOADS, "web", NAMESPACE)
            await asyncio.sleep(0.1)
        else:
            return


async def free_a_slot(on: Stage) -> None:
    await destroy(on)


async def exceed_the_quota(on: Stage) -> None:
    await create(on, replace(WEB, minimum=2))


async def roll_beside_a_competitor(on: Stage) -> None:
    await change_the_image(on)


async def full_of_its_size(on: Stage) -> None:
    """A deployment of its own size, written past admission, that has all of the quota.

    Without a competitor: a claim of another size is released before it is claimed anew, and who
    claims first then is not determined.
    """
    await made(on.project, compute.WORKLOAD_DEPLOYMENTS, sized("1", "2Gi"), NAMESPACE)


def sized(cpu: str, memory: str) -> dict[str, Any]:
    body = deployment("sized-default-dfw", replicas=2)
    runtime = body["spec"]["template"]["spec"]["runtime"]
    runtime["resources"]["requests"] = {"cpu": cpu, "memory": memory}
    return body


async def change_the_size(on: Stage) -> None:
    body = merge({"spec": sized("500m", "1Gi")["spec"]})
    await on.project.patch(compute.WORKLOAD_DEPLOYMENTS, "sized-default-dfw", body, NAMESPACE)


async def bring_the_network(on: Stage) -> None:
    body = {"metadata": {"name": "blue"}, "spec": {"ipam": {"mode": "Auto"}}}
    await made(on.project, networking.NETWORKS, body, NAMESPACE)


async def lose_an_instance(on: Stage) -> None:
    assert on.commit_checker is not None
    try:
        found = await on.cell().get(compute.INSTANCES, "web-default-dfw-1", on.hub_namespace)
    except errors.NotFound:
        return
    on.commit_checker.ordered.add(found.metadata.uid)
    await gone(on.cell(), compute.INSTANCES, found.name, found.namespace)


async def lose_a_claim(on: Stage) -> None:
    await gone(on.project, quota.RESOURCE_CLAIMS, "instance-web-default-dfw-1", NAMESPACE)


async def lose_a_projection(on: Stage) -> None:
    await gone(on.project, compute.INSTANCES, "web-default-dfw-0", NAMESPACE)


async def come_and_leave_at_once(on: Stage) -> None:
    await add_a_city(on)
    await change(on, WEB)


async def share_a_policy(on: Stage) -> None:
    await create(on, API)


async def deployed_two(on: Stage) -> None:
    await create(on, replace(WEB, minimum=1))
    await create(on, API)


async def leave_a_shared_policy(on: Stage) -> None:
    await destroy(on)


async def offered(on: Stage, status: str, reason: str) -> None:
    condition = {
        "type": "Available",
        "status": status,
        "reason": reason,
        "message": "from the test",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    body = merge({"status": {"conditions": [condition]}})
    await on.project.patch(networking.LOCATION_BINDINGS, "dfw", body, subresource="status")


async def withdraw_a_city(on: Stage) -> None:
    await offered(on, "False", "Maintenance")


async def wanted_where_nothing_is_offered(on: Stage) -> None:
    """The city was offered when the workload was admitted, and withdrawn before its reconcile."""
    on.stop("compute-management")
    await create(on)
    await withdraw_a_city(on)
    await on.start("compute-management")


async def offer_a_city(on: Stage) -> None:
    await offered(on, "True", "Opened")


async def create_project(on: Stage) -> None:
    """A new project with all its objects, and a request for access."""
    owner = {"kind": "Organization", "name": "local"}
    body = {"metadata": {"name": "acme"}, "spec": {"ownerRef": owner}}
    root = on.client("root")
    await made(root, resourcemanager.PROJECTS, body)

    async def missing() -> str:
        found = await root.get(resourcemanager.PROJECTS, "acme")
        stated = found.view(resourcemanager.Project).status.conditions
        return "" if conditions.is_true(stated, "Ready") else "its plane is not there"

    await eventually("there", missing)
    acme = on.client("project/acme")
    spec = {"serviceRef": {"name": services.SERVICE_COMPUTE}}
    access = {"metadata": {"name": services.ENTITLEMENT_COMPUTE}, "spec": spec}
    await made(acme, services.SERVICE_ENTITLEMENTS, access)


async def deployed_in_a_project(on: Stage) -> None:
    await create_project(on)
    acme = on.client("project/acme")
    await bootstrap.ensure_project(acme, on.env, replace(on.settings, project="acme"))
    await made(acme, compute.WORKLOADS, replace(WEB, minimum=1).to_create(), NAMESPACE)
    await create(on, API)


async def close_a_project(on: Stage) -> None:
    await gone(on.client("root"), resourcemanager.PROJECTS, "acme")


HOME = "web"
"""The namespace there, which is of the project."""


async def at_home(on: Stage) -> None:
    labels = {
        compute.LABEL_UPSTREAM_CLUSTER_NAME: "cluster-demo",
        compute.LABEL_UPSTREAM_NAMESPACE: NAMESPACE,
    }
    cell = on.cell()
    await made(cell, core.NAMESPACES, {"metadata": {"name": HOME, "labels": labels}})
    network = {"metadata": {"name": "default"}, "spec": {"ipam": {"mode": "Auto"}}}
    await made(cell, networking.NETWORKS, network, HOME)
    spec = {"locationRef": {"name": "dfw"}, "topology": {networking.TOPOLOGY_CITY_CODE: "DFW"}}
    await made(cell, networking.LOCATION_BINDINGS, {"metadata": {"name": "dfw"}, "spec": spec})
    condition = {
        "type": "Available",
        "status": "True",
        "reason": "Opened",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    body = merge({"status": {"conditions": [condition]}})
    await cell.patch(networking.LOCATION_BINDINGS, "dfw", body, subresource="status")


async def deploy_alone(on: Stage) -> None:
    await made(on.cell(), compute.WORKLOADS, WEB.to_create(), HOME)


async def deployed_alone(on: Stage) -> None:
    await at_home(on)
    await deploy_alone(on)


async def roll_alone(on: Stage) -> None:
    body = merge({"spec": replace(WEB, image="acme/web:2", minimum=3).body()["spec"]})
    await on.cell().patch(compute.WORKLOADS, "web", body, HOME)


async def destroy_alone(on: Stage) -> None:
    await gone(on.cell(), compute.WORKLOADS, "web", HOME)


NAMING = replace(WEB, minimum=1, data=("ConfigMap/settings", "Secret/keys"))
SOURCES = ((core.CONFIG_MAPS, "settings"), (core.SECRETS, "keys"))


async def with_sources(on: Stage) -> None:
    for resource, name in SOURCES:
        await made(
            on.project, resource, {"metadata": {"name": name}, "data": {"a": "eA=="}}, NAMESPACE
        )


async def deploy_with_data(on: Stage) -> None:
    await create(on, NAMING)  # in one city: the messages of two grants depend on their order


async def deployed_with_data(on: Stage) -> None:
    """Two deployments that share one companion."""
    await with_sources(on)
    await create(on, replace(NAMING, cities=("DFW", "LHR")))


async def change_the_data(on: Stage) -> None:
    for resource, name in SOURCES:
        await on.project.patch(resource, name, merge({"data": {"b": "eQ=="}}), NAMESPACE)


async def name_other_data(on: Stage) -> None:
    await change(on, replace(NAMING, cities=("DFW", "LHR"), data=("ConfigMap/settings",)))


async def name_no_data(on: Stage) -> None:
    await change(on, replace(NAMING, cities=("DFW", "LHR"), data=()))


async def destroy_with_data(on: Stage) -> None:
    await gone(on.project, compute.WORKLOADS, "web", NAMESPACE)


async def replace_the_data(on: Stage) -> None:
    """Deleted in use, and created again."""
    for resource, name in SOURCES:
        await gone(on.project, resource, name, NAMESPACE)
    await asyncio.sleep(2)
    await with_sources(on)


async def lose_a_companion(on: Stage) -> None:
    await gone(on.hub, core.SECRETS, "keys", on.hub_namespace)


async def mark(on: Stage, kind: Resource, name: str, value: str | None) -> None:
    body = merge({"metadata": {"annotations": {compute.ANNOTATION_SUSPENDED: value}}})
    await on.project.patch(kind, name, body, NAMESPACE)


async def stop(on: Stage) -> None:
    await mark(on, compute.WORKLOADS, "web", "true")


async def stopped(on: Stage) -> None:
    await deployed_in_two_cities(on)
    await settled(on)
    await stop(on)


async def start(on: Stage) -> None:
    await mark(on, compute.WORKLOADS, "web", None)


async def stop_one_city(on: Stage) -> None:
    await mark(on, compute.WORKLOAD_DEPLOYMENTS, "web-default-dfw", "true")


async def stopped_and_changed(on: Stage) -> None:
    await create(on)
    await settled(on)
    await stop(on)
    await settled(on)
    await change(on, replace(WEB, image="acme/web:2", minimum=3))


async def start_the_change(on: Stage) -> None:
    await start(on)


async def stop_and_start_at_once(on: Stage) -> None:
    await stop(on)
    await asyncio.sleep(0.05)
    await start(on)


async def waved(on: Stage, **policy: str) -> None:
    text = json.dumps({"waves": "each", "soak": "5s", "timeout": "60s", **policy})
    await create(on, replace(WEB, minimum=1, cities=("DFW", "LHR"), rollout=text))


async def deployed_in_waves(on: Stage) -> None:
    await waved(on)


async def deployed_in_waves_with_a_way_back(on: Stage) -> None:
    await waved(on, onFailure="Undo")


async def roll(on: Stage, image: str, fail: str = "") -> None:
    await change(on, replace(WEB, image=image, minimum=1, cities=("DFW", "LHR"), fail=fail))


async def roll_in_waves(on: Stage) -> None:
    await roll(on, "acme/web:2")


async def undo_a_failed_wave(on: Stage) -> None:
    await roll(on, "acme/web:2", fail="ImageUnavailable")


async def soaking(on: Stage) -> None:
    """The first wave soaks for longer than any scenario is watched."""
    await waved(on)
    await settled(on)
    policy = {"waves": "each", "soak": "100h"}
    body = merge({"metadata": {"annotations": {compute.ANNOTATION_ROLLOUT: json.dumps(policy)}}})
    await on.project.patch(compute.WORKLOADS, "web", body, NAMESPACE)
    await roll(on, "acme/web:2")


async def change_during_the_soak(on: Stage) -> None:
    await roll(on, "acme/web:3")


async def abort_during_the_soak(on: Stage) -> None:
    found = await on.project.get(compute.WORKLOADS, "web", NAMESPACE)
    hash = template_hash(values(found.spec)["template"])
    note = {compute.ANNOTATION_ROLLOUT_ABORTED: hash}
    body = merge({"metadata": {"annotations": note}})
    await on.project.patch(compute.WORKLOADS, "web", body, NAMESPACE)


SCENARIOS = [
    Scenario(deploy),
    Scenario(scale_up, deployed),
    Scenario(scale_down, deployed),
    Scenario(change_the_image, deployed),
    Scenario(stop, deployed_in_two_cities),
    Scenario(start, stopped),
    Scenario(stop_one_city, deployed),
    Scenario(start_the_change, stopped_and_changed),
    Scenario(stop_and_start_at_once, deployed),
    Scenario(restart, deployed),
    Scenario(restart_one_city, deployed),
    Scenario(fix_a_bad_image, deployed_badly),
    Scenario(add_a_city, deployed),
    Scenario(leave_a_city, deployed_in_two_cities),
    Scenario(destroy, deployed),
    Scenario(delete_and_recreate, deployed),
    Scenario(free_a_slot, one_denied, instances=1),
    Scenario(exceed_the_quota, instances=1),
    Scenario(roll_beside_a_competitor, full_beside_a_competitor, instances=2),
    Scenario(change_the_size, full_of_its_size, instances=2),
    Scenario(bring_the_network, without_network),
    Scenario(lose_an_instance, deployed),
    Scenario(lose_a_claim, deployed, keeps_quota=False),
    Scenario(lose_a_projection, deployed),
    Scenario(come_and_leave_at_once, deployed),
    Scenario(share_a_policy, deployed),
    Scenario(leave_a_shared_policy, deployed_two),
    Scenario(withdraw_a_city, deployed),
    Scenario(offer_a_city, wanted_where_nothing_is_offered),
    Scenario(roll_in_waves, deployed_in_waves),
    Scenario(undo_a_failed_wave, deployed_in_waves_with_a_way_back),
    Scenario(change_during_the_soak, soaking),
    Scenario(abort_during_the_soak, soaking),
    Scenario(deploy_with_data, with_sources),
    Scenario(change_the_data, deployed_with_data),
    Scenario(name_other_data, deployed_with_data),
    Scenario(name_no_data, deployed_with_data),
    Scenario(destroy_with_data, deployed_with_data),
    Scenario(replace_the_data, deployed_with_data),
    Scenario(lose_a_companion, deployed_with_data),
    Scenario(create_project),
    Scenario(close_a_project, deployed_in_a_project, keeps_quota=False),
    Scenario(deploy_alone, at_home, mode=SINGLE_CLUSTER),
    Scenario(roll_alone, deployed_alone, mode=SINGLE_CLUSTER),
    Scenario(destroy_alone, deployed_alone, mode=SINGLE_CLUSTER),
]


def difference(wanted: dict[str, Any], found: dict[str, Any]) -> str:
    for key in sorted(wanted.keys() | found.keys()):
        if wanted.get(key) != found.get(key):
            return f"{key}:\n  {wanted.get(key)}\n  {found.get(key)}"
    return ""
