"""Budget 1: requests per second of the embedded API server beside a real kube-apiserver with etcd.

Ours runs in a process of its own with a file under it, as ``local up`` runs it, and the other as
its own two processes. Both get the same requests by the same 16 clients, turn by turn: machines
differ and are never quiet, so only the ratio counts. The objects are of a kind made for this:
about 1 KB, with fields that are defaulted and fields that are checked, so that a write takes the
whole path of a custom resource, with managed fields.
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
from bench.budgets import Budget
from bench.load import Connection, Rate, Server, run_load
from bench.report import Result
from scripts.cluster_tools import ensure_tools
from tests.support.cluster.control_plane import ControlPlane

CLIENTS = 16
WARM_UP = 500
TURNS = 3
WRITES, READS = 2000, 8000
"""In each turn."""
LIMIT_SECONDS = 20.0
"""A server too slow for the count is measured over this long instead."""
LOOKS, LOOK_SECONDS = 200, 0.05

GROUP, VERSION, PLURAL, KIND = "bench.datumapis.com", "v1", "gadgets", "Gadget"
COLLECTION = f"/apis/{GROUP}/{VERSION}/namespaces/default/{PLURAL}"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE_PATCH, APPLY_PATCH = "application/merge-patch+json", "application/apply-patch+yaml"


def measure() -> list[Result]:
    with (
        tempfile.TemporaryDirectory(prefix="datum-compute-bench-") as directory,
        server_process(directory) as ours,
        ControlPlane(ensure_tools()) as control_plane,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        return runner.run(_compare(ours, real_server(control_plane)))


def real_server(control_plane: ControlPlane) -> Server:
    address = urlsplit(control_plane.server)
    assert address.hostname is not None
    assert address.port is not None
    return Server(
        address.hostname, address.port, control_plane.ca_pem.decode(), control_plane.token
    )


async def _compare(ours: Server, real: Server) -> list[Result]:
    for server in (ours, real):
        await ensure_kind(server)
        await _send(server, budgets.CREATES, "warm", WARM_UP)
    results = []
    for budget in (budgets.CREATES, budgets.GETS, budgets.PATCHES, budgets.APPLIES):
        count = READS if budget is budgets.GETS else WRITES
        rates: dict[Server, list[Rate]] = {ours: [], real: []}
        for turn in range(TURNS):
            for server, found in rates.items():
                found.append(await _send(server, budget, f"turn-{turn}", count))
        per_second = {server: _total(found).per_second for server, found in rates.items()}
        details = {"ours, /s": per_second[ours], "kube-apiserver, /s": per_second[real]}
        results.append(Result(budget, per_second[ours] / per_second[real], details))
    return results


def _total(rates: list[Rate]) -> Rate:
    return Rate(sum(each.done for each in rates), sum(each.seconds for each in rates))


async def _send(server: Server, budget: Budget, prefix: str, count: int) -> Rate:
    requests = [_request(server, budget, prefix, number) for number in range(count)]
    expected = b"201" if budget is budgets.CREATES else b"200"
    return await run_load(server, requests, expected, clients=CLIENTS, seconds=LIMIT_SECONDS)


def _request(server: Server, budget: Budget, prefix: str, number: int) -> bytes:
    if budget is budgets.CREATES:
        body = json.dumps(gadget(f"{prefix}-{number:05d}")).encode()
        return server.request("POST", COLLECTION, body)
    name = f"warm-{number % WARM_UP:05d}"
    if budget is budgets.GETS:
        return server.request("GET", f"{COLLECTION}/{name}")
    # A value that no request before has written there, so that each is a write.
    value = (number // WARM_UP + int(prefix[-1]) * 10) % 1000
    if budget is budgets.PATCHES:
        body = json.dumps({"spec": {"priority": value}}).encode()
        return server.request("PATCH", f"{COLLECTION}/{name}", body, content_type=MERGE_PATCH)
    wanted = gadget(name)
    wanted["spec"]["priority"] = 500 + value
    query = "fieldManager=bench&force=true"
    body = json.dumps(wanted).encode()
    return server.request("PATCH", f"{COLLECTION}/{name}?{query}", body, content_type=APPLY_PATCH)


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
    conditions = json.loads(body).get("status", {}).get("conditions") or []  # null at first
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
