"""Budget 5: how long after a cell has a new status the project shows it.

Five workloads of one city each start their Instances one by one, each of which takes two
seconds. They are started apart, each in its own fifth of those two seconds, so the platform is
idle whenever an Instance becomes Available. The clock starts when a watch on the cell shows
that, and stops when watches on the project have shown both the Instance as Ready and the
Workload's counter with it.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import uvloop

from bench import budgets
from bench.deployment import deploy, platform_gc_thresholds, platform_with_large_quota
from bench.report import Result
from bench.samples import percentile, spread
from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.assembly.local.platform import ADMIN
from datum_compute.client.protocol import Client, EventType
from datum_compute.providers.simulated.behaviour import START_SECONDS

CITIES = ("DFW", "FRA", "IAD", "LHR", "NRT")
PER_CITY = 20
START = 2.0
LIMIT_SECONDS = 200.0


class Moments:
    """When each state was first seen."""

    def __init__(self) -> None:
        self.in_cell: dict[str, float] = {}
        self.in_project: dict[str, float] = {}
        self.counted: dict[str, float] = {}
        self.complete = asyncio.Event()

    def note(self, moments: dict[str, float], key: str) -> None:
        moments.setdefault(key, time.perf_counter())
        wanted = len(CITIES) * PER_CITY
        if len(self.in_project) == wanted and len(self.counted) == wanted:
            self.complete.set()

    def saw_cell_instance(self, instance: Object) -> None:
        view = instance.view(compute.Instance)
        if conditions.is_true(view.status.conditions, compute.CONDITION_AVAILABLE):
            self.note(self.in_cell, instance.name)

    def saw_project_instance(self, instance: Object) -> None:
        if instance.view(compute.Instance).ready:
            self.note(self.in_project, instance.name)

    def saw_workload(self, workload: Object) -> None:
        for ready in range(workload.view(compute.Workload).status.ready_replicas):
            self.note(self.counted, f"{workload.name}-default-{workload.name}-{ready}")

    def delays(self) -> list[float]:
        return [
            max(self.in_project[name], self.counted[name]) - start
            for name, start in self.in_cell.items()
        ]


def measure() -> list[Result]:
    with (
        tempfile.TemporaryDirectory(prefix="datum-compute-bench-") as directory,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        platform_gc_thresholds(),
    ):
        delays = runner.run(_run(Path(directory, "state.db")))
    milliseconds = [1000 * delay for delay in delays]
    return [Result(budgets.REPORT, percentile(milliseconds, 0.99), spread(milliseconds, "ms"))]


async def _run(database: Path) -> list[float]:
    moments = Moments()
    async with platform_with_large_quota(database, CITIES) as platform:
        gc.freeze()
        project_client = platform.client(f"project/{platform.settings.project}", ADMIN)
        async with asyncio.timeout(LIMIT_SECONDS), asyncio.TaskGroup() as tasks:
            watches = [
                (project_client, compute.INSTANCES, moments.saw_project_instance),
                (project_client, compute.WORKLOADS, moments.saw_workload),
            ]
            for cell in platform.settings.cells:
                cell_client = platform.client(f"cell/{cell}", ADMIN)
                watches.append((cell_client, compute.INSTANCES, moments.saw_cell_instance))
            followers = [tasks.create_task(_follow(*watch)) for watch in watches]
            for city in CITIES:
                await deploy(
                    project_client, city.lower(), [city], PER_CITY, {START_SECONDS: f"{START:g}"}
                )
                await asyncio.sleep(START / len(CITIES))
            await moments.complete.wait()
            for follower in followers:
                follower.cancel()
    return moments.delays()


async def _follow(client: Client, resource: Resource, saw: Callable[[Object], None]) -> None:
    async with client.watch(resource) as events:
        async for event in events:
            if event.type in (EventType.ADDED, EventType.MODIFIED):
                saw(event.object)
    raise RuntimeError(f"the watch of {resource} ended")
