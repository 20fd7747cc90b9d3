"""The provider of Pods in its cell, and the calls it makes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.apiserver.request.access import Authorizer
from datum_compute.apiserver.request.roles import Roles
from datum_compute.assembly import rights
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import merge
from datum_compute.fleets.single import SingleFleet
from datum_compute.providers.pod import PodProvider, PodSettings
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.tasks import TaskGroup
from datum_compute.testing.calls import RecordedCall, RecordingAuthorizer
from tests.support.providers import pods
from tests.support.standins.platform import deployment

PLACE = "pods"
"""The folder of ``deploy/base`` for clusters in which Instances are Pods."""
NAMESPACE = "default"
DATA = compute.ANNOTATION_EXPECTED_REFERENCED_DATA


async def record() -> set[RecordedCall]:
    calls = RecordingAuthorizer(Roles(), permissive=True)
    await run_everything(calls)
    return {replace(call, plane=PLACE) for call in calls.calls}


def granted() -> Roles:
    """The role of ``deploy/base``."""
    roles = Roles()
    roles.grant(rights.POD_PROVIDER, pods.CELL, rights.recorded()[rights.POD_PROVIDER][PLACE])
    return roles


async def run_everything(authorizer: Authorizer) -> None:
    async with pods.cluster_of_pods(authorizer) as (embedded, cluster):
        embedded.token(rights.POD_PROVIDER, ())
        client = embedded.client(pods.CELL, rights.POD_PROVIDER)
        fleet = SingleFleet("cell", "single", client, cluster.env)
        provider = PodProvider(fleet, cluster.env, PodSettings())
        manager = Manager("provider", cluster.env)
        manager.add(*provider.controllers())
        async with TaskGroup("provider") as tasks:
            running = tasks.start(manager.run(), name="provider")
            await _run_instance(embedded.client(pods.CELL), cluster, provider)
            await tasks.stop(running)


async def _run_instance(client: ApiClient, cluster: pods.PodCluster, provider: PodProvider) -> None:
    """It waits for its data, starts, prints, is evicted, starts again and is deleted."""
    await client.create(
        compute.WORKLOAD_DEPLOYMENTS, deployment("web", NAMESPACE, "DFW"), NAMESPACE
    )
    await client.patch(
        compute.WORKLOAD_DEPLOYMENTS,
        "web",
        merge({"metadata": {"annotations": {DATA: '["ConfigMap/settings"]'}}}),
        NAMESPACE,
    )
    for port in ("8080", "9090"):
        note = {"metadata": {"annotations": {compute.ANNOTATION_HTTP_PORT: port}}}
        await client.patch(compute.WORKLOAD_DEPLOYMENTS, "web", merge(note), NAMESPACE)
        await asyncio.sleep(30)
    labels = {compute.LABEL_WORKLOAD_DEPLOYMENT_NAME: "web"}
    body = {
        "metadata": {"name": "web-0", "labels": labels},
        "spec": {
            "volumes": [{"name": "settings", "configMap": {"name": "settings"}}],
            "runtime": {
                "resources": {"instanceType": compute.INSTANCE_TYPE_D1_STANDARD_2},
                "sandbox": {"containers": [{"name": "app", "image": "acme/web:1"}]},
            },
            "networkInterfaces": [{"network": {"name": "default"}}],
            "controller": {"templateHash": "h", "schedulingGates": []},
        },
    }
    created = await client.create(compute.INSTANCES, body, NAMESPACE)
    await asyncio.sleep(30)
    await client.create(core.CONFIG_MAPS, {"metadata": {"name": "settings"}}, NAMESPACE)
    await asyncio.sleep(30)
    assert [line async for line in provider.lines(created.metadata.uid)]
    [pod] = (await client.list(core.PODS)).items
    unlabelled = {"metadata": {"labels": {compute.LABEL_WORKLOAD_DEPLOYMENT_NAME: None}}}
    pod = await client.patch(core.PODS, pod.name, merge(unlabelled), pod.namespace)
    no_port = {"metadata": {"annotations": {compute.ANNOTATION_HTTP_PORT: None}}}
    await client.patch(compute.WORKLOAD_DEPLOYMENTS, "web", merge(no_port), NAMESPACE)
    await asyncio.sleep(30)
    await cluster.evict(client, pod, "Evicted", "The node was low on memory.")
    await asyncio.sleep(30)
    await client.delete(compute.INSTANCES, "web-0", NAMESPACE)
    await asyncio.sleep(30)
    assert not (await client.list(core.PODS)).items
