"""Budget 15: requests through the router, against the port that the engine publishes.

One Instance of the sample's web server, which closes the connection after each answer. Every
request has a connection of its own on both ways. The turns are the engine's port and the router,
twice; first 100 requests a second, then as many as 8 clients get. The platform is a process of its
own, the clients run in this one.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from bench import budgets
from bench.http_load import Outcome, Target, fetch, run_at_rate, run_workers
from bench.report import Result
from datum_compute.env import SystemEnvironment
from datum_compute.providers import registry
from datum_compute.providers.container import host, sockets
from datum_compute.providers.container.engine import ContainerEngine

RATE = 100.0
RATE_SECONDS = 10.0
CLIENTS = 8
FLAT_OUT_SECONDS = 5.0
TURNS = 2


def measure() -> list[Result]:
    env = SystemEnvironment()
    runtime = asyncio.run(_load_image(env))
    if not runtime:
        error = "no container engine and static busybox on this machine"
        return [Result(budgets.ROUTED, None, error=error)]
    with tempfile.TemporaryDirectory() as directory:
        try:
            return [_measure(directory, runtime)]
        finally:
            _run(directory, "local", "reset", "--yes")


async def _load_image(env: SystemEnvironment) -> str:
    wanted = env.variable("DATUM_RUNTIME")
    record = registry.find(wanted) if wanted else (await registry.choose("local", env))[0]
    socket = await sockets.find_socket(env, record.name) if record.probe else None
    busybox = host.static_busybox(env)
    if socket is None or busybox is None:
        return ""
    async with ContainerEngine(socket) as engine:
        await engine.load(host.build_busybox_image(busybox))
    return record.name


def _run(directory: str, *words: str) -> str:
    command = [sys.executable, "-m", "datum_compute.cli", *words, "--data-dir", directory]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _measure(directory: str, runtime: str) -> Result:
    _run(directory, "local", "up", "--detach", "--runtime", runtime, "--cities", "DFW")
    image = f"--image={host.BUSYBOX_IMAGE}"
    _run(directory, "deploy", "hello", image, "--city=DFW", "--http-port=80", "--yes")
    url = urlsplit(_run(directory, "open", "hello", "--print").strip())
    [instance] = json.loads(_run(directory, "instances", "-o", "json"))
    published = Target(instance["externalIP"], 80, url.netloc)
    routed = Target("127.0.0.1", url.port or 80, url.netloc)
    pid = json.loads((Path(directory) / "platform.json").read_text())["pid"]
    return asyncio.run(_compare(published, routed, pid))


async def _compare(published: Target, routed: Target, pid: int) -> Result:
    latencies: dict[Target, list[Outcome]] = {published: [], routed: []}
    rates: dict[Target, list[float]] = {published: [], routed: []}
    for _ in range(TURNS):
        for target, found in latencies.items():
            found += await run_at_rate(target, RATE, RATE_SECONDS)
    spent = 0.0
    for _ in range(TURNS):
        for target, rate in rates.items():
            before = _cpu_seconds(pid)
            rate.append(await _flat_out(target))
            spent += _cpu_seconds(pid) - before if target is routed else 0.0
    failed = [each for found in latencies.values() for each in found if each.status != 200]
    if failed:
        return Result(budgets.ROUTED, None, error=f"{len(failed)} failed: {failed[0].text}")
    details: dict[str, float] = {}
    medians = {}
    for name, target in (("the engine's port", published), ("the router", routed)):
        times = sorted(each.seconds * 1000 for each in latencies[target])
        medians[name] = statistics.median(times)
        details[f"{name}, median, ms"] = medians[name]
        details[f"{name}, 99th percentile, ms"] = times[int(len(times) * 0.99)]
        details[f"{name}, {CLIENTS} clients, requests/s"] = statistics.mean(rates[target])
    served = sum(rates[routed]) * FLAT_OUT_SECONDS
    details["CPU time of the platform for each request, ms"] = spent * 1000 / served
    added = medians["the router"] - medians["the engine's port"]
    return Result(budgets.ROUTED, added, details=details)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _flat_out(target: Target) -> float:
    """Requests a second."""
    started = time.perf_counter()
    end = started + FLAT_OUT_SECONDS
    loop = asyncio.get_running_loop()
    found = await run_workers(
        CLIENTS, lambda: time.perf_counter() < end, lambda: loop.create_task(fetch(target))
    )
    good = [each for each in found if each.status == 200]
    return len(good) / (time.perf_counter() - started)
