"""Budget 12: five thousand Workloads of one Instance each in one namespace, against five hundred.

They alternate between two cities, since the subnet of one has room for 4,093 Instances. Both runs
are bound to one core: what is shared between two would hide how the work grows.
"""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile
import time
from pathlib import Path

import uvloop

from bench import budgets
from bench.deployment import (
    all_available,
    deploy,
    platform_gc_thresholds,
    platform_with_large_quota,
)
from bench.report import Result
from datum_compute.assembly.local.platform import ADMIN

CITIES = ("DFW", "IAD")
FEW, MANY = 500, 5000
LIMIT_SECONDS = 1500.0
AT_ONCE = 16
"""Clients that create Workloads side by side."""


def measure() -> list[Result]:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        few, few_cpu = run_workloads(FEW)
        many, many_cpu = run_workloads(MANY)
    finally:
        os.sched_setaffinity(0, cores)
    details = {
        f"seconds for {FEW:,}": few,
        f"seconds for {MANY:,}": many,
        f"CPU seconds for {FEW:,}": few_cpu,
        f"CPU seconds for {MANY:,}": many_cpu,
        "growth of CPU time": many_cpu / few_cpu,
    }
    return [Result(budgets.WORKLOADS, many / few, details)]


def run_workloads(count: int) -> tuple[float, float]:
    """Seconds, and CPU seconds, from the first create to all Available."""
    with (
        tempfile.TemporaryDirectory(prefix="datum-compute-bench-") as directory,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        platform_gc_thresholds(),
    ):
        return runner.run(_run(Path(directory, "state.db"), count))


async def _run(database: Path, count: int) -> tuple[float, float]:
    async with platform_with_large_quota(database, CITIES) as platform:
        gc.freeze()
        client = platform.client(f"project/{platform.settings.project}", ADMIN)
        names = iter(range(count))

        async def create() -> None:
            for number in names:
                city = CITIES[number % len(CITIES)]
                await deploy(client, f"bench-{number}", (city,), 1)

        start, cpu_start = time.perf_counter(), time.process_time()
        async with asyncio.timeout(LIMIT_SECONDS), asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(create())
            tasks.create_task(all_available(client, count))
        return time.perf_counter() - start, time.process_time() - cpu_start
