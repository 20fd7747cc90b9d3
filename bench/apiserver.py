"""Budget 1: requests per second of the embedded API server, for clients on the network.

The server runs in a process of its own with a file under it, as ``local up`` runs it. The
objects are of a kind made for this: about 1 KB, with fields that are defaulted and fields
that are checked, so that a create takes the whole path of a custom resource.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import uvloop

from bench import budgets
from bench.load import Connection, Rate, Server, run_load
from bench.report import Result

CLIENTS = 16
WARM_UP = 500
CREATES = 8000
GETS = 16_000
LIMIT_SECONDS = 60.0
"""A server too slow for the count is measured over this long instead."""
LOOKS, LOOK_SECONDS = 200, 0.05

GROUP, VERSION, PLURAL, KIND = "bench.datumapis.com", "v1", "gadgets", "Gadget"
COLLECTION = f"/apis/{GROUP}/{VERSION}/namespaces/default/{PLURAL}"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def measure() -> list[Result]:
    with (
        tempfile.TemporaryDirectory(prefix="datum-compute-bench-") as directory,
        server_process(directory) as server,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        creates, gets = runner.run(drive(server))
    return [
        Result(budgets.CREATES, creates.per_second),
        Result(budgets.GETS, gets.per_second),
    ]


@contextlib.contextmanager
def server_process(directory: str, *flags: str) -> Iterator[Server]:
    """A server that runs until the block ends, and exits when its standard input is closed."""
    command = [sys.executable, "-m", "bench.apiserver_process", directory, *flags]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                raise RuntimeError("the server ended before it was ready; see its output above")
            settings = json.loads(line)
            address = urlsplit(settings["base_url"])
            assert address.hostname is not None
            assert address.port is not None
            yield Server(
                address.hostname,
                address.port,
                settings["ca_pem"],
                settings["token"],
                process.pid,
            )
        finally:
            process.stdin.close()


async def drive(server: Server) -> tuple[Rate, Rate]:
    await ensure_kind(server)
    await _create(server, "warm", WARM_UP)
    creates = await _create(server, "gadget", CREATES)
    await _get(server, WARM_UP)
    return creates, await _get(server, GETS)


async def _create(server: Server, prefix: str, count: int) -> Rate:
    bodies = (json.dumps(gadget(f"{prefix}-{n:05d}")).encode() for n in range(count))
    requests = [server.request("POST", COLLECTION, body) for body in bodies]
    return await run_load(server, requests, b"201", clients=CLIENTS, seconds=LIMIT_SECONDS)


async def _get(server: Server, count: int) -> Rate:
    names = (f"{COLLECTION}/warm-{n % WARM_UP:05d}" for n in range(count))
    requests = [server.request("GET", path) for path in names]
    return await run_load(server, requests, b"200", clients=CLIENTS, seconds=LIMIT_SECONDS)


async def ensure_kind(server: Server) -> None:
    """Define the kind, and wait until the server serves it."""
    connection = await Connection.open(server)
    try:
        body = json.dumps(definition()).encode()
        await connection.ask(server.request("POST", DEFINITIONS, body), b"201")
        path = f"{DEFINITIONS}/{PLURAL}.{GROUP}"
        for _ in range(LOOKS):
            if is_established(await connection.ask(server.request("GET", path), b"200")):
                return
            await asyncio.sleep(LOOK_SECONDS)
        raise RuntimeError(f"{KIND} was not served within {LOOKS * LOOK_SECONDS:g} s")
    finally:
        await connection.close()


def is_established(body: bytes) -> bool:
    conditions = json.loads(body).get("status", {}).get("conditions", [])
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def gadget(name: str) -> dict[str, Any]:
    """About 1 KB as sent; the server adds what is missing."""
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {
            "name": name,
            "labels": {"app": name, "tier": "frontend", "team": "payments"},
            "annotations": {"description": "One of many gadgets made to measure a server with."},
        },
        "spec": {
            "class": "standard",
            "containers": [
                {
                    "name": f"app-{n}",
                    "image": f"registry.example/acme/gadget-{n}:1.27.{n}",
                    "env": [
                        {"name": "LISTEN_ADDRESS", "value": "0.0.0.0:8080"},
                        {"name": "UPSTREAM", "value": "https://backend.example/v1"},
                        {"name": "LOG_LEVEL", "value": "info"},
                    ],
                    "ports": [{"name": "http", "port": 8080}, {"name": "metrics", "port": 9090}],
                }
                for n in range(2)
            ],
            "placement": {"cities": ["DFW", "IAD", "LHR"], "minReplicas": 2},
        },
    }


def definition() -> dict[str, Any]:
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": SCHEMA},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "plural": PLURAL,
                "singular": "gadget",
                "kind": KIND,
                "listKind": "GadgetList",
            },
            "scope": "Namespaced",
            "versions": [version],
        },
    }


_NAME = {"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}
_PORT = {
    "type": "object",
    "required": ["name", "port"],
    "properties": {
        "name": _NAME,
        "port": {"type": "integer", "minimum": 1, "maximum": 65535},
        "protocol": {"type": "string", "enum": ["TCP", "UDP"], "default": "TCP"},
    },
}
_VARIABLE = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "pattern": "^[A-Z_][A-Z0-9_]*$"},
        "value": {"type": "string", "maxLength": 4096},
    },
}
_CONTAINER = {
    "type": "object",
    "required": ["name", "image"],
    "properties": {
        "name": _NAME,
        "image": {"type": "string", "minLength": 1, "maxLength": 255},
        "pullPolicy": {"type": "string", "enum": ["Always", "IfNotPresent"], "default": "Always"},
        "env": {"type": "array", "maxItems": 100, "items": _VARIABLE},
        "ports": {"type": "array", "maxItems": 20, "items": _PORT},
    },
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["containers", "placement"],
            "properties": {
                "class": {"type": "string", "enum": ["standard", "large"]},
                "priority": {"type": "integer", "minimum": 0, "maximum": 1000, "default": 100},
                "containers": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 10,
                    "items": _CONTAINER,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                },
                "placement": {
                    "type": "object",
                    "required": ["cities"],
                    "properties": {
                        "cities": {
                            "type": "array",
                            "minItems": 1,
                            "items": {"type": "string", "pattern": "^[A-Z]{3}$"},
                        },
                        "minReplicas": {"type": "integer", "minimum": 0, "default": 1},
                        "policy": {
                            "type": "string",
                            "enum": ["OrderedReady", "Parallel"],
                            "default": "OrderedReady",
                        },
                    },
                },
            },
        },
        "status": {
            "type": "object",
            "default": {"phase": "Pending"},
            "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}},
        },
    },
}
