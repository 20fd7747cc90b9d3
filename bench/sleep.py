"""Sleeping Instances: the first request beside the engine's own time, and what a thousand cost.

The Instance and a container of the engine alone are the same program on the same network, and take
turns, so that both meet the same load of the machine. The engine's time is from its unpause or
start until the program answers, dialled as often as the activator does. Run by itself::

    python -m bench.sleep [--rounds 50] [--engine podman]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import resource
import statistics
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from ipaddress import IPv4Network
from pathlib import Path

import uvloop

from bench.containers import build_target
from datum_compute.decisions.sleep import Rest, SleepPolicy
from datum_compute.env import SystemEnvironment
from datum_compute.providers.container import host, networks, sockets, spec
from datum_compute.providers.container.activator import (
    Activator,
    InstanceContainers,
    Sleeper,
    WakeMetrics,
    connections,
)
from datum_compute.providers.container.engine import ContainerEngine
from datum_compute.runtime.metrics.registry import MetricsRegistry

ADDRESS = "127.101.0.1"
PORT = 80
SLEEPERS = 1000
IDLE_SECONDS = 60.0
REQUEST = b"GET / HTTP/1.0\r\nhost: bench\r\n\r\n"


async def ask(address: str) -> None:
    """One request, from the dial to the end of the answer. Raises ``OSError``."""
    loop = asyncio.get_running_loop()
    sock = await connections.dial(address, PORT, 30)
    with sock:
        await loop.sock_sendall(sock, REQUEST)
        if not await loop.sock_recv(sock, 4096):
            raise ConnectionResetError("closed without an answer")


async def ask_early(address: str) -> None:
    """The same of a container that has just been started."""
    sock = await connections.dial_until(address, PORT, asyncio.get_running_loop().time() + 30)
    with sock:
        await asyncio.get_running_loop().sock_sendall(sock, REQUEST)
        await asyncio.get_running_loop().sock_recv(sock, 4096)


class Pair:
    """Two containers: one behind the activator, one of the engine alone."""

    def __init__(self, engine: ContainerEngine, names: list[str], addresses: list[str]) -> None:
        self._engine = engine
        self.alone, self.alone_address = names[1], addresses[1]
        self.containers = InstanceContainers(lambda: engine, names[:1], asyncio.Semaphore(4))
        self.sleeper = Sleeper(
            self.containers,
            SleepPolicy(1e9),
            addresses[0],
            PORT,
            now=lambda: datetime.now(UTC),
            changed=lambda: None,
            metrics=WakeMetrics(MetricsRegistry()),
        )

    async def put_to_sleep(self, rest: Rest) -> None:
        await self.containers.lower(rest)
        self.sleeper.rest = rest

    async def wake_alone(self, rest: Rest) -> None:
        if rest is Rest.PAUSED:
            await self._engine.pause(self.alone)
        else:
            await self._engine.stop(self.alone, 1)
        await asyncio.sleep(0.2)
        wake = self._engine.unpause if rest is Rest.PAUSED else self._engine.start
        self.started = time.perf_counter()
        await wake(self.alone)
        await ask_early(self.alone_address)


async def timed(call: Callable[[], Awaitable[None]]) -> float:
    started = time.perf_counter()
    await call()
    return 1000 * (time.perf_counter() - started)


def show(what: str, values: list[float]) -> None:
    print(
        f"{what:<44} median {statistics.median(values):7.1f}   best {min(values):7.1f}"
        f"   worst {max(values):7.1f} ms",
        flush=True,
    )


async def measure_waking(env: SystemEnvironment, engine_name: str, rounds: int) -> None:
    socket = await sockets.find_socket(env, engine_name)
    busybox = host.static_busybox(env)
    if socket is None or busybox is None:
        raise SystemExit("no container engine and static busybox on this machine")
    mark = env.new_uid()[:12]
    labels = spec.platform_labels(mark, "bench")
    taken = await host.occupied_ranges(env, engine_name)
    pool = IPv4Network("10.96.0.0/12").subnets(new_prefix=24)
    range_ = next(each for each in pool if not any(each.overlaps(one) for one in taken))
    activator = Activator()
    async with ContainerEngine(socket) as engine:
        await engine.load(host.build_busybox_image(busybox))
        try:
            own = networks.EngineNetworks(lambda: engine, mark, "bench")
            network = await own.ensure("bench", "bench", range_)
            names = [f"sleep-{mark}-{number}" for number in range(2)]
            addresses = [str(range_[number + 2]) for number in range(2)]
            limits = sockets.limits_of_this_host(engine_name)
            for number, name in enumerate(names):
                place = spec.Attachment(network, addresses[number], ADDRESS, activated=True)
                body = spec.build_body(build_target(number), 0, place, limits, labels)
                await engine.start(await engine.create(name, body))
            await asyncio.gather(*map(ask_early, addresses))
            pair = Pair(engine, names, addresses)
            activator.open("bench", ADDRESS, [PORT], pair.sleeper)
            show("warm, through the activator", [await timed(_asking) for _ in range(rounds)])
            for rest in (Rest.PAUSED, Rest.STOPPED):
                await measure_rest(pair, rest, rounds)
            for rest in (Rest.PAUSED, Rest.STOPPED):
                await pair.put_to_sleep(rest)
                started = time.perf_counter()
                found = await asyncio.gather(
                    *(ask(ADDRESS) for _ in range(200)), return_exceptions=True
                )
                lost = [each for each in found if isinstance(each, BaseException)]
                took = 1000 * (time.perf_counter() - started)
                print(
                    f"200 at once on one that is {rest.name.lower()}: {took:.0f} ms,"
                    f" {len(lost)} lost {lost[:1]}",
                    flush=True,
                )
        finally:
            await activator.close_all()
            await host.end_containers(env, engine_name, mark, remove=True)


async def _asking() -> None:
    await ask(ADDRESS)


async def measure_rest(pair: Pair, rest: Rest, rounds: int) -> None:
    ours: list[float] = []
    alone: list[float] = []
    for _ in range(rounds):
        await pair.put_to_sleep(rest)
        await asyncio.sleep(0.2)
        ours.append(await timed(_asking))
        await pair.wake_alone(rest)
        alone.append(1000 * (time.perf_counter() - pair.started))
    word = rest.name.lower()
    show(f"first request, {word}, through the activator", ours)
    show(f"first request, {word}, the engine alone", alone)
    # The two of a pair have about the same load of the machine.
    over = [one - other for one, other in zip(ours, alone, strict=True)]
    show(f"over the engine, {word}, pair by pair", over)
    for name, of in (("median", statistics.median), ("worst", max)):
        print(f"over the engine, {word}, {name} to {name}: {of(ours) - of(alone):.1f} ms")


class _Nothing:
    async def lower(self, rest: Rest) -> None: ...

    async def resume(self, rest: Rest) -> None: ...


async def measure_sleepers() -> None:
    """A thousand that are stopped: their memory in this process, and its CPU time."""
    activator, metrics = Activator(), WakeMetrics(MetricsRegistry())
    gc.collect()
    before = _resident_bytes()
    for number in range(SLEEPERS):
        sleeper = Sleeper(
            _Nothing(),
            SleepPolicy(300.0, 3000.0),
            "127.0.0.1",
            PORT,
            now=lambda: datetime.now(UTC),
            changed=lambda: None,
            metrics=metrics,
            rest=Rest.PAUSED,
            idle_seconds=300.0,
        )
        address = str(IPv4Network("127.102.0.0/16")[number + 1])
        activator.open(str(number), address, [PORT], sleeper)
    gc.collect()
    each = (_resident_bytes() - before) / SLEEPERS
    usage = resource.getrusage(resource.RUSAGE_SELF)
    await asyncio.sleep(IDLE_SECONDS)
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - usage.ru_utime - usage.ru_stime
    print(
        f"{SLEEPERS} sleepers: {each / 1024:.2f} KB each,"
        f" {100 * cpu / IDLE_SECONDS:.3f} % of a core over {IDLE_SECONDS:.0f} s",
        flush=True,
    )
    await activator.close_all()


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def main(rounds: int, engine: str) -> None:
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    await measure_sleepers()
    await measure_waking(SystemEnvironment(), engine, rounds)
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--engine", default="podman")
    given = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(given.rounds, given.engine))
