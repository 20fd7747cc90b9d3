"""A whole federation whose processes a test holds back, stops, kills and starts again.

Every process is the real one: management, a manager and a provider in each cell, and the
stand-ins of Karmada, Milo and the networks. The network between them and the planes can be
partitioned.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from datum_compute.api import core
from datum_compute.apiserver.request.roles import Roles
from datum_compute.assembly import rights
from datum_compute.assembly.local.platform import (
    ADMIN,
    LocalPlatform,
    ManagerFactory,
    in_process_transport,
)
from datum_compute.assembly.local.state import DEFAULT_GRANT, LocalSettings
from datum_compute.assembly.process_groups import add_management
from datum_compute.client.protocol import Client
from datum_compute.client.transport import Handler, Transport
from datum_compute.controllers.planes import SINGLE
from datum_compute.env import Environment
from datum_compute.fleets.single import SingleFleet
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.tasks import TaskGroup
from datum_compute.testing.calls import RecordingAuthorizer
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.network import SimulatedNetwork
from datum_compute.testing.processes import Process
from tests.support.simulation.commit_checker import EXPIRED_EVENTS, CommitChecker
from tests.support.simulation.commits import RuleChecker

CITIES = ("DFW", "LHR")
NAMESPACE = "default"

SETTLED_AFTER_SECONDS = 1800.0
"""Seconds after which everything has settled: past the tiers of ten minutes and the
drain."""

Wrap = Callable[[Transport, str, str], Transport]
"""Wraps the transport of a process, by its name, to a plane."""


@dataclass(frozen=True)
class ManagerMode:
    """How a stage runs our managers."""

    single: bool = False
    """All controllers in one process on the plane of the first cell, and no hub."""
    quota: bool = True
    networking: bool = True

    @property
    def is_usual(self) -> bool:
        return self == ManagerMode()


FEDERATED = ManagerMode()
SINGLE_CLUSTER = ManagerMode(single=True)


class StageProcess:
    """A process that a test starts and stops."""

    def __init__(self, process: Process, network: SimulatedNetwork, *, held: bool) -> None:
        self.process = process
        self._network = network
        self._wanted = asyncio.Event()
        self._unwanted = asyncio.Event()
        if not held:
            self._wanted.set()

    async def run(self) -> None:
        async with TaskGroup(f"part {self.process.name}") as tasks:
            while True:
                await self._wanted.wait()
                self._unwanted.clear()
                running = tasks.start(self.process.run(), name=self.process.name)
                await self._unwanted.wait()
                await tasks.stop(running)

    async def wait_ready(self) -> None:
        if self._wanted.is_set():
            await self.process.wait_ready()

    def start(self) -> None:
        self._wanted.set()

    def stop(self) -> None:
        """As if killed: from this instant it has no effects."""
        self._wanted.clear()
        self._network.kill(self.process.name)
        self._unwanted.set()


@dataclass
class Stage:
    env: SimulatedEnvironment
    network: SimulatedNetwork
    settings: LocalSettings
    commit_checker: CommitChecker | None
    parts: dict[str, StageProcess] = field(default_factory=dict)
    shared_namespace: str = ""
    hub_namespace: str = ""
    quiet_seconds: float = 60.0
    platform: LocalPlatform = field(init=False)
    calls: RecordingAuthorizer = field(init=False)
    """The requests of every process to every plane."""
    managers: dict[str, Manager] = field(default_factory=dict)
    """What runs in each process, in its present life."""

    def client(self, plane: str) -> Client:
        return self.platform.client(plane, ADMIN)

    @property
    def project(self) -> Client:
        return self.client(f"project/{self.settings.project}")

    @property
    def hub(self) -> Client:
        return self.client("hub")

    def cell(self, city: str = "DFW") -> Client:
        return self.client(f"cell/{city.lower()}")

    async def of_project(self, name: str) -> Stage:
        """The same stage for another project; the first project sees all of it."""
        other = copy.copy(self)
        other.settings = replace(self.settings, project=name)
        namespace = await other.project.get(core.NAMESPACES, NAMESPACE)
        other.shared_namespace = other.hub_namespace = f"ns-{namespace.metadata.uid}"
        return other

    @property
    def controllers(self) -> list[str]:
        """The processes of our own managers."""
        return [name for name in self.parts if name.startswith("compute-")]

    async def start(self, *names: str) -> None:
        """Start processes that were held back, or stopped."""
        for name in names:
            self.parts[name].start()
        await asyncio.sleep(0.1)
        for name in names:
            await self.parts[name].wait_ready()

    def stop(self, *names: str) -> None:
        for name in names:
            self.parts[name].stop()

    async def restart(self, *names: str) -> None:
        self.stop(*names)
        await asyncio.sleep(1.0)
        await self.start(*names)

    @asynccontextmanager
    async def without(self, name: str) -> AsyncIterator[None]:
        self.stop(name)
        yield
        await self.start(name)

    def without_provider(self, city: str) -> AbstractAsyncContextManager[None]:
        return self.without(f"{rights.PROVIDER}-{city.lower()}")

    def without_cell_manager(self, city: str) -> AbstractAsyncContextManager[None]:
        return self.without(f"{rights.CELL}-{city.lower()}")

    def writes(self) -> dict[str, int]:
        """Changes so far by kind, on all planes, without leases, which are renewed for ever, and
        without Events that expire."""
        assert self.commit_checker is not None
        quiet = (core.LEASES.group_resource, EXPIRED_EVENTS)
        return {
            kind: count for kind, count in self.commit_checker.changes.items() if kind not in quiet
        }

    async def written_in(
        self, seconds: float, *, after: float = SETTLED_AFTER_SECONDS
    ) -> list[str]:
        """The last writes within this time, beginning some time from now."""
        assert self.commit_checker is not None
        await asyncio.sleep(after)
        before = self.writes()
        await asyncio.sleep(seconds)
        return [] if self.writes() == before else self.commit_checker.recent[-5:]


class _Platform(LocalPlatform):
    """A platform whose managers run in a mode other than the usual one."""

    mode = FEDERATED

    def controllers(self) -> list[tuple[str, ManagerFactory]]:
        if not self.mode.single:
            return super().controllers()
        return [(rights.SINGLE, self._alone)]

    def _alone(self, env: Environment) -> Manager:
        [cell, *_] = self.settings.cells
        manager = self._manager("single", env)
        client = self.client(f"cell/{cell}", rights.SINGLE, at=cell)
        projects = SingleFleet("projects", SINGLE, client, env)
        add_management(manager, env, projects=projects, hub=None)
        self._add_cell(manager, cell, rights.SINGLE, env, federated=False)
        return manager


@asynccontextmanager
async def stage(
    path: Path | str = ":memory:",
    *,
    cities: tuple[str, ...] = CITIES,
    grant: dict[str, int] | None = None,
    held: Collection[str] = (),
    seed: int = 0,
    wrap: Wrap = lambda transport, process, plane: transport,
    env: SimulatedEnvironment | None = None,
    commit_checker: CommitChecker | None = None,
    permissive: bool = False,
    mode: ManagerMode = FEDERATED,
    approval_by_hand: bool = False,
    rule_checker: RuleChecker | None = None,
    usual: type[LocalPlatform] = LocalPlatform,
    router_port: int = 0,
) -> AsyncIterator[Stage]:
    """``grant`` is the project's quota, ``held`` are processes that do not start yet, and
    ``commit_checker`` has seen what is in the store already; ``usual`` is the platform of the usual
    mode. With ``router_port`` URLs are written. Missing rights fail the stage at its end, unless it
    is ``permissive``: then no right is needed. The roles of a local platform are those of the usual
    mode, so any other mode is permissive."""
    env = env or SimulatedEnvironment(seed)
    commit_checker = commit_checker or CommitChecker()
    permissive = permissive or not mode.is_usual
    env.on_fault("store.after-commit", commit_checker.committed)
    listeners = [commit_checker.changed]
    if rule_checker is not None:
        env.on_fault("store.after-commit", rule_checker.committed)
        listeners.append(rule_checker.changed)
    settings = LocalSettings(
        cities=cities,
        grant={**DEFAULT_GRANT, **(grant or {})},
        approval_by_hand=approval_by_hand,
        router_port=router_port,
    )
    async with SimulatedNetwork(env) as network:
        made = Stage(env, network, settings, commit_checker)

        def carrier(handler: Handler, process: str, plane: str) -> Transport:
            transport = in_process_transport(handler, process, plane)
            if process == ADMIN:
                return transport
            return network.transport(process, plane, wrap(transport, process, plane))

        def supervise(name: str, build: ManagerFactory) -> StageProcess:
            def built(env: Environment) -> Manager:
                made.managers[name] = build(env)
                return made.managers[name]

            process = Process(name, built, env, network)
            part = made.parts[name] = StageProcess(process, network, held=name in held)
            return part

        def guard(roles: Roles) -> RecordingAuthorizer:
            made.calls = RecordingAuthorizer(roles, permissive)
            return made.calls

        kind = usual if mode.is_usual else _Platform
        made.platform = kind(
            env,
            path,
            settings,
            transport_factory=carrier,
            supervise=supervise,
            listeners=listeners,
            guard=guard,
        )
        if isinstance(made.platform, _Platform):
            made.platform.mode = mode
            made.platform.networking, made.platform.quota = mode.networking, mode.quota
        async with made.platform.run(admin_token="simulated-admin"):
            namespace = await made.project.get(core.NAMESPACES, NAMESPACE)
            made.hub_namespace = f"ns-{namespace.metadata.uid}"
            yield made
    assert permissive or made.calls.denied == set(), "rights are missing"


def deployment(
    name: str = "web-default-dfw", *, city: str = "DFW", replicas: int = 1
) -> dict[str, Any]:
    """A WorkloadDeployment written by hand, of no workload."""
    return {
        "metadata": {"name": name},
        "spec": {
            "workloadRef": {"name": "web", "uid": "of-no-workload"},
            "placementName": "default",
            "cityCode": city,
            "scaleSettings": {"minReplicas": replicas},
            "template": {
                "spec": {
                    "runtime": {
                        "resources": {"instanceType": "datumcloud/d1-standard-2"},
                        "sandbox": {"containers": [{"name": "app", "image": "acme/web:1"}]},
                    },
                    "networkInterfaces": [{"network": {"name": "default"}}],
                }
            },
        },
    }
