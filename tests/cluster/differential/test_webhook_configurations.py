"""Webhook configurations: the same answers as a real server, by the same webhooks."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.apiserver.webhook_server import WebhookServer, webhook_server
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.differential import DifferentialRequest, ServerSide, both_sides

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

GROUP = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
ANY = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
SERVE_SECONDS = 30.0
"""A real server follows a new configuration some time after it has answered."""


async def _deny(request: dict[str, Any]) -> dict[str, Any]:
    return {
        "allowed": False,
        "status": {"message": "not today", "code": 403, "reason": "Forbidden"},
    }


async def _deny_plainly(request: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": False}


async def _close(request: dict[str, Any]) -> None:
    return None


async def _label(request: dict[str, Any]) -> dict[str, Any]:
    change = [{"op": "add", "path": "/data", "value": {"by": "webhook"}}]
    encoded = base64.b64encode(json.dumps(change).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded, "warnings": ["changed"]}


@contextmanager
def running(directory: Path) -> Iterator[WebhookServer]:
    """On a loop of its own, in a thread."""
    ready, stop = threading.Event(), asyncio.Event()
    found: list[Any] = []

    async def main() -> None:
        async with webhook_server(directory) as server:
            answers = {"/deny": _deny, "/plain": _deny_plainly, "/close": _close, "/label": _label}
            server.answers |= answers
            found.extend((server, asyncio.get_running_loop()))
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    ready.wait()
    try:
        yield found[0]
    finally:
        found[1].call_soon_threadsafe(stop.set)
        thread.join()


def configuration(server: WebhookServer, title: str, **more: Any) -> dict[str, Any]:
    rule = {
        "operations": ["CREATE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["configmaps"],
    }
    hook = {
        "name": f"{title}.webhooks.example.com",
        "clientConfig": server.config(f"/{title}"),
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "rules": [rule],
        "objectSelector": {"matchLabels": {"hook": title}},
        **more,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "metadata": {"name": title},
        "webhooks": [hook],
    }


def config_map(name: str, hook: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"hook": hook}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def answer(side: ServerSide, server: WebhookServer, hook: str) -> tuple[int, Any]:
    """Of a create that the webhook reviews, from the moment it does."""
    until = time.monotonic() + SERVE_SECONDS
    for number in range(10_000):
        before = len(server.asked)
        ask = DifferentialRequest("POST", MAPS, config_map(f"{hook}-{number}", hook))
        code, found = side.send(ask)
        if len(server.asked) > before:
            break
        assert time.monotonic() < until, f"{hook} is never asked"
    data = found.get("data") if isinstance(found, dict) else None
    return code, (found.get("reason"), found.get("message"), data)


def test_webhooks_have_the_same_effect_and_words(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    found: dict[str, list[Any]] = {}
    with running(tmp_path) as server, both_sides(control_plane) as sides:
        for side in sides:
            for name in ("deny", "plain", "close", "label"):
                kind = "mutating" if name == "label" else "validating"
                body = configuration(server, name)
                body["kind"] = f"{kind.title()}WebhookConfiguration"
                path = f"{GROUP}/{kind}webhookconfigurations"
                assert side.send(DifferentialRequest("POST", path, body))[0] == 201
                found.setdefault(name, []).append(answer(side, server, name))
                assert side.send(DifferentialRequest("DELETE", f"{path}/{name}"))[0] == 200
    for name in ("deny", "plain", "label"):
        ours, real = found[name]
        assert ours == real, name
    (ours_code, ours_words), (real_code, real_words) = found["close"]
    assert (ours_code, ours_words[0]) == (real_code, real_words[0])
    # What the transport says of the broken connection is its own.
    assert ours_words[1].partition("timeout=5s")[0] == real_words[1].partition("timeout=5s")[0]


@pytest.mark.parametrize(
    "more",
    [
        {"name": "short"},
        {"sideEffects": "Some"},
        {"sideEffects": None},
        {"admissionReviewVersions": ["v9"]},
        {"timeoutSeconds": 31},
        {"timeoutSeconds": 0},
        {"failurePolicy": "Maybe"},
        {"matchPolicy": "Maybe"},
        {"clientConfig": {}},
        {"clientConfig": {"url": "http://a.example.com"}},
        {"clientConfig": {"url": "https://a.example.com?b=c"}},
        {"clientConfig": {"url": "https://a.example.com#b"}},
        {"clientConfig": {"url": "https://u@a.example.com"}},
        {"matchConditions": [{"name": "c", "expression": "object.("}]},
        {"matchConditions": [{"expression": "true"}]},
        {"rules": [{"operations": ["READ"], **ANY}]},
    ],
)  # fmt: skip
def test_the_same_configurations_are_refused_at_the_same_fields(
    control_plane: ControlPlane, more: dict[str, Any]
) -> None:
    server = WebhookServer("https://127.0.0.1:1", "")
    body = {**configuration(server, "bad", **more), "kind": "ValidatingWebhookConfiguration"}
    found = []
    with both_sides(control_plane) as sides:
        for side in sides:
            path = f"{GROUP}/validatingwebhookconfigurations"
            code, reported = side.send(DifferentialRequest("POST", path, body))
            causes = reported["details"]["causes"]
            found.append((code, sorted((one["field"], one["reason"]) for one in causes)))
    ours, real = found
    assert ours == real
