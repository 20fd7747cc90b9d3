"""A whole federation whose processes a test holds back, stops, kills and starts again.

Every process is the real one: management, a manager and a provider in each cell, and the
stand-ins of Karmada, Milo and the networks. Between them and the planes lies a network that
can be cut.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from datum_compute.api import core
from datum_compute.assembly.local.platform import ADMIN, Build, LocalPlatform, in_process
from datum_compute.assembly.local.state import DEFAULT_GRANT, LocalSettings
from datum_compute.client.protocol import Client
from datum_compute.client.transport import Handler, Transport
from datum_compute.platform.apiserver.roles import Roles
from datum_compute.runtime.tasks import TaskGroup
from datum_compute.testing.calls import CallRecord
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.network import Network
from datum_compute.testing.processes import Process
from tests.e2e.witness import EXPIRED_EVENTS, Witness

CITIES = ("DFW", "LHR")
NAMESPACE = "default"

Wrap = Callable[[Transport, str, str], Transport]
"""Puts something of a test's own between a process, by its name, and a plane."""


class Part:
    """A process that a test starts and stops."""

    def __init__(self, process: Process, network: Network, *, held: bool) -> None:
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
    network: Network
    settings: LocalSettings
    witness: Witness | None
    parts: dict[str, Part] = field(default_factory=dict)
    tenant: str = ""
    hub_namespace: str = ""
    platform: LocalPlatform = field(init=False)
    calls: CallRecord = field(init=False)
    """What every process has asked of every plane."""

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

    @property
    def controllers(self) -> list[str]:
        """The processes of our own managers."""
        return [name for name in self.parts if name.startswith("compute-")]

    async def start(self, *names: str) -> None:
        """Those that were held back, or stopped."""
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

    def writes(self) -> dict[str, int]:
        """Changes so far by kind, on all planes. Leases are renewed for ever, and that Events
        go with time is no write of anybody."""
        assert self.witness is not None
        quiet = (core.LEASES.group_resource, EXPIRED_EVENTS)
        return {kind: count for kind, count in self.witness.changes.items() if kind not in quiet}


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
    witness: Witness | None = None,
    permissive: bool = False,
) -> AsyncIterator[Stage]:
    """``grant`` is what the project may use, ``held`` are processes that do not start yet, and
    ``witness`` one who has seen what is in the store already. To whom a right is missing, the
    stage tells at its end, unless it is ``permissive``: then nobody needs one."""
    env = env or SimulatedEnvironment(seed)
    witness = witness or Witness()
    env.on_fault("store.after-commit", witness.committed)
    settings = LocalSettings(cities=cities, grant={**DEFAULT_GRANT, **(grant or {})})
    async with Network(env) as network:
        made = Stage(env, network, settings, witness)

        def carrier(handler: Handler, process: str, plane: str) -> Transport:
            transport = in_process(handler, process, plane)
            if process == ADMIN:
                return transport
            return network.transport(process, plane, wrap(transport, process, plane))

        def supervise(name: str, build: Build) -> Part:
            process = Process(name, build, env, network)
            part = made.parts[name] = Part(process, network, held=name in held)
            return part

        def guard(roles: Roles) -> CallRecord:
            made.calls = CallRecord(roles, permissive)
            return made.calls

        made.platform = LocalPlatform(
            env,
            path,
            settings,
            carrier=carrier,
            supervise=supervise,
            listeners=[witness.changed],
            guard=guard,
        )
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
