"""A manager without cert-manager issues the certificate of its webhooks, once for all replicas."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509

from datum_compute.api import core
from datum_compute.assembly.manager.settings import parse
from datum_compute.assembly.manager.webhook_certificate import (
    CONFIGURATION,
    SECRET,
    SERVICE,
    WEBHOOK_CONFIGURATIONS,
    ensure_webhook_certificate,
)
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.testing.environment import SimulatedEnvironment, SkewedEnvironment
from datum_compute.testing.server import embedded_server
from scripts import roles
from tests.support.assembly.webhook_configurations import webhooks_by_url

NAMESPACE = roles.NAMESPACE


@asynccontextmanager
async def cluster(*, webhooks: bool = True) -> AsyncIterator[tuple[Client, SimulatedEnvironment]]:
    env = SimulatedEnvironment()
    async with embedded_server(env) as embedded:
        client = embedded.client("cell/dfw")
        await client.create(core.NAMESPACES, {"metadata": {"name": NAMESPACE}})
        for resource, manifest in zip(WEBHOOK_CONFIGURATIONS, webhooks_by_url(), strict=True):
            if webhooks:
                await client.create(resource, manifest)
        yield client, env


async def authorities(client: Client) -> set[bytes]:
    found = [await client.get(resource, CONFIGURATION) for resource in WEBHOOK_CONFIGURATIONS]
    webhooks: list[dict[str, Any]] = [
        each for one in found for each in msgspec.json.decode(one.extra["webhooks"])
    ]
    assert len(webhooks) == 2
    return {base64.b64decode(each["clientConfig"]["caBundle"]) for each in webhooks}


def replica(directory: Path, name: str) -> Path:
    (directory / name).mkdir()
    return directory / name


async def test_webhooks_trust_the_certificate_that_every_replica_serves(tmp_path: Path) -> None:
    first, second = replica(tmp_path, "first"), replica(tmp_path, "second")
    async with cluster() as (client, env):
        await ensure_webhook_certificate(client, NAMESPACE, first, env)
        await ensure_webhook_certificate(client, NAMESPACE, second, env)

        [authority] = await authorities(client)
    served = [(each / "server.crt").read_bytes() for each in (first, second)]
    assert served[0] == served[1]
    certificate = x509.load_pem_x509_certificate(served[0])
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert f"{SERVICE}.{NAMESPACE}.svc" in names.get_values_for_type(x509.DNSName)
    assert (first / "server.key").stat().st_mode & 0o077 == 0


async def test_a_certificate_near_its_end_is_renewed_under_the_same_authority(
    tmp_path: Path,
) -> None:
    async with cluster() as (client, env):
        await ensure_webhook_certificate(client, NAMESPACE, replica(tmp_path, "old"), env)
        before = await authorities(client)
        later = SkewedEnvironment(env, offset=timedelta(days=340).total_seconds())

        await ensure_webhook_certificate(client, NAMESPACE, replica(tmp_path, "new"), later)

        assert await authorities(client) == before
        stored = (await client.get(core.SECRETS, SECRET, NAMESPACE)).view(core.ConfigMap).data
    renewed = (tmp_path / "new/server.crt").read_bytes()
    assert renewed != (tmp_path / "old/server.crt").read_bytes()
    assert base64.b64decode(stored["server.crt"]) == renewed


async def test_a_replica_that_comes_second_takes_the_authority_of_the_first(
    tmp_path: Path,
) -> None:
    async with cluster() as (client, env):

        class Late:
            """Sees no Secret before it creates one."""

            def __getattr__(self, name: str) -> Any:
                return getattr(client, name)

            async def create(self, *args: Any, **more: Any) -> Any:
                await ensure_webhook_certificate(client, NAMESPACE, replica(tmp_path, "1"), env)
                return await client.create(*args, **more)

        late: Any = Late()
        await ensure_webhook_certificate(late, NAMESPACE, replica(tmp_path, "2"), env)

        [authority] = await authorities(client)
    assert (tmp_path / "1/ca.crt").read_bytes() == authority
    assert (tmp_path / "2/ca.crt").read_bytes() == authority


async def test_without_registered_webhooks_the_error_names_them(tmp_path: Path) -> None:
    async with cluster(webhooks=False) as (client, env):
        with pytest.raises(errors.NotFound, match=CONFIGURATION):
            await ensure_webhook_certificate(client, NAMESPACE, tmp_path, env)


def test_issuing_a_certificate_needs_no_controllers() -> None:
    settings = parse(["--issue-webhook-certificate=/tls"])

    assert settings.webhook_certificate == "/tls"
