"""One deployment on one local platform, from the create of its Workload to all Available.

The platform runs in this process on a real file, with the simulated provider, which has no
delays of its own. The workload is what ``deploy`` writes. The clock stops when a watch on the
project has shown every Instance as Available; the writes are counted when the planes have
settled after that, so late writes are counted as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import apsw
import uvloop

from datum_compute.api.compute import v1alpha as compute
from datum_compute.assembly.event_loop import GC_THRESHOLDS
from datum_compute.assembly.local.platform import ADMIN, LocalPlatform
from datum_compute.assembly.local.state import LocalSettings
from datum_compute.cli.commands.deploy import manifest
from datum_compute.cli.commands.deploy.flags import Flags
from datum_compute.client.protocol import Client, EventType
from datum_compute.env import SystemEnvironment

LIMIT_SECONDS = 290.0
"""Less than the server keeps its history, so that every write can still be counted."""
QUIET_SECONDS = 1.0
PLENTY = 100_000_000
LEASES = "leases.coordination.k8s.io"


@dataclass(frozen=True)
class Run:
    instances: int
    seconds: float
    """From the create of the workload to all Instances Available in the project."""
    cpu_seconds: float
    """CPU time of this process: distinguishes a slow platform from a busy machine."""
    writes: Counter[str]
    """Stored revisions, Leases apart, by type of plane and resource."""

    def per_instance(self) -> dict[str, float]:
        return {name: count / self.instances for name, count in self.writes.items()}


def run_deployment(
    cities: Sequence[str],
    per_city: int,
    *,
    on_start: Callable[[], object] = lambda: None,
    on_end: Callable[[], object] = lambda: None,
) -> Run:
    """One run in this process; the hooks enclose what the clock measures."""
    with (
        tempfile.TemporaryDirectory(prefix="datum-compute-bench-") as directory,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        platform_gc_thresholds(),
    ):
        database = Path(directory, "state.db")
        return runner.run(_run(database, cities, per_city, on_start=on_start, on_end=on_end))


async def _run(
    database: Path,
    cities: Sequence[str],
    per_city: int,
    *,
    on_start: Callable[[], object],
    on_end: Callable[[], object],
) -> Run:
    instances = len(cities) * per_city
    async with platform_with_large_quota(database, cities) as platform:
        gc.freeze()
        project_client = platform.client(f"project/{platform.settings.project}", ADMIN)
        await _quiet(database)
        before = _count_writes(database)
        on_start()
        start, cpu_start = time.perf_counter(), time.process_time()
        async with asyncio.timeout(LIMIT_SECONDS):
            await deploy(project_client, "bench", cities, per_city)
            await all_available(project_client, instances)
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
        on_end()
        await _quiet(database)
        return Run(instances, seconds, cpu_seconds, _count_writes(database) - before)


@contextlib.asynccontextmanager
async def platform_with_large_quota(
    database: Path, cities: Sequence[str]
) -> AsyncIterator[LocalPlatform]:
    """A platform whose project has ample quota."""
    grant = dict.fromkeys(LocalSettings().grant, PLENTY)
    settings = LocalSettings(cities=tuple(cities), grant=grant)
    env = SystemEnvironment()
    async with LocalPlatform(env, database, settings).run(admin_token=env.new_token()) as platform:
        yield platform


async def deploy(
    project_client: Client,
    name: str,
    cities: Sequence[str],
    per_city: int,
    annotations: Mapping[str, str] | None = None,
) -> None:
    """Create a workload as the command does; the annotations go on its template."""
    flags = Flags(image="registry.example/bench:1", cities=tuple(cities), minimum=per_city)
    workload = manifest.new_workload(name, flags)
    if annotations:
        workload["spec"]["template"].setdefault("metadata", {})["annotations"] = dict(annotations)
    await project_client.create(compute.WORKLOADS, workload, "default")


async def all_available(project_client: Client, instances: int) -> None:
    available: set[str] = set()
    async with project_client.watch(compute.INSTANCES, "default") as events:
        async for event in events:
            instance = event.object
            if event.type is EventType.BOOKMARK:
                continue
            if event.type is not EventType.DELETED and instance.view(compute.Instance).ready:
                available.add(instance.name)
            else:
                available.discard(instance.name)
            if len(available) == instances:
                return
    raise RuntimeError(f"the watch ended with {len(available)} of {instances} Available")


async def _quiet(database: Path) -> None:
    """Return when there has been no write for a while."""
    last = -1
    async with asyncio.timeout(LIMIT_SECONDS):
        while (count := _count_writes(database).total()) != last:
            last = count
            await asyncio.sleep(QUIET_SECONDS)


def _count_writes(database: Path) -> Counter[str]:
    """Rows of the server's log: each is one stored revision of one object.

    Read through the library that the server uses: a second copy of SQLite in one process
    would release the locks of the first.
    """
    file = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
    with contextlib.closing(file):
        rows = file.execute(
            "SELECT planes.type, log.resource, COUNT(*) FROM log"
            " JOIN planes ON planes.id = log.plane"
            " WHERE log.resource != ? GROUP BY planes.type, log.resource",
            (LEASES,),
        )
        return Counter({f"{plane} {resource}": count for plane, resource, count in rows})


@contextlib.contextmanager
def platform_gc_thresholds() -> Iterator[None]:
    """The garbage collector set as a platform's own process sets it."""
    before = gc.get_threshold()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
