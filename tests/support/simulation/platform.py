"""A whole local platform on virtual time, which may lose its power at any commit.

A :class:`PlatformRun` is one process: an event loop, an environment and a platform over a file.
It runs a scenario until the scenario ends or the power is cut; the next run finds what the file
holds then. Nothing else survives: no task is cancelled and no ``finally`` runs, as after
``kill -9``.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Protocol

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.scheme import Resource
from datum_compute.apiserver.request.roles import Roles
from datum_compute.assembly.local.partitions import Partitions
from datum_compute.assembly.local.platform import ADMIN, LocalPlatform, in_process_transport
from datum_compute.assembly.local.state import LocalSettings
from datum_compute.client import errors
from datum_compute.client.protocol import Client, merge
from datum_compute.client.transport import Handler, HttpRequest, HttpResponse, Transport
from datum_compute.runtime.writes import patch
from datum_compute.testing.calls import RecordingAuthorizer
from datum_compute.testing.environment import START, SimulatedEnvironment
from datum_compute.testing.loop import LIMIT_SECONDS, VirtualLoop
from tests.support.client.intercepted_transport import (
    Action,
    InterceptedTransport,
    Rule,
    is_write,
)
from tests.support.simulation.commit_checker import CommitChecker

SETTINGS = LocalSettings(cities=("DFW", "LHR"))
NAMESPACE = "default"


class PowerCut(SystemExit):
    """Ends the event loop at once: asyncio lets only this family through its callbacks."""


Scenario = Callable[["PlatformRun"], Awaitable[None]]


class RunningPlatform(Protocol):
    """A running platform to act on and to look at, simulated or not."""

    @property
    def settings(self) -> LocalSettings: ...

    @property
    def project(self) -> Client: ...

    @property
    def shared_namespace(self) -> str:
        """The project's namespace on hub and cells; empty where the project is alone there."""
        ...

    @property
    def commit_checker(self) -> CommitChecker | None: ...

    def client(self, plane: str) -> Client: ...


@dataclass
class PlatformRun:
    seed: int
    database: Path
    number: int = 0
    """How many runs came before; each begins an hour later by default."""
    start: datetime | None = None
    cut_at: int = 0
    """The commit at which the power is cut; 0 for never."""
    cut_after_commit: bool = False
    settings: LocalSettings = SETTINGS
    losses: float = 0.0
    """The share of the platform's own writes that are lost, or whose reply is."""
    commit_checker: CommitChecker | None = None
    """Checks every commit, over all runs."""
    partitions: Partitions = field(default_factory=Partitions)
    longest_seconds: float = LIMIT_SECONDS
    """Of virtual time; a run that takes longer fails."""
    commits: int = 0
    platform: LocalPlatform = field(init=False)
    env: SimulatedEnvironment = field(init=False)
    calls: RecordingAuthorizer = field(init=False)

    def run(self, scenario: Scenario) -> bool:
        """Whether the scenario ended."""
        try:
            self._run(scenario)
        except PowerCut:
            self.platform.abandon()
        else:
            return True
        self._discard()
        return False

    def _run(self, scenario: Scenario) -> None:
        start = self.start or START + timedelta(hours=self.number)
        env = self.env = SimulatedEnvironment(self.seed, start)
        commit_checker = self.commit_checker
        if commit_checker is not None:
            commit_checker.begin()
            env.on_fault("store.after-commit", commit_checker.committed)
        point = "store.after-commit" if self.cut_after_commit else "store.before-commit"
        env.on_fault(point, self._count)
        listeners = [commit_checker.changed] if commit_checker is not None else []
        self.platform = LocalPlatform(
            env,
            self.database,
            self.settings,
            partitions=self.partitions,
            transport_factory=self._carrier,
            listeners=listeners,
            guard=self._guard,
        )
        loop = VirtualLoop(self.seed, limit=self.longest_seconds)
        try:
            loop.run_until_complete(self._run_scenario(scenario))
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    def _discard(self) -> None:
        """Free what the process held, without the warnings of its unfinished coroutines."""
        complain = sys.unraisablehook
        sys.unraisablehook = lambda _: None
        try:
            del self.platform
            self.partitions = Partitions(
                self.partitions.cells
            )  # with the streams of the old process
            if self.commit_checker is not None:
                self.commit_checker.begin()  # drops what was never committed
            gc.collect()
        finally:
            sys.unraisablehook = complain

    async def _run_scenario(self, scenario: Scenario) -> None:
        async with self.platform.run(admin_token="simulated-admin"):
            await scenario(self)
        assert self.calls.denied == set(), "rights are missing"

    def _guard(self, roles: Roles) -> RecordingAuthorizer:
        self.calls = RecordingAuthorizer(roles)
        return self.calls

    def _carrier(self, handler: Handler, process: str, plane: str) -> Transport:
        transport = in_process_transport(handler, process, plane)
        if not self.losses or process == ADMIN:
            return transport
        lossy = Rule(lose_some(self.env.random("losses"), self.losses), is_write)
        return InterceptedTransport(transport, [lossy])

    def _count(self) -> None:
        self.commits += 1
        if self.commits == self.cut_at:
            raise PowerCut

    def client(self, plane: str) -> Client:
        return self.platform.client(plane, "local-admin")

    @property
    def project(self) -> Client:
        return self.client(f"project/{self.settings.project}")

    @property
    def shared_namespace(self) -> str:
        return ""


