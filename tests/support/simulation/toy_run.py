"""One seed of the toy: a user who changes orders, two processes, and a network with faults.

A run draws its faults and accidents, then lets a user order, change, cancel and order again for
a while. Then all faults end, and within :data:`SETTLED_WITHIN` every order has its copy and its
answer, no copy is left over, and there are no more writes.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from datum_compute.api import crds, planes
from datum_compute.client.client import ApiClient
from datum_compute.client.in_process import InProcessTransport
from datum_compute.client.protocol import Client, merge
from datum_compute.env import Environment
from datum_compute.fleets.static import StaticFleet
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.tasks import TaskGroup
from datum_compute.testing import loop
from datum_compute.testing.environment import SimulatedEnvironment, SkewedEnvironment
from datum_compute.testing.expectations import eventually
from datum_compute.testing.network import Direction, SimulatedNetwork
from datum_compute.testing.network_faults import NO_FAULTS, draw_faults
from datum_compute.testing.processes import Process
from datum_compute.testing.server import EmbeddedServer, embedded_server
from datum_compute.testing.trace import Trace
from tests.support.simulation.toy_controller import (
    COPIES,
    CORRECT,
    NAMESPACE,
    ORDERS,
    ToyBehaviour,
    crd,
    size_of,
    toy_controller,
    worker,
)

PROJECT = "project/demo"
NAMES = ("a", "b", "c")
STEPS = (4, 8, 16)
PAUSES = (0.0, 0.01, 0.1, 1.0, 5.0, 40.0)
SETTLED_WITHIN = 300.0
QUIET_FOR = 3600.0


@cache  # made from types, which takes longer than a whole run
def toy_crds(plane_type: planes.PlaneType) -> Sequence[Mapping[str, Any]]:
    if plane_type is planes.PROJECT:
        return [crd(ORDERS)]
    if plane_type is planes.HUB:
        return [crd(COPIES)]
    return crds.crds_for(plane_type) if plane_type is planes.ROOT else []


@dataclass
class ToyRun:
    seed: int
    habits: ToyBehaviour = CORRECT
    trace: Trace = field(default_factory=Trace)
    wanted: dict[str, int] = field(default_factory=dict)
    """Name -> size, as the user last said."""
    sizes: int = 0

    def run(self) -> str:
        """The digest of the run. Raises AssertionError, with a note on how to repeat it."""
        try:
            loop.run(self._run(), seed=self.seed)
        except BaseException as error:
            lines = "\n".join(f"  {line}" for line in list(self.trace.lines)[-40:])
            error.add_note(
                f"seed {self.seed}, {self.habits}; the last of it:\n{lines}\n"
                f"to see it again: {self._command()}"
            )
            raise
        return self.trace.digest

    def _command(self) -> str:
        words = [".venv/bin/python -m tests.support.simulation.toy_run", str(self.seed)]
        words += [] if self.habits.resyncs else ["--never-looks-again"]
        words += ["--joins-by-uid"] if self.habits.joins_by_uid else []
        return " ".join(words)

    async def _run(self) -> None:
        env = SimulatedEnvironment(self.seed)
        async with embedded_server(env, crds_for=toy_crds, cells=()) as embedded:
            self.trace.follow_commits(embedded.store, env)
            async with SimulatedNetwork(env, self.trace) as network, TaskGroup("world") as tasks:
                processes = self._processes(embedded, env, network)
                running = [tasks.start(each.run(), name=each.name) for each in processes]
                user = ToyUser(self, embedded.client(PROJECT))
                await self._disturb(env, network, processes, user)
                await self._settle(embedded)
                await tasks.stop(*running)

    def _processes(
        self, embedded: EmbeddedServer, env: SimulatedEnvironment, network: SimulatedNetwork
    ) -> list[Process]:
        def client(process: str, plane: str) -> Client:
            inner = InProcessTransport(embedded.server.handle)
            return ApiClient(
                network.transport(process, plane, inner),
                cluster=plane.rpartition("/")[2],
                prefix=planes.plane_prefix(plane),
                token=embedded.token(process),
            )

        def build_copier(env: Environment) -> Manager:
            manager = Manager("copier", env)
            projects = StaticFleet("projects", {"demo": client("copier", PROJECT)}, env)
            hub = StaticFleet("hub", {"hub": client("copier", "hub")}, env)
            manager.add(toy_controller(projects, hub, self.habits))
            return manager

        def build_worker(env: Environment) -> Manager:
            manager = Manager("worker", env)
            manager.add(worker(StaticFleet("hub", {"hub": client("worker", "hub")}, env)))
            return manager

        chance = env.random("skew")
        skewed = SkewedEnvironment(
            env, offset=chance.uniform(-600, 600), rate=chance.uniform(0.5, 2)
        )
        return [
            Process("copier", build_copier, skewed, network),
            Process("worker", build_worker, env, network),
        ]

    async def _disturb(
        self,
        env: SimulatedEnvironment,
        network: SimulatedNetwork,
        processes: list[Process],
        user: ToyUser,
    ) -> None:
        """Operations of a user, and accidents meanwhile."""
        chance = env.random("day")
        network.faults = draw_faults(env)
        crashes, cuts = chance.random() < 0.5, chance.random() < 0.5
        for _ in range(chance.choice(STEPS)):
            await asyncio.sleep(chance.choice(PAUSES))
            fate = chance.random()
            if crashes and fate < 0.15:
                chance.choice(processes).crash(chance.choice((0.0, 1.0, 30.0)))
            elif cuts and fate < 0.3:
                network.partition(
                    chance.choice(("copier", "worker")),
                    chance.choice((PROJECT, "hub")),
                    direction=chance.choice(tuple(Direction)),
                    silent=chance.random() < 0.5,
                )
            elif cuts and fate < 0.4:
                network.heal()
            else:
                await user.act(chance.random(), chance.choice(NAMES))
        network.faults = NO_FAULTS
        network.heal()

    async def _settle(self, embedded: EmbeddedServer) -> None:
        orders, copies = embedded.client(PROJECT), embedded.client("hub")
        await eventually("settled", lambda: self._unsettled(orders, copies), within=SETTLED_WITHIN)
        await asyncio.sleep(SETTLED_WITHIN)  # late messages have arrived
        commits = self.trace.counts["commit"]
        await asyncio.sleep(QUIET_FOR)
        assert self.trace.counts["commit"] == commits, "there were writes without a cause"
        assert await self._unsettled(orders, copies) == ""

    async def _unsettled(self, orders: Client, copies: Client) -> str:
        placed = {obj.name: obj for obj in (await orders.list(ORDERS)).items}
        copied = {obj.name: obj for obj in (await copies.list(COPIES)).items}
        if not placed.keys() == copied.keys() == self.wanted.keys():
            return f"wanted {sorted(self.wanted)}: orders {sorted(placed)}, copies {sorted(copied)}"
        for name, size in self.wanted.items():
            if size_of(copied[name].spec) != size:
                return f"the copy of {name} has size {size_of(copied[name].spec)}, not {size}"
            if size_of(placed[name].status) != size:
                return f"the order {name} was answered {size_of(placed[name].status)}, not {size}"
        return ""


class ToyUser:
    def __init__(self, world: ToyRun, project_client: Client) -> None:
        self._world = world
        self._client = project_client

    async def act(self, fate: float, name: str) -> None:
        wanted = self._world.wanted
        self._world.sizes += 1
        size = self._world.sizes
        if name not in wanted:
            await self._create(name, size)
        elif fate < 0.5:
            body = merge({"spec": {"size": size}})
            await self._client.patch(ORDERS, name, body, NAMESPACE)
            wanted[name] = size
        else:
            await self._client.delete(ORDERS, name, NAMESPACE)
            del wanted[name]
            if fate < 0.8:
                await self._create(name, size)

    async def _create(self, name: str, size: int) -> None:
        body = {"metadata": {"name": name}, "spec": {"size": size}}
        await self._client.create(ORDERS, body, NAMESPACE)
        self._world.wanted[name] = size


def caught_by(habits: ToyBehaviour, seeds: range) -> int | None:
    """The first seed that finds the bug in this behaviour."""
    for seed in seeds:
        try:
            ToyRun(seed, habits).run()
        except AssertionError:
            return seed
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the toy's world again, each by its seed.")
    parser.add_argument("seed", type=int)
    parser.add_argument("last", type=int, nargs="?", help="run all seeds up to this one")
    parser.add_argument("--never-looks-again", action="store_true")
    parser.add_argument("--joins-by-uid", action="store_true")
    arguments = parser.parse_args()
    habits = ToyBehaviour(not arguments.never_looks_again, arguments.joins_by_uid)
    for seed in range(arguments.seed, (arguments.last or arguments.seed) + 1):
        world = ToyRun(seed, habits)
        print(seed, world.run(), dict(sorted(world.trace.counts.items())))


if __name__ == "__main__":
    main()
