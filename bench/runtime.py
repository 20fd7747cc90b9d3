"""Numbers 20 to 22: the controller runtime, compared with kopf on the same server.

An operator gives ten thousand objects of 1 KB a status, each by one patch, and is done when
its watch has shown all of them. Ours and kopf run one after the other against a fresh server
each, both as processes over HTTPS; ours also in one process with the server.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvloop

from bench import budgets
from bench.apiserver import COLLECTION, ensure_kind, gadget, server_process
from bench.deployment import platform_gc_thresholds
from bench.load import Server, run_load
from bench.report import Result
from bench.runtime_process import GADGETS, run_ready_controller
from datum_compute.api.core import CUSTOM_RESOURCE_DEFINITIONS
from datum_compute.client.protocol import Client
from datum_compute.env import SystemEnvironment
from datum_compute.testing.server import embedded_server

OBJECTS = 10_000
CLUSTERS = 50
FILL_CLIENTS, FILL_SECONDS = 16, 120.0
LIMIT_SECONDS = 400.0


def measure() -> list[Result]:
    ours = _operate("ours")["per_second"]
    theirs = _operate("kopf")["per_second"]
    lean = _operate("kopf-events")["per_second"]
    cached = _operate("cached")
    details = {
        "ours over HTTPS, /s": ours,
        "ours in process, /s": _in_process(),
        "kopf over HTTPS, /s": theirs,
        "kopf over HTTPS as a mere event handler, /s": lean,
    }
    idle = _idle()
    return [
        Result(budgets.RECONCILES, ours / theirs, details),
        Result(budgets.IDLE, idle["percent"], {"clusters": idle["clusters"]}),
        Result(budgets.CACHED, cached["bytes_per_object"] / 1000, {"objects": cached["objects"]}),
    ]


def _operate(role: str) -> dict[str, float]:
    with _server() as server:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_fill(server))
        return _ask(role, server, objects=OBJECTS)


def _idle() -> dict[str, float]:
    cells = [f"c{number:02d}" for number in range(CLUSTERS)]
    with _server("--cells", ",".join(cells)) as server:
        return _ask("idle", server, cells=cells)


@contextlib.contextmanager
def _server(*flags: str) -> Iterator[Server]:
    with (
        tempfile.TemporaryDirectory(prefix="datum-compute-bench-") as directory,
        server_process(directory, *flags) as server,
    ):
        yield server


async def _fill(server: Server) -> None:
    await ensure_kind(server)
    bodies = (json.dumps(gadget(f"gadget-{n:05d}")).encode() for n in range(OBJECTS))
    requests = [server.request("POST", COLLECTION, body) for body in bodies]
    rate = await run_load(server, requests, b"201", clients=FILL_CLIENTS, seconds=FILL_SECONDS)
    if rate.done < OBJECTS:
        raise RuntimeError(f"only {rate.done} objects were made in {FILL_SECONDS:g} s")


def _ask(role: str, server: Server, **more: Any) -> dict[str, float]:
    settings = {
        "base_url": f"https://{server.host}:{server.port}",
        "ca_pem": server.ca_pem,
        "ca_base64": base64.b64encode(server.ca_pem.encode()).decode(),
        "token": server.token,
        **more,
    }
    done = subprocess.run(
        [sys.executable, "-m", "bench.runtime_process", role],
        input=json.dumps(settings) + "\n",
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT_SECONDS,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _in_process() -> float:
    with (
        tempfile.TemporaryDirectory(prefix="datum-compute-bench-") as directory,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        platform_gc_thresholds(),
    ):
        return runner.run(_run_in_process(Path(directory, "state.db")))


async def _run_in_process(database: Path) -> float:
    from bench.apiserver import definition

    async with embedded_server(SystemEnvironment(), database, cells=(), projects=()) as embedded:
        client = embedded.client("root")
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition())
        async with asyncio.TaskGroup() as tasks:
            names = iter(f"gadget-{n:05d}" for n in range(OBJECTS))
            for _ in range(FILL_CLIENTS):
                tasks.create_task(_create_all(client, names))
        return await run_ready_controller(client, OBJECTS)


async def _create_all(client: Client, names: Iterator[str]) -> None:
    for name in names:
        await client.create(GADGETS, gadget(name), "default")
