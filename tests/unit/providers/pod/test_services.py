"""The headless Service of a deployment that serves HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import merge
from datum_compute.fleets.single import SingleFleet
from datum_compute.providers.pod import PodProvider, PodSettings
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.expectations import eventually
from tests.support.providers import pods
from tests.support.providers.pods import CELL
from tests.support.standins.platform import deployment

NS = "default"
LABEL = compute.LABEL_WORKLOAD_DEPLOYMENT_NAME


@asynccontextmanager
async def cell_of_pods() -> AsyncIterator[ApiClient]:
    async with pods.cluster_of_pods() as (embedded, cluster):
        fleet = SingleFleet("cell", "single", embedded.client(CELL, "pod-provider"), cluster.env)
        manager = Manager("provider", cluster.env)
        manager.add(*PodProvider(fleet, cluster.env, PodSettings()).controllers())
        running = asyncio.create_task(manager.run())
        try:
            await manager.wait_ready()
            yield embedded.client(CELL)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def set_port(client: ApiClient, name: str, port: str | None) -> None:
    body = {"metadata": {"annotations": {compute.ANNOTATION_HTTP_PORT: port}}}
    await client.patch(compute.WORKLOAD_DEPLOYMENTS, name, merge(body), NS)


async def services(client: ApiClient, count: int) -> list[Object]:
    async def look() -> str:
        found = (await client.list(core.SERVICES)).items
        return "" if len(found) == count else f"there are {len(found)} Services"

    await eventually(f"{count} Services", look)
    return list((await client.list(core.SERVICES)).items)


async def create_instance(client: ApiClient, name: str, deployment_name: str) -> None:
    body: dict[str, Any] = {
        "metadata": {"name": name, "labels": {LABEL: deployment_name}},
        "spec": {
            "runtime": {
                "resources": {"instanceType": compute.INSTANCE_TYPE_D1_STANDARD_2},
                "sandbox": {"containers": [{"name": "app", "image": "a:1"}]},
            },
            "networkInterfaces": [{"network": {"name": "default"}}],
            "controller": {"templateHash": "h", "schedulingGates": []},
        },
    }
    await client.create(compute.INSTANCES, body, NS)


async def test_a_deployment_with_an_http_port_gets_a_headless_service_of_its_pods() -> None:
    async with cell_of_pods() as client:
        body = deployment("2048-default-dfw", NS, "DFW")
        created = await client.create(compute.WORKLOAD_DEPLOYMENTS, body, NS)
        await create_instance(client, "2048-default-dfw-0", created.name)
        await set_port(client, created.name, "8080")
        [service] = await services(client, 1)

        assert service.name == "http-2048-default-dfw"
        owner = service.metadata.controller()
        assert owner is not None
        assert owner.uid == created.metadata.uid
        spec = values(service.spec)
        assert spec["clusterIP"] == "None"
        assert [(each["port"], each["targetPort"]) for each in spec["ports"]] == [(8080, 8080)]
        [pod] = (await client.list(core.PODS)).items
        assert spec["selector"].items() <= pod.metadata.labels.items()


async def test_the_service_follows_the_port_and_ends_with_it() -> None:
    async with cell_of_pods() as client:
        await client.create(compute.WORKLOAD_DEPLOYMENTS, deployment("web", NS, "DFW"), NS)
        await services(client, 0)
        await set_port(client, "web", "8080")
        [before] = await services(client, 1)
        await set_port(client, "web", "9090")
        await asyncio.sleep(5)
        [service] = await services(client, 1)
        assert service.metadata.uid == before.metadata.uid
        assert values(service.spec)["ports"][0]["port"] == 9090
        await set_port(client, "web", None)
        await services(client, 0)


async def test_a_service_that_was_changed_or_deleted_is_restored() -> None:
    async with cell_of_pods() as client:
        await client.create(compute.WORKLOAD_DEPLOYMENTS, deployment("web", NS, "DFW"), NS)
        await set_port(client, "web", "8080")
        [service] = await services(client, 1)
        broken = merge({"spec": {"selector": {LABEL: "other"}}})
        await client.patch(core.SERVICES, service.name, broken, NS)
        await asyncio.sleep(5)
        [service] = await services(client, 1)
        assert values(service.spec)["selector"] == {LABEL: "web"}
        await client.delete(core.SERVICES, service.name, NS)
        await services(client, 1)


async def test_a_service_of_others_stays_as_it_is() -> None:
    async with cell_of_pods() as client:
        other = {"metadata": {"name": "http-web"}, "spec": {"ports": [{"port": 1}]}}
        created = await client.create(core.SERVICES, other, NS)
        await client.create(compute.WORKLOAD_DEPLOYMENTS, deployment("web", NS, "DFW"), NS)
        for port in ("8080", None):
            await set_port(client, "web", port)
            await asyncio.sleep(30)
        [service] = await services(client, 1)
        assert service.metadata.resource_version == created.metadata.resource_version


async def test_a_pod_without_the_label_of_its_deployment_gets_it() -> None:
    async with cell_of_pods() as client:
        await create_instance(client, "web-0", "web")
        await asyncio.sleep(10)
        [pod] = (await client.list(core.PODS)).items
        body = merge({"metadata": {"labels": {LABEL: None}}})
        await client.patch(core.PODS, pod.name, body, NS)
        await asyncio.sleep(10)
        [pod] = (await client.list(core.PODS)).items
        assert pod.metadata.labels[LABEL] == "web"
