"""Each reconcile of the toy controller on each stale view: nothing is created twice, and nothing
is deleted that is wanted. ``test_stale_views.py`` does the same to the product's controllers."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from datum_compute.api.meta import Object
from datum_compute.client import errors
from datum_compute.fleets.static import StaticFleet
from datum_compute.runtime.controller import Controller
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import Result
from datum_compute.runtime.tasks import TaskGroup
from datum_compute.testing import loop
from datum_compute.testing.cache_history import CacheHistory, DryRunClient, StaleFleet
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.server import EmbeddedServer, embedded_server
from tests.support.simulation import toy_controller
from tests.support.simulation.toy_controller import COPIES, ORDERS, ToyBehaviour, ToyReconciler
from tests.support.simulation.toy_run import NAMES, PROJECT, ToyRun, ToyUser, toy_crds

LAGS = 32
STEPS = 20


class StaleRuns:
    """Runs each reconcile on every stale view first, where it has no effect."""

    def __init__(
        self, embedded: EmbeddedServer, env: SimulatedEnvironment, habits: ToyBehaviour
    ) -> None:
        self.env = env
        self.habits = habits
        self.orders, self.copies = embedded.client(PROJECT), embedded.client("hub")
        self.history = CacheHistory()
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []

    async def check(self, request: Request) -> None:
        now = len(self.history.events)
        oldest = now - min(LAGS, now)
        orders, copies = self._view("demo", now), self._view("hub", now)
        old_orders, old_copies = self._view("demo", oldest), self._view("hub", oldest)
        for happened in self.history.events[oldest:now]:
            # Both planes may be stale, or only one of them.
            await self._reconcile(request, old_orders, old_copies)
            await self._reconcile(request, old_orders, copies)
            await self._reconcile(request, orders, old_copies)
            old_orders.see(happened)
            old_copies.see(happened)

    def _view(self, name: str, seen: int) -> StaleFleet:
        client = self.orders if name == "demo" else self.copies
        return self.history.view(name, seen, DryRunClient(client, self._written), self.env)

    async def _reconcile(self, request: Request, projects: StaleFleet, hub: StaleFleet) -> None:
        self.counts["reconciles"] += 1
        try:
            await ToyReconciler(projects, hub, self.habits).reconcile(request)
        except (errors.Conflict, errors.NotFound):
            self.counts["refused"] += 1  # the server saw that the view was stale
        except Exception as error:  # noqa: BLE001  # the controller would only log it
            self.wrong.append(f"{request}: {error!r}")

    async def _written(self, verb: str, before: Object | None, after: Object | None) -> None:
        obj = after or before
        if obj is None or verb == "patch":
            return
        self.counts[verb] += 1
        try:
            await self.orders.get(ORDERS, obj.name, obj.namespace)
        except errors.NotFound:
            wanted = False
        else:
            wanted = True
        if wanted != (verb == "create"):
            self.wrong.append(f"{verb} of {obj!r}, which is wrong at present")
        copies = (await self.copies.list(COPIES)).items
        if verb == "create" and any(copy.name == obj.name for copy in copies):
            self.wrong.append(f"{obj!r} was created twice")


def run(seed: int, habits: ToyBehaviour = toy_controller.CORRECT) -> StaleRuns:
    return loop.run(_run(seed, habits), seed=seed)


async def _run(seed: int, habits: ToyBehaviour) -> StaleRuns:
    env = SimulatedEnvironment(seed)
    async with embedded_server(env, crds_for=toy_crds, cells=()) as embedded:
        runs = StaleRuns(embedded, env, habits)
        projects = StaticFleet("projects", {"demo": embedded.client(PROJECT)}, env)
        hub = StaticFleet("hub", {"hub": embedded.client("hub")}, env)
        projects.listen(lambda cluster: runs.history.follow(cluster, ORDERS), _nothing)
        hub.listen(lambda cluster: runs.history.follow(cluster, COPIES), _nothing)
        present = ToyReconciler(projects, hub, toy_controller.CORRECT)

        async def reconcile(request: Request) -> Result:
            await runs.check(request)
            return await present.reconcile(request)

        manager = Manager("stale-runs", env)
        manager.add(
            Controller(
                "copier", projects, reconcile, watches=toy_controller.watches(projects, hub)
            ),
            toy_controller.worker(hub),
        )
        async with TaskGroup("world") as tasks:
            running = tasks.start(manager.run(), name="manager")
            await manager.wait_ready()
            user, chance = ToyUser(ToyRun(seed), embedded.client(PROJECT)), env.random("day")
            for _ in range(STEPS):
                await user.act(chance.random(), chance.choice(NAMES))
                await asyncio.sleep(chance.choice((0.1, 0.1, 1.0, 31.0)))
            await tasks.stop(running)
    return runs


def _nothing(_: object) -> None: ...


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 11))]
)
def test_no_stale_view_causes_a_wrong_write(seed: int) -> None:
    runs = run(seed)

    assert runs.wrong == []
    assert runs.counts["reconciles"] > 1000
    # It wrote, without a wrong write.
    assert min(runs.counts[each] for each in ("create", "delete", "refused")) > 0


def test_a_controller_without_live_reads_is_caught() -> None:
    wrong = run(1, ToyBehaviour(trusts_cache=True)).wrong

    assert any(text.startswith("create of") for text in wrong)
    assert any(text.startswith("delete of") for text in wrong)
