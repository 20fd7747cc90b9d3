"""Budget 13: 50 Workloads of one Instance each as containers, against the engine alone.

The engine's own time is that of the same 50 containers, created and started through its API with
as many calls at a time as the provider makes. The platform's ends when the project shows all
Instances as Ready. The turns are the engine, the platform, the engine; the two of the engine are
averaged. The platform runs in this process, so its CPU time while
nothing happens is the process's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from bench import budgets
from bench.deployment import PLENTY, all_available, platform_gc_thresholds
from bench.report import Result
from datum_compute.api.compute import v1alpha as compute
from datum_compute.assembly.local.platform import ADMIN, LocalPlatform
from datum_compute.assembly.local.state import LocalSettings, platform_mark
from datum_compute.cli.commands.deploy import manifest
from datum_compute.cli.commands.deploy.flags import Flags
from datum_compute.env import SystemEnvironment
from datum_compute.providers import registry
from datum_compute.providers.container import host, networks, sockets, spec
from datum_compute.providers.container.engine import ContainerEngine
from datum_compute.providers.container.provider import STARTS
from datum_compute.providers.protocol import InstanceTarget

COUNT = 50
LIMIT_SECONDS = 300.0
POLL_SECONDS = 0.2
SETTLE_SECONDS = 10.0
IDLE_SECONDS = 60.0
CITY = "DFW"


def measure() -> list[Result]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, platform_gc_thresholds():
        return runner.run(_measure())


async def _measure() -> list[Result]:
    env = SystemEnvironment()
    wanted = env.variable("DATUM_RUNTIME")
    record = registry.find(wanted) if wanted else (await registry.choose("local", env))[0]
    socket = await sockets.find_socket(env, record.name) if record.probe else None
    busybox = host.static_busybox(env)
    if socket is None or busybox is None:
        error = "no container engine and static busybox on this machine"
        return [Result(each, None, error=error) for each in (budgets.STARTED, budgets.RESTING)]
    async with ContainerEngine(socket) as engine:
        await engine.load(host.build_busybox_image(busybox))
        alone = [await _run_engine(env, engine, record.name)]
        ours, idle = await _run_platform(env, engine, record.name)
        alone.append(await _run_engine(env, engine, record.name))
    mean = statistics.mean(alone)
    parts = {f"{record.name} alone, s": mean, "the platform, s": ours}
    return [
        Result(budgets.STARTED, ours / mean, details=parts),
        Result(budgets.RESTING, idle),
    ]


# The platform.


async def _run_platform(
    env: SystemEnvironment, engine: ContainerEngine, runtime: str
) -> tuple[float, float]:
    """Seconds until all are started, and percent of a core while they run."""
    with tempfile.TemporaryDirectory(prefix="datum-compute-bench-") as directory:
        database = Path(directory, "state.db")
        labels = spec.platform_labels(platform_mark(database))
        try:
            async with _platform(env, database, runtime) as platform, _limit():
                client = platform.client(f"project/{platform.settings.project}", ADMIN)
                start = time.perf_counter()
                await asyncio.gather(
                    *(
                        client.create(compute.WORKLOADS, _workload(number), "default")
                        for number in range(COUNT)
                    )
                )
                # By a watch: the engine takes as much CPU for a list as for starting a container.
                await all_available(client, COUNT)
                seconds = time.perf_counter() - start
                await _wait_started(engine, labels)
                await asyncio.sleep(SETTLE_SECONDS)
                cpu = time.process_time()
                await asyncio.sleep(IDLE_SECONDS)
                return seconds, 100 * (time.process_time() - cpu) / IDLE_SECONDS
        finally:
            await host.end_containers(env, runtime, platform_mark(database), remove=True)


@contextlib.asynccontextmanager
async def _platform(
    env: SystemEnvironment, database: Path, runtime: str
) -> AsyncIterator[LocalPlatform]:
    grant = dict.fromkeys(LocalSettings().grant, PLENTY)
    settings = LocalSettings(cities=(CITY,), grant=grant, runtime=runtime)
    async with LocalPlatform(env, database, settings).run(admin_token=env.new_token()) as platform:
        yield platform


def _workload(number: int) -> dict[str, Any]:
    flags = Flags(image=host.BUSYBOX_IMAGE, cities=(CITY,), minimum=1, ports=("80",))
    return manifest.new_workload(f"bench-{number}", flags)


async def _wait_started(engine: ContainerEngine, labels: dict[str, str]) -> None:
    while True:
        found = await engine.containers(labels)
        if sum(each.get("State") == "running" for each in found) == COUNT:
            return
        await asyncio.sleep(POLL_SECONDS)


# The engine alone.


async def _run_engine(env: SystemEnvironment, engine: ContainerEngine, runtime: str) -> float:
    mark = env.new_uid()[:12]
    labels = spec.platform_labels(mark, "bench")
    taken = await host.occupied_ranges(env, runtime)
    pool = IPv4Network("10.96.0.0/12").subnets(new_prefix=24)
    range_ = next(each for each in pool if not any(each.overlaps(one) for one in taken))
    own = networks.EngineNetworks(lambda: engine, mark, "bench")
    limits = sockets.limits_of_this_host(runtime)
    slots = asyncio.Semaphore(STARTS)

    async def one(number: int, network: str) -> None:
        target = build_target(number)
        attachment = spec.Attachment(
            network, str(range_[number + 2]), str(IPv4Network("127.100.0.0/24")[number + 1])
        )
        body = spec.build_body(target, 0, attachment, limits, labels)
        async with slots:
            await engine.start(await engine.create(f"bench-{mark}-{number}", body))

    try:
        async with _limit():
            start = time.perf_counter()
            network = await own.ensure("bench", "bench", range_)
            await asyncio.gather(*(one(number, network) for number in range(COUNT)))
            await _wait_started(engine, labels)
            return time.perf_counter() - start
    finally:
        await host.end_containers(env, runtime, mark, remove=True)


def build_target(number: int) -> InstanceTarget:
    """As the platform's own Instances are."""
    template = _workload(number)["spec"]["template"]["spec"]
    body = {"metadata": {"name": f"bench-{number}", "uid": str(number)}, "spec": template}
    return InstanceTarget("bench", msgspec.convert(body, compute.Instance))


@contextlib.asynccontextmanager
async def _limit() -> AsyncIterator[None]:
    async with asyncio.timeout(LIMIT_SECONDS):
        yield
