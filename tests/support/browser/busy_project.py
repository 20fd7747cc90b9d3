"""A project whose Instances change all the time, with a console: ``python -m`` it.

Nothing is stored and no controllers run, so that little but the console is measured. Prints a link
as its first line, and ends with its standard input. Each line that it reads asks for one more line,
with how many changes were written so far.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.planes import PROJECT
from datum_compute.assembly.event_loop import run
from datum_compute.cli.console.server import serve_console
from datum_compute.client.protocol import Client, merge
from datum_compute.client.transport import HttpRequest
from datum_compute.env import SystemEnvironment
from datum_compute.testing.server import embedded_server

CITIES = ("DFW", "IAD", "LHR", "FRA", "NRT", "SIN", "SYD", "GRU", "SEA", "JNB")
NAMESPACE = "default"


def instance(number: int) -> dict[str, Any]:
    city, workload = CITIES[number % len(CITIES)], f"app-{number % 20:02}"
    name = f"{workload}-default-{city.lower()}-{number}"
    labels = {
        compute.LABEL_WORKLOAD_NAME: workload,
        compute.LABEL_PLACEMENT_NAME: "default",
        compute.LABEL_CITY_CODE: city,
    }
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "runtime": {
                "resources": {"instanceType": "datumcloud/d1-standard-2"},
                "sandbox": {"containers": [{"name": "app", "image": "registry.example/app:1"}]},
            },
            "networkInterfaces": [{"network": {"name": "default"}}],
        },
    }


def ready(is_ready: bool, now: str) -> dict[str, Any]:
    condition = {
        "type": "Ready",
        "status": "True" if is_ready else "False",
        "reason": "Ready" if is_ready else "PendingProgramming",
        "message": "",
        "lastTransitionTime": now,
    }
    return {"status": {"conditions": [condition]}}


async def fill(client: Client, instances: int) -> list[str]:
    for city in CITIES:
        topology = {"topology.datum.net/city-code": city}
        spec = {"locationRef": {"name": city.lower()}, "topology": topology}
        body = {"metadata": {"name": city.lower()}, "spec": spec}
        await client.create(networking.LOCATION_BINDINGS, body)
    names = []
    for number in range(instances):
        made = await client.create(compute.INSTANCES, instance(number), NAMESPACE)
        names.append(made.name)
    return names


async def serve(instances: int, rate: int) -> None:
    env, loop = SystemEnvironment(), asyncio.get_running_loop()
    written = 0

    async with embedded_server(env, projects=("demo",)) as embedded:
        client = embedded.client(PROJECT.plane("demo"))
        names = await fill(client, instances)

        async def change() -> None:
            nonlocal written
            began = loop.time()
            while True:
                name = names[written * 7 % len(names)]
                body = ready(written // len(names) % 2 == 0, "2026-01-01T00:00:00Z")
                await client.patch(
                    compute.INSTANCES, name, merge(body), NAMESPACE, subresource="status"
                )
                written += 1
                await asyncio.sleep(max(0, began + written / rate - loop.time()))

        async with serve_console(env, embedded.server.handle) as make_link:
            changing = asyncio.create_task(change())
            body = json.dumps({"project": "demo"}).encode()
            headers = {"authorization": f"Bearer {embedded.token()}"}
            link = await make_link(HttpRequest("POST", "/local/v1/console", (), headers, body))
            print(json.loads(link.body)["url"], flush=True)
            reader = asyncio.StreamReader()
            await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
            while await reader.readline():
                print(written, flush=True)
            changing.cancel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--instances", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=50, help="changes a second")
    args = parser.parse_args()
    run(serve(args.instances, args.rate))
