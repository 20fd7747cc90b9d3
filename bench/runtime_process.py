"""Operators under measurement, each in its own process over HTTPS.

Called with a role, and the address of the server as a line of JSON on standard input; prints
one line of JSON. ``ours``, ``kopf`` and ``kopf-events`` set the phase of every Gadget to Ready
and end when a watch has shown all of them; ``cached`` holds all of them in a cache; ``idle``
watches and waits. All of them collect garbage as seldom as a manager does.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from typing import Any

import msgspec
import uvloop

from bench.apiserver import GROUP, KIND, PLURAL, VERSION
from bench.memory import resident_bytes
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.planes import CELL
from datum_compute.api.scheme import Resource
from datum_compute.assembly.event_loop import GC_THRESHOLDS
from datum_compute.client.client import ApiClient
from datum_compute.client.http.transport import HttpTransport
from datum_compute.client.protocol import Client, merge
from datum_compute.env import SystemEnvironment
from datum_compute.fleets.single import SingleFleet
from datum_compute.fleets.static import StaticFleet
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.request import Request
from datum_compute.runtime.watches.mapping import itself

GADGETS = Resource(GROUP, VERSION, PLURAL, KIND)
READY = merge({"status": {"phase": "Ready"}})
WORKERS = 16
IDLE_KINDS = (
    compute.WORKLOADS,
    compute.WORKLOAD_DEPLOYMENTS,
    compute.INSTANCES,
    networking.NETWORKS,
    networking.NETWORK_BINDINGS,
    networking.NETWORK_CONTEXTS,
    networking.SUBNETS,
    networking.SUBNET_CLAIMS,
    networking.LOCATIONS,
    networking.LOCATION_BINDINGS,
)
SETTLE_SECONDS, IDLE_SECONDS = 5.0, 60.0


class Status(msgspec.Struct):
    phase: str = ""


def phase_of(gadget: Object) -> str:
    return msgspec.json.decode(gadget.status or b"{}", type=Status).phase


class Finish:
    """Counts the finished objects, and measures how long all of them took."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._names: set[str] = set()
        self._start = time.perf_counter()
        self._end = 0.0
        self.reached = asyncio.Event()

    def saw(self, name: str) -> None:
        self._names.add(name)
        if len(self._names) == self._wanted and not self._end:
            self._end = time.perf_counter()
            self.reached.set()

    def per_second(self) -> float:
        return self._wanted / (self._end - self._start)


def ready_controller(clusters: Fleet, finish: Finish) -> Controller:
    """The smallest useful controller."""

    async def reconcile(request: Request) -> None:
        cluster = clusters.get(request.cluster)
        gadget = cluster and cluster.cache(GADGETS).get(request.name, request.namespace)
        if not cluster or not gadget:
            return
        if phase_of(gadget) == "Ready":
            finish.saw(gadget.name)
        else:
            await cluster.client.patch(
                GADGETS, gadget.name, READY, gadget.namespace, subresource="status"
            )

    watches = [Watch(clusters, GADGETS, itself)]
    return Controller("readying", clusters, reconcile, watches=watches, workers=WORKERS)


async def run_ready_controller(client: Client, objects: int) -> float:
    env = SystemEnvironment()
    finish = Finish(objects)
    manager = Manager("readying", env)
    manager.add(ready_controller(SingleFleet("clusters", "single", client, env), finish))
    running = asyncio.create_task(manager.run())
    await finish.reached.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return finish.per_second()


async def ours(settings: dict[str, Any]) -> dict[str, float]:
    client = client_of(settings)
    try:
        return {"per_second": await run_ready_controller(client, settings["objects"])}
    finally:
        await client.close()


async def cached(settings: dict[str, Any]) -> dict[str, float]:
    env = SystemEnvironment()
    client = client_of(settings)
    clusters = SingleFleet("clusters", "single", client, env)
    await client.list(
        GADGETS, limit=1
    )  # the cost of the first request does not count for the cache
    before = resident_bytes()
    manager = Manager("cached", env)
    manager.add(Controller("idle", clusters, _nothing, watches=[Watch(clusters, GADGETS, itself)]))
    running = asyncio.create_task(manager.run())
    await manager.wait_ready()
    gc.collect()
    held = len(clusters.clusters()[0].cache(GADGETS).list())
    after = resident_bytes()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await client.close()
    return {"bytes_per_object": (after - before) / held, "objects": held}


async def idle(settings: dict[str, Any]) -> dict[str, float]:
    env = SystemEnvironment()
    clients = {cell: client_of(settings, CELL.path.format(cell)) for cell in settings["cells"]}
    clusters = StaticFleet("clusters", clients, env)
    manager = Manager("idle", env)
    watches = [Watch(clusters, kind, itself) for kind in IDLE_KINDS]
    manager.add(Controller("idle", clusters, _nothing, watches=watches))
    running = asyncio.create_task(manager.run())
    await manager.wait_ready()
    await asyncio.sleep(SETTLE_SECONDS)
    start, cpu_start = time.perf_counter(), time.process_time()
    await asyncio.sleep(IDLE_SECONDS)
    cpu, seconds = time.process_time() - cpu_start, time.perf_counter() - start
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    for client in clients.values():
        await client.close()
    return {"percent": 100 * cpu / seconds, "clusters": len(clients)}


async def _nothing(request: Request) -> None:
    return None


def client_of(settings: dict[str, Any], prefix: str = "") -> ApiClient:
    transport = HttpTransport(settings["base_url"], ca_pem=settings["ca_pem"].encode())
    return ApiClient(transport, cluster="bench", prefix=prefix, token=settings["token"])


async def main(role: str, settings: dict[str, Any]) -> dict[str, float]:
    if role.startswith("kopf"):
        from bench.kopf_operator import run_kopf

        return await run_kopf(settings, lean=role == "kopf-events")
    return await {"ours": ours, "cached": cached, "idle": idle}[role](settings)


if __name__ == "__main__":
    gc.set_threshold(*GC_THRESHOLDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(main(sys.argv[1], json.loads(sys.stdin.readline())))))
