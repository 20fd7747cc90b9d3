"""Instances as Pods: the provider on an API server, with a stand-in for the kubelet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from datum_compute.api import conditions, core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import ConditionState
from datum_compute.api.meta import Object
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import merge
from datum_compute.client.remote_command import CommandRequest
from datum_compute.fleets.single import SingleFleet
from datum_compute.providers.pod import PodProvider, PodSettings
from datum_compute.providers.protocol import ExecRefused
from datum_compute.runtime.manager import Manager
from datum_compute.testing.expectations import eventually
from tests.support.providers import pods
from tests.support.providers.pods import CELL, MISSING_IMAGE, ROOT_IMAGE, PodCluster

NS = "default"


@dataclass
class PodCell:
    """A cell whose Instances are Pods."""

    client: ApiClient
    cluster: PodCluster
    provider: PodProvider

    async def create(self, name: str = "web-0", **container: Any) -> Object:
        body = {
            "metadata": {"name": name},
            "spec": {
                "runtime": {
                    "resources": {"instanceType": compute.INSTANCE_TYPE_D1_STANDARD_2},
                    "sandbox": {"containers": [{"name": "app", "image": "a:1", **container}]},
                },
                "networkInterfaces": [{"network": {"name": "default"}}],
                "controller": {"templateHash": "h", "schedulingGates": []},
            },
        }
        return await self.client.create(compute.INSTANCES, body, NS)

    async def instance(self, name: str = "web-0") -> compute.Instance:
        return (await self.client.get(compute.INSTANCES, name, NS)).view(compute.Instance)

    async def pod(self) -> Object:
        [found] = (await self.client.list(core.PODS)).items
        return found

    async def becomes(self, status: str, reason: str, words: str = "", name: str = "web-0") -> None:
        async def look() -> str:
            found = conditions.find(
                (await self.instance(name)).status.conditions, compute.CONDITION_AVAILABLE
            )
            state = ConditionState.of(found) if found else ConditionState("", "", "")
            same = (state.status, state.reason) == (status, reason) and words in state.message
            return "" if same else f"Available is {state}"

        await eventually(f"Available is {status} with {reason}", look)

    async def available(self, name: str = "web-0") -> None:
        await self.becomes(conditions.TRUE, compute.REASON_AVAILABLE, name=name)

    async def fails(self, reason: str, words: str) -> None:
        await self.becomes(conditions.FALSE, reason, words)


@asynccontextmanager
async def pod_cell(**settings: str) -> AsyncIterator[PodCell]:
    async with pods.cluster_of_pods() as (embedded, cluster):
        env = cluster.env
        fleet = SingleFleet("cell", "single", embedded.client(CELL, "pod-provider"), env)
        provider = PodProvider(fleet, env, PodSettings.parse(settings))
        manager = Manager("provider", env)
        manager.add(*provider.controllers())
        running = asyncio.create_task(manager.run())
        try:
            await manager.wait_ready()
            yield PodCell(embedded.client(CELL), cluster, provider)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_an_instance_becomes_a_pod_that_it_owns() -> None:
    async with pod_cell() as cell:
        created = await cell.create()
        await cell.available()
        pod = await cell.pod()

        owner = pod.metadata.controller()
        assert owner is not None
        assert (owner.kind, owner.name, owner.uid) == ("Instance", "web-0", created.metadata.uid)
        [interface] = (await cell.instance()).status.network_interfaces
        assert interface.assignments.network_ip == pod.view(core.Pod).status.pod_ip
        assert interface.assignments.external_ip is None


async def test_a_deleted_instance_waits_for_its_pod_to_end() -> None:
    async with pod_cell() as cell:
        await cell.create()
        await cell.available()
        await cell.client.delete(compute.INSTANCES, "web-0", NS)
        await asyncio.sleep(pods.STOP_SECONDS / 2)

        held = (await cell.client.get(compute.INSTANCES, "web-0", NS)).metadata.finalizers
        assert held == (compute.provider_finalizer("pod"),)
        await asyncio.sleep(pods.STOP_SECONDS)
        assert not (await cell.client.list(core.PODS)).items
        with pytest.raises(errors.NotFound):
            await cell.client.get(compute.INSTANCES, "web-0", NS)


@pytest.mark.parametrize(
    ("container", "reason", "words"),
    [
        (
            {"image": MISSING_IMAGE},
            "ImageUnavailable",
            f'app: failed to pull and unpack image "{MISSING_IMAGE}"',
        ),
        (
            {"command": ["/nope"]},
            "ConfigurationError",
            "app: its command cannot be run: /nope: stat /nope: no such file or directory",
        ),
        (
            {"command": ["/bin/sh", "-c", "exit 3"]},
            "InstanceCrashing",
            "container app ended with exit code 3",
        ),
        (
            {"resources": {"limits": {"cpu": "4096"}}},
            "InsufficientCapacity",
            "0/1 nodes are available: 1 Insufficient cpu.",
        ),
    ],
)
async def test_a_failure_has_the_reason_and_the_words_of_the_kubelet(
    container: dict[str, Any], reason: str, words: str
) -> None:
    async with pod_cell() as cell:
        await cell.create(**container)
        await cell.fails(reason, words)


async def test_a_restricted_cell_refuses_an_image_that_runs_as_root() -> None:
    async with pod_cell(**{"pod-security": "restricted"}) as cell:
        await cell.create(image=ROOT_IMAGE)
        await cell.fails(
            compute.REASON_CONFIGURATION_ERROR,
            "container app: container has runAsNonRoot and image will run as root",
        )


async def test_a_baseline_cell_runs_an_image_that_runs_as_root() -> None:
    async with pod_cell() as cell:
        await cell.create(image=ROOT_IMAGE)
        await cell.available()


async def test_memory_that_ran_out_is_said_until_the_container_has_settled() -> None:
    async with pod_cell() as cell:
        await cell.create()
        await cell.available()
        cell.cluster.kill((await cell.pod()).metadata.uid, "app")
        await cell.fails(
            compute.REASON_INSTANCE_CRASHING,
            "killed, out of memory (OOMKilled; its limit is 2048 MiB)",
        )
        await cell.available()


@pytest.mark.parametrize(
    ("reason", "reported"),
    [("Evicted", "InsufficientCapacity"), ("OutOfcpu", "InsufficientCapacity")],
)
async def test_a_pod_that_its_node_ended_is_replaced(reason: str, reported: str) -> None:
    async with pod_cell() as cell:
        await cell.create()
        await cell.available()
        before = await cell.pod()
        await cell.cluster.evict(cell.client, before, reason, "The node was low on memory.")
        await cell.fails(reported, "its Pod ended and is replaced: The node was low on memory.")
        await cell.available()

        assert (await cell.pod()).metadata.uid != before.metadata.uid


async def test_a_node_that_refuses_every_pod_gets_few_of_them() -> None:
    async with pod_cell() as cell:
        await cell.create()
        await cell.available()
        seen = set()
        for _ in range(60):
            [*found] = (await cell.client.list(core.PODS)).items
            for pod in found:
                if not pod.metadata.deleting and pod.metadata.uid not in seen:
                    await asyncio.sleep(0.1)
                    seen.add(pod.metadata.uid)
                    await cell.cluster.evict(cell.client, pod, "OutOfcpu", "no room")
            await asyncio.sleep(1)

        assert len(seen) <= 7


async def test_a_pod_deleted_by_hand_is_made_again() -> None:
    async with pod_cell() as cell:
        await cell.create()
        await cell.available()
        before = await cell.pod()
        await cell.client.delete(core.PODS, before.name, NS)
        await cell.becomes(conditions.UNKNOWN, compute.REASON_PROVISIONING, "another one follows")
        await cell.available()

        assert (await cell.pod()).metadata.uid != before.metadata.uid


async def test_an_instance_on_a_node_that_does_not_report_is_not_available() -> None:
    async with pod_cell() as cell:
        await cell.create()
        await cell.available()
        pod = await cell.pod()
        lost = [
            {"type": "Ready", "status": "False", "message": "Node is not ready"},
            {"type": "ContainersReady", "status": "True"},
            {"type": "PodScheduled", "status": "True"},
        ]
        body = merge({"status": {"conditions": lost}})
        await cell.client.patch(core.PODS, pod.name, body, NS, subresource="status")

        await cell.becomes(conditions.UNKNOWN, compute.REASON_PROVISIONING, "Node is not ready")


async def test_a_pod_of_the_same_name_that_belongs_to_another_is_left_alone() -> None:
    async with pod_cell() as cell:
        created = await cell.create("other-0")
        await cell.available("other-0")
        name = f"web-0-{created.metadata.uid[:8]}"
        assert name not in [pod.name for pod in (await cell.client.list(core.PODS)).items]
        first = await cell.pod()
        await cell.client.delete(compute.INSTANCES, "other-0", NS)
        await asyncio.sleep(5)
        again = await cell.create("other-0")
        await cell.available("other-0")

        pod = await cell.pod()
        assert pod.metadata.uid != first.metadata.uid
        assert pod.metadata.controller().uid == again.metadata.uid  # type: ignore[union-attr]


async def test_a_command_in_an_instance_without_a_pod_is_refused() -> None:
    async with pod_cell() as cell:
        with pytest.raises(ExecRefused, match="it has no Pod yet"):
            await cell.provider.exec("unknown", CommandRequest(("/bin/sh",), "app"))


async def test_an_idle_instance_is_not_written() -> None:
    async with pod_cell() as cell:
        await cell.create()
        await cell.available()
        before = (await cell.instance()).metadata.resource_version
        await asyncio.sleep(3600)

        assert (await cell.instance()).metadata.resource_version == before


async def test_lines_are_those_of_the_pod_and_end_with_it() -> None:
    async with pod_cell() as cell:
        uid = (await cell.create()).metadata.uid
        await cell.available()
        pod = await cell.pod()
        cell.cluster.print(pod.metadata.uid, "second")
        assert [line.text async for line in cell.provider.lines(uid)] == ["hello", "second"]
        assert [line.text async for line in cell.provider.lines(uid, tail=1)] == ["second"]

        async def follow() -> list[str]:
            return [line.text async for line in cell.provider.lines(uid, follow=True)]

        followed = asyncio.create_task(follow())
        await asyncio.sleep(1)
        cell.cluster.print(pod.metadata.uid, "third")
        await asyncio.sleep(1)
        await cell.client.delete(compute.INSTANCES, "web-0", NS)

        assert await followed == ["hello", "second", "third"]
