"""A project plane on which a test acts as the controllers while a rollout is watched."""

from __future__ import annotations

import asyncio
import io
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.cli.commands.deploy.flags import Flags
from datum_compute.cli.commands.deploy.manifest import new_workload
from datum_compute.cli.context import Context, Destination, Reach, Streams
from datum_compute.cli.errors import CommandError
from datum_compute.cli.quick.reader import Reader
from datum_compute.cli.rollout.wait import wait_rolled_out
from datum_compute.cli.session import to_dict
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import Client, merge
from datum_compute.env import Environment
from datum_compute.testing.server import EmbeddedServer, embedded_server

NAMESPACE = "default"
NAME = "web"


@dataclass(frozen=True)
class PlaneDestination(Destination):
    @property
    def project(self) -> str:
        return "demo"

    def reader(self) -> Reader:
        raise AssertionError("a watch reads through its client")

    def root(self) -> None:
        return None

    def root_client(self) -> None:
        return None

    def client(self) -> ApiClient:
        raise AssertionError("the test brings the client")


class PlaneReach(Reach):
    def find(self, env: Environment, args: Namespace) -> Destination:
        return PlaneDestination()


def placement(name: str, cities: Sequence[str], minimum: int) -> dict[str, Any]:
    return {
        "name": name,
        "cityCodes": list(cities),
        "scaleSettings": {"minReplicas": minimum},
    }


@dataclass
class RolloutPlane:
    embedded: EmbeddedServer
    client: Client
    err: io.StringIO = field(default_factory=io.StringIO)

    @property
    def lines(self) -> list[str]:
        return self.err.getvalue().splitlines()

    def context(self, timeout: float, window: float) -> Context:
        streams = Streams(io.StringIO(), io.StringIO(), self.err)
        args = Namespace(output="table", no_headers=False, timeout=timeout, window=window)
        return Context(self.embedded.env, streams, args, reach=PlaneReach())

    async def watch(
        self, timeout: float = 600, client: Client | None = None, *, window: float = 0
    ) -> float:
        """Seconds until the rollout is done and was watched."""
        started = asyncio.get_running_loop().time()
        await wait_rolled_out(self.context(timeout, window), client or self.client, NAME)
        return asyncio.get_running_loop().time() - started

    async def failure(
        self, timeout: float = 600, client: Client | None = None, *, window: float = 0
    ) -> CommandError:
        try:
            await self.watch(timeout, client, window=window)
        except CommandError as error:
            return error
        raise AssertionError("the rollout was taken as done")

    async def create(self, cities: Sequence[str] = ("DFW",), minimum: int = 2) -> None:
        wanted = new_workload(NAME, Flags(image="a:1", cities=tuple(cities), minimum=minimum))
        await self.client.create(compute.WORKLOADS, wanted, NAMESPACE)

    async def change(self, spec: dict[str, Any]) -> None:
        await self.client.patch(compute.WORKLOADS, NAME, merge({"spec": spec}), NAMESPACE)

    async def observe(self, **status: Any) -> None:
        """Write the observed generation, as the workload controller does last."""
        found = await self.client.get(compute.WORKLOADS, NAME, NAMESPACE)
        body = {"status": {"observedGeneration": found.metadata.generation, **status}}
        await self.client.patch(
            compute.WORKLOADS, NAME, merge(body), NAMESPACE, subresource="status"
        )

    async def deploy(self, city: str = "DFW", placement: str = "default", minimum: int = 2) -> str:
        """Write the deployment of a city as the workload controller does."""
        workload = to_dict(await self.client.get(compute.WORKLOADS, NAME, NAMESPACE))
        name = f"{NAME}-{placement}-{city.lower()}"
        body = {
            "metadata": {
                "name": name,
                "labels": {compute.LABEL_WORKLOAD_UID: workload["metadata"]["uid"]},
            },
            "spec": {
                "workloadRef": {"name": NAME, "uid": workload["metadata"]["uid"]},
                "placementName": placement,
                "cityCode": city,
                "template": workload["spec"]["template"],
                "scaleSettings": {"minReplicas": minimum},
            },
        }
        await self.client.create(compute.WORKLOAD_DEPLOYMENTS, body, NAMESPACE)
        return name

    async def report(
        self,
        name: str,
        *,
        ready: int = 0,
        updated: int = 0,
        replicas: int = 0,
        desired: int = 2,
        reason: str = "",
        message: str = "",
        behind: int = 0,
    ) -> None:
        """What a cell reports; ``behind`` generations late."""
        found = await self.client.get(compute.WORKLOAD_DEPLOYMENTS, name, NAMESPACE)
        status: dict[str, Any] = {
            "observedGeneration": found.metadata.generation - behind,
            "replicas": replicas,
            "updatedReplicas": updated,
            "readyReplicas": ready,
            "currentReplicas": updated,
            "desiredReplicas": desired,
        }
        if reason:
            status["conditions"] = [
                {
                    "type": "ReplicasReady",
                    "status": "False",
                    "reason": reason,
                    "message": message or f"the message of {reason}",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ]
        await self.client.patch(
            compute.WORKLOAD_DEPLOYMENTS,
            name,
            merge({"status": status}),
            NAMESPACE,
            subresource="status",
        )

    async def done(self, name: str, count: int = 2) -> None:
        await self.report(name, ready=count, updated=count, replicas=count, desired=count)


@asynccontextmanager
async def rollout_plane() -> AsyncIterator[RolloutPlane]:
    async with embedded_server() as embedded:
        yield RolloutPlane(embedded, embedded.client("project/demo"))
