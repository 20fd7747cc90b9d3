"""The client's conformance suite against a real Kubernetes API server."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
from typing import Any

import pytest

from datum_compute.client.client import ApiClient
from datum_compute.client.http import HttpTransport
from tests.cluster.control_plane import HOST, ControlPlane
from tests.conformance.client.cases import Case, every_case
from tests.conformance.client.world import Target, open_world

pytestmark = [pytest.mark.cluster, pytest.mark.realtime]


def compact(etcd_port: int) -> None:
    """Drop the history of all keys; the server's own copies live only as long as its cache."""
    connection = http.client.HTTPConnection(HOST, etcd_port, timeout=10)
    try:
        connection.request("POST", "/v3/kv/range", json.dumps({"key": _base64("/none")}))
        revision = json.loads(connection.getresponse().read())["header"]["revision"]
        body = json.dumps({"revision": revision, "physical": True})
        connection.request("POST", "/v3/kv/compaction", body)
        assert connection.getresponse().read()
    finally:
        connection.close()


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@every_case
async def test_kubernetes(control_plane: ControlPlane, number: int, case: Case) -> None:
    transport = HttpTransport(control_plane.server, ca_pem=control_plane.ca_pem)

    def client_with(**options: Any) -> ApiClient:
        return ApiClient(
            transport, **{"cluster": "kubernetes", "token": control_plane.token, **options}
        )

    async def forget_history() -> None:
        await asyncio.to_thread(compact, control_plane._etcd_port)

    target = Target(client_with(), client_with, control_plane.plain_token, forget_history)
    try:
        await case(await open_world(target, number))
    finally:
        await transport.close()
