"""Budget 14: how long a client waits for another's single request.

The server runs in a process of its own. One client sends hostile requests one after the other:
well-formed, and as expensive as their size allows. Meanwhile another reads a small object again and
again, and its longest wait counts.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import uvloop

from bench import budgets
from bench.apiserver import COLLECTION, DEFINITIONS, ensure_kind, gadget, server_process
from bench.load import Connection, Server
from bench.report import Result

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
LARGE = f"{CONFIG_MAPS}/large"
PAUSE_SECONDS = 0.002
"""Between two reads, so that the reader leaves the cores to the server."""


class Shape(NamedTuple):
    name: str
    method: str
    path: str
    body: bytes
    status: str
    content_type: str = "application/json"
    accept: str = "application/json"


def measure() -> list[Result]:
    with (
        tempfile.TemporaryDirectory(prefix="datum-compute-bench-") as directory,
        server_process(directory) as server,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        waits = runner.run(drive(server))
    return [Result(budgets.HOSTILE, max(waits.values()), waits)]


async def drive(server: Server) -> dict[str, float]:
    """The longest wait of the reader in milliseconds, by shape."""
    await ensure_kind(server)
    sender, reader = await Connection.open(server), await Connection.open(server)
    create = server.request("POST", COLLECTION, json.dumps(gadget("small")).encode())
    await sender.ask(create, b"201")
    waits: dict[str, float] = {}
    for shape in shapes():
        request = server.request(
            shape.method,
            shape.path,
            shape.body,
            content_type=shape.content_type,
            accept=shape.accept,
        )
        await _longest_wait(server, reader, asyncio.sleep(0.2))
        sending = sender.ask(request, shape.status.encode())
        waits[shape.name] = await _longest_wait(server, reader, sending)
    await sender.close()
    await reader.close()
    return waits


async def _longest_wait(server: Server, reader: Connection, during: Any) -> float:
    task = asyncio.ensure_future(during)
    request = server.request("GET", f"{COLLECTION}/small")
    longest = 0.0
    while not task.done():
        start = time.perf_counter()
        await reader.ask(request, b"200")
        longest = max(longest, time.perf_counter() - start)
        await asyncio.sleep(PAUSE_SECONDS)
    await task
    return 1000 * longest


def shapes() -> Iterator[Shape]:
    unknown = gadget("unknown")
    unknown["spec"].update({f"key{index}": 1 for index in range(200_000)})
    yield _post("200,000 unknown fields", COLLECTION, unknown)
    large = {f"key{index}": "" for index in range(60_000)}
    yield _post("60,000 keys", CONFIG_MAPS, _config_map("large", data=large))
    adds = [{"op": "add", "path": f"/data/n{index}", "value": ""} for index in range(10_000)]
    patch = json.dumps(adds).encode()
    json_patch = "application/json-patch+json"
    yield Shape("10,000 adds on 60,000 keys", "PATCH", LARGE, patch, "200", json_patch)
    small = b'{"metadata":{"labels":{"a":"b"}}}'
    merge_patch = "application/merge-patch+json"
    yield Shape("a small patch of 70,000 keys", "PATCH", LARGE, small, "200", merge_patch)
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    yield Shape("a table of 70,000 keys", "GET", LARGE, b"", "200", accept=table)
    yield Shape("YAML of 70,000 keys", "GET", LARGE, b"", "200", accept="application/yaml")
    yield Shape("deletion of 70,000 keys", "DELETE", LARGE, b"", "200")
    faulty = gadget("faulty")
    faulty["spec"]["containers"] = [1] * 300_000
    yield _post("300,000 faults of the schema", COLLECTION, faulty, "422")
    head = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n"
    lines = b"".join(b"  key%d: text\n" % index for index in range(14_000))
    yaml = head.replace(b"NAME", b"yaml") + b"data:\n" + lines
    yield Shape("14,000 keys of YAML", "POST", CONFIG_MAPS, yaml, "201", "application/yaml")
    colons = head.replace(b"NAME", b"colons") + b"x: " + b":".join([b"59"] * 80_000)
    yield Shape("YAML of 59:59:…", "POST", CONFIG_MAPS, colons, "201", "application/yaml")
    numbers = json.dumps(_config_map("numbers", x=[1.5] * 500_000)).encode()
    yield Shape("500,000 numbers", "POST", CONFIG_MAPS, numbers, "201")
    text = json.dumps(_config_map("text", data={"a": "x" * 2_900_000})).encode()
    yield Shape("a text of 2.9 MB", "POST", CONFIG_MAPS, text, "422")  # at most 1 MiB
    labels = {f"key{index}": "" for index in range(150_000)}
    yield _post("150,000 labels", CONFIG_MAPS, _config_map("labels", labels=labels), "422")
    fields = {f"field{index}": {"type": "string"} for index in range(20_000)}
    yield _post("a definition of 20,000 fields", DEFINITIONS, _definition("wide", fields))
    patterns = {f"f{index}": {"type": "string", "pattern": "a{900}"} for index in range(1_000)}
    yield _post("a definition of 1,000 patterns", DEFINITIONS, _definition("patterns", patterns))
    parts = {"type": "array", "items": {"type": "string", "allOf": [{"minLength": 1}] * 2_000}}
    yield _post("a definition of 2,000 parts", DEFINITIONS, _definition("parts", {"a": parts}))
    path = "/apis/hostile.example/v1/namespaces/default/parts"
    item = {"apiVersion": "hostile.example/v1", "kind": "Parts", "metadata": {"name": "one"}}
    yield _post("1,000 items, each of 2,000 parts", path, item | {"spec": {"a": ["x"] * 1_000}})


def _post(name: str, path: str, body: dict[str, Any], status: str = "201") -> Shape:
    return Shape(name, "POST", path, json.dumps(body).encode(), status)


def _config_map(name: str, *, labels: Any = None, **more: Any) -> dict[str, Any]:
    metadata = {"name": name} | ({"labels": labels} if labels else {})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **more}


def _definition(plural: str, properties: dict[str, Any]) -> dict[str, Any]:
    spec = {"type": "object", "properties": properties}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.hostile.example"},
        "spec": {
            "group": "hostile.example",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.capitalize()},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
