"""The webhooks on a real port: an API server that trusts the authority gets its verdict,
before and after the certificate was renewed."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

from datum_compute.apiserver.http.certificates import ensure_certificates
from datum_compute.assembly.manager import http_server
from datum_compute.assembly.manager.http_server import TlsFiles
from datum_compute.env import SystemEnvironment
from datum_compute.webhooks.workload import VALIDATE_PATH
from tests.support.decisions.workloads import CONTAINER, with_changes
from tests.support.webhooks.server import request, webhooks

pytestmark = pytest.mark.realtime


@asynccontextmanager
async def served(app: ASGIApp, tls: TlsFiles) -> AsyncIterator[int]:
    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(
        http_server.serve(
            app,
            host="127.0.0.1",
            port=0,
            tls=tls,
            name="webhooks",
            bound=bound.set_result,
            reload_seconds=0.01,
        )
    )
    try:
        yield await bound
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def post(port: int, authority: Path, review: dict[str, Any]) -> dict[str, Any]:
    """One review over a connection of its own, which trusts this authority alone."""
    context = ssl.create_default_context(cafile=str(authority))
    reader, writer = await asyncio.open_connection("localhost", port, ssl=context)
    body = json.dumps(review).encode()
    head = (
        f"POST {VALIDATE_PATH}?timeout=10s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200 OK"), answer
    response: dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2])["response"]
    return response


async def test_reviews_are_answered_over_tls_before_and_after_a_renewal(tmp_path: Path) -> None:
    files = TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        ensure_certificates(tmp_path / name, SystemEnvironment())
    _install(tmp_path / "old", files)
    bad = with_changes(CONTAINER, {"PLACEMENT.cityCodes": ["XXX"]})

    async with webhooks() as hooks, served(hooks.app, files) as port:
        authority = tmp_path / "old" / "ca.crt"
        assert (await post(port, authority, request(CONTAINER)))["allowed"] is True
        refusal = await post(port, authority, request(bad))
        assert 'supported values: "DFW", "IAD", "LHR"' in refusal["status"]["message"]

        _install(tmp_path / "new", files)
        response = await _until_trusted(port, tmp_path / "new" / "ca.crt")

    assert response["allowed"] is True


def _install(source: Path, files: TlsFiles) -> None:
    shutil.copy(source / "server.crt", files.certificate)
    shutil.copy(source / "server.key", files.key)


async def _until_trusted(port: int, authority: Path) -> dict[str, Any]:
    async with asyncio.timeout(10):
        while True:
            try:
                return await post(port, authority, request(CONTAINER))
            except ssl.SSLCertVerificationError:
                await asyncio.sleep(0.01)
