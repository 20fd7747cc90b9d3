"""The webhooks on a real port: an API server that trusts the authority gets a response,
before and after the certificate was renewed."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from pathlib import Path
from typing import Any

import pytest

from datum_compute.apiserver.http.certificates import ensure_certificates
from datum_compute.assembly.manager.http_server import TlsFiles
from datum_compute.env import SystemEnvironment
from tests.support.assembly.servers import served
from tests.support.decisions.workloads import CONTAINER, with_changes
from tests.support.webhooks.server import post_review, request, webhooks

pytestmark = pytest.mark.realtime


async def test_reviews_are_answered_over_tls_before_and_after_a_renewal(tmp_path: Path) -> None:
    files = TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        ensure_certificates(tmp_path / name, SystemEnvironment())
    _install(tmp_path / "old", files)
    bad = with_changes(CONTAINER, {"PLACEMENT.cityCodes": ["XXX"]})

    async with webhooks() as hooks, served(hooks.app, files) as port:
        authority = tmp_path / "old" / "ca.crt"
        assert (await post_review(port, authority, request(CONTAINER)))["allowed"] is True
        refusal = await post_review(port, authority, request(bad))
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
                return await post_review(port, authority, request(CONTAINER))
            except ssl.SSLCertVerificationError:
                await asyncio.sleep(0.01)
