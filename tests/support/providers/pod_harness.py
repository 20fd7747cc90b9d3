"""A cell whose Instances are Pods, for the kit of providers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from datum_compute.api import core, quantities
from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import Client
from datum_compute.env import Environment
from datum_compute.fleets.single import SingleFleet
from datum_compute.providers.conformance import (
    Capability,
    Failure,
    Harness,
    Lack,
    ObservedContainer,
    PrivateImage,
    failures,
    networks,
    sleep,
    suspension,
)
from datum_compute.providers.conformance.harness import addresses, expect, run
from datum_compute.providers.pod import PodProvider, PodSettings
from datum_compute.providers.protocol import ExecSource, LogSource
from datum_compute.providers.sandbox import LABEL_UID
from datum_compute.runtime.manager import Manager
from tests.support.providers.pods import PRIVATE_IMAGE


async def the_cell_is_enough(cell: Harness) -> None:
    await run(cell, "alone-0")


async def the_address_is_that_of_the_pod(cell: Harness) -> None:
    found = await run(cell, "inside-0", container=networks.serves(80))
    [pod] = (await cell.client.list(core.PODS, label_selector=_of(found.metadata.uid))).items
    expected = (pod.view(core.Pod).status.pod_ip, "")
    expect(addresses(found) == expected, f"the addresses are {addresses(found)}")


LACKS = {
    Capability.SUBNETS: Lack("Pods are on the cluster's network", the_address_is_that_of_the_pod),
    Capability.PUBLISHED: Lack("no Service is made", the_address_is_that_of_the_pod),
    Capability.ENGINE: Lack("the Pods are objects of the cell", the_cell_is_enough),
    Capability.VIRTUAL_MACHINES: Lack(
        "a Pod runs containers", failures.a_virtual_machine_is_refused
    ),
    Capability.SLEEP: Lack("whether a Pod is idle is not known", sleep.sleep_is_refused_in_words),
    Capability.KEPT: Lack("a Pod cannot be stopped", suspension.a_started_instance_is_made_anew),
    Capability.DISKS: Lack("a Pod's files end with it", failures.a_disk_is_refused),
}


async def http_get(address: str, port: int) -> str:
    """The body of ``GET /``."""
    reader, writer = await asyncio.wait_for(asyncio.open_connection(address, port), 5)
    try:
        writer.write(b"GET / HTTP/1.0\r\nhost: kit\r\n\r\n")
        found = await asyncio.wait_for(reader.read(), 5)
    finally:
        writer.close()
    return found.partition(b"\r\n\r\n")[2].decode()


def _of(uid: str) -> str:
    return f"{LABEL_UID}={uid}"


@dataclass(kw_only=True)
class PodHarness(Harness):
    env: Environment
    provider_client: Client
    task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        cell = SingleFleet("cell", "single", self.provider_client, self.env)
        self.runs = PodProvider(cell, self.env, PodSettings())
        manager = Manager("provider", self.env)
        manager.add(*self.runs.controllers())
        self.task = asyncio.create_task(manager.run())
        await manager.wait_ready()

    async def stop(self) -> None:
        task, self.task = self.task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def running(self, uid: str) -> Sequence[ObservedContainer]:
        pods = (await self.client.list(core.PODS, label_selector=_of(uid))).items
        return [
            _observed(json.loads(pod.to_wire()), container)
            for pod in pods
            for container in json.loads(bytes(pod.spec))["containers"]
        ]

    def logs(self) -> LogSource:
        return self.runs

    def commands(self) -> ExecSource:
        return self.runs

    async def discard(self, uid: str) -> None:
        for pod in (await self.client.list(core.PODS, label_selector=_of(uid))).items:
            await self.client.delete(core.PODS, pod.name, pod.namespace)

    @asynccontextmanager
    async def private_image(self) -> AsyncIterator[PrivateImage]:
        yield PRIVATE_IMAGE

    def failure(self, reason: str) -> Failure:
        found = super().failure(reason)
        if reason == compute.REASON_INSUFFICIENT_CAPACITY:
            return Failure(found.apply, "Insufficient cpu")  # the scheduler's words
        return found


def _observed(pod: dict[str, Any], container: dict[str, Any]) -> ObservedContainer:
    limits = container["resources"]["limits"]
    statuses = pod.get("status", {}).get("containerStatuses", [])
    status: dict[str, Any] = next(
        (each for each in statuses if each["name"] == container["name"]), {}
    )
    state, last = status.get("state", {}), status.get("lastState", {})
    running = state.get("running")
    # A process that ends at once is rarely seen while it runs.
    begun = running or state.get("terminated") or last.get("terminated") or {}
    return ObservedContainer(
        pod["metadata"]["uid"],
        container["name"],
        container["image"],
        running is not None,
        str(begun.get("startedAt", "")),
        int(quantities.parse(limits["cpu"]) * 1000),
        int(quantities.parse(limits["memory"])),
        json.dumps(pod),
    )