def lose_some(chance: Random, share: float) -> Action:
    """Lose this share: half of it before the request arrives, half of it as replies."""

    async def action(request: HttpRequest, forward: Handler) -> HttpResponse:
        fate = chance.random()
        if fate < share / 2:
            raise errors.Disconnected("the request was lost")
        response = await forward(request)
        if fate < share:
            raise errors.Disconnected("the reply was lost")
        return response

    return action


def workload(image: str, minimum: int, cities: tuple[str, ...] = ("DFW", "LHR")) -> dict[str, Any]:
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": "web"},
        "spec": {
            "template": {
                "spec": {
                    "runtime": {
                        "resources": {"instanceType": "datumcloud/d1-standard-2"},
                        "sandbox": {"containers": [{"name": "app", "image": image}]},
                    },
                    "networkInterfaces": [{"network": {"name": "default"}}],
                }
            },
            "placements": [
                {
                    "name": "default",
                    "cityCodes": list(cities),
                    "scaleSettings": {"minReplicas": minimum},
                }
            ],
        },
    }


async def apply(platform: RunningPlatform, wanted: dict[str, Any]) -> None:
    """Create the workload, or change it to this; may be repeated."""
    try:
        await platform.project.create(compute.WORKLOADS, wanted, NAMESPACE)
    except errors.AlreadyExists:
        await platform.project.patch(
            compute.WORKLOADS, "web", merge({"spec": wanted["spec"]}), NAMESPACE
        )


async def list_on_planes(
    platform: RunningPlatform, resource: Resource, *planes: str
) -> list[Object]:
    """Objects on these planes; on shared planes, only those of this project."""
    found: list[Object] = []
    for plane in planes:
        shared = not plane.startswith("project/") and resource != karmada.WORKS
        found += (
            await platform.client(plane).list(resource, platform.shared_namespace if shared else "")
        ).items
    if platform.shared_namespace and resource == karmada.WORKS:
        found = [work for work in found if _is_of(work, platform.shared_namespace)]
    return found


def _is_of(work: Object, namespace: str) -> bool:
    """Works of all projects are in one namespace per cell."""
    manifests = patch.values(work.spec)["workload"]["manifests"]
    return any(each["metadata"].get("namespace") == namespace for each in manifests)


def cell_planes(platform: RunningPlatform) -> list[str]:
    return [f"cell/{cell}" for cell in platform.settings.cells]


async def missing_for_image(platform: RunningPlatform, image: str, count: int) -> str:
    """What is missing until ``count`` Instances of this image are Available everywhere."""
    obj = await platform.project.get(compute.WORKLOADS, "web", NAMESPACE)
    status = obj.view(compute.Workload).status
    if status.observed_generation != obj.metadata.generation:
        return f"the workload's report is of generation {status.observed_generation}"
    counters = (status.replicas, status.updated_replicas, status.ready_replicas)
    if counters != (count, count, count):
        return f"counters are {counters}, not {count}"
    for plane in (f"project/{platform.settings.project}", "hub"):
        found = await list_on_planes(platform, compute.INSTANCES, plane)
        if problem := _wrong(found, image, count):
            return f"{plane}: {problem}"
    if problem := _wrong(
        await list_on_planes(platform, compute.INSTANCES, *cell_planes(platform)), image, count
    ):
        return f"cells: {problem}"
    claims = await platform.project.list(quota.RESOURCE_CLAIMS)
    return "" if len(claims.items) == count else f"{len(claims.items)} claims, not {count}"


def _wrong(instances: list[Object], image: str, count: int) -> str:
    if len(instances) != count:
        return f"{len(instances)} instances, not {count}"
    for obj in instances:
        view = obj.view(compute.Instance)
        sandbox = view.spec.runtime.sandbox
        if sandbox is None or sandbox.containers[0].image != image:
            return f"{obj.name} has another image"
        ready = [c for c in view.status.conditions if c.type == "Ready"]
        if not ready or ready[0].status != "True":
            return f"{obj.name} is not Ready: {ready[0].reason if ready else 'no condition'}"
    return ""


async def leftovers(platform: RunningPlatform) -> str:
    """What is left of a destroyed workload on any plane, or nothing."""
    project = f"project/{platform.settings.project}"
    places = [
        (compute.WORKLOADS, (project,)),
        (compute.WORKLOAD_DEPLOYMENTS, (project, "hub", *cell_planes(platform))),
        (compute.INSTANCES, (project, "hub", *cell_planes(platform))),
        (quota.RESOURCE_CLAIMS, (project,)),
        (karmada.PROPAGATION_POLICIES, ("hub",)),
        (karmada.RESOURCE_BINDINGS, ("hub",)),
        (networking.NETWORK_BINDINGS, tuple(cell_planes(platform))),
        (networking.SUBNET_CLAIMS, tuple(cell_planes(platform))),
        (networking.SUBNETS, tuple(cell_planes(platform))),
    ]
    for resource, planes in places:
        for obj in await list_on_planes(platform, resource, *planes):
            return f"{obj!r} is left"
    for work in await list_on_planes(platform, karmada.WORKS, "hub"):
        # The namespace itself stays on the cells, on purpose, and so does its Work.
        if not any(o.kind == "Namespace" for o in work.metadata.owner_references):
            return f"{work!r} is left"
    return ""
