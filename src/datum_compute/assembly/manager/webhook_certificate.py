"""The webhooks' certificate where no other program issues one.

``compute-manager --issue-webhook-certificate DIR`` runs before the manager, in an init container.
An authority of its own and the certificate are kept in a Secret, so that all replicas have the
same; the authority is written into the webhooks of this cluster, whose API server then trusts the
certificate. The files go to ``DIR``, where the manager reads them.
"""

from __future__ import annotations

import base64
from pathlib import Path

import msgspec

from datum_compute.api import core
from datum_compute.api.scheme import Resource
from datum_compute.apiserver.http.certificates import ensure_certificates, write_private
from datum_compute.client import errors
from datum_compute.client.protocol import Client, json_patch, merge
from datum_compute.env import Environment
from datum_compute.log import get_logger
from datum_compute.runtime.live_reads import find_live

logger = get_logger(__name__)

SECRET = "compute-webhook-authority"
CONFIGURATION = "compute-workloads"
"""The name of both configurations in ``deploy/base``."""
SERVICE = "compute-webhooks"
FILES = ("ca.crt", "ca.key", "server.crt", "server.key")

WEBHOOK_CONFIGURATIONS = tuple(
    Resource("admissionregistration.k8s.io", "v1", f"{kind.lower()}s", kind, namespaced=False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
)


async def ensure_webhook_certificate(
    client: Client, namespace: str, directory: Path, env: Environment
) -> None:
    """Write certificate and key to ``directory`` and the authority into the webhooks. Raises
    client errors."""
    found = await find_live(client, core.SECRETS, SECRET, namespace)
    if found is None:
        created = _issued(directory, namespace, env, {})
        body = {"metadata": {"name": SECRET}, "type": "Opaque", "data": created}
        try:
            await client.create(core.SECRETS, body, namespace)
        except errors.AlreadyExists:
            # Another replica was first: its authority is the one that the webhooks get.
            found = await client.get(core.SECRETS, SECRET, namespace)
    if found is not None:
        stored = found.view(core.ConfigMap).data  # a Secret has the same form
        current = _issued(directory, namespace, env, stored)
        if current != stored:
            await client.patch(core.SECRETS, SECRET, merge({"data": current}), namespace)
    authority = _encoded(directory / "ca.crt")
    for resource in WEBHOOK_CONFIGURATIONS:
        await _ensure_authority(client, resource, authority)


def _issued(
    directory: Path, namespace: str, env: Environment, stored: dict[str, str]
) -> dict[str, str]:
    """The files after a look at what is stored, renewed where needed."""
    for name in FILES:
        if name in stored:
            write_private(directory / name, base64.b64decode(stored[name]))
        else:
            (directory / name).unlink(missing_ok=True)
    host = f"{SERVICE}.{namespace}.svc"
    ensure_certificates(directory, env, (host, f"{host}.cluster.local"))
    return {name: _encoded(directory / name) for name in FILES}


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


async def _ensure_authority(client: Client, resource: Resource, authority: str) -> None:
    found = await client.get(resource, CONFIGURATION)
    changes = [
        {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": authority}
        for index, webhook in enumerate(msgspec.json.decode(found.extra["webhooks"]))
        if webhook["clientConfig"].get("caBundle") != authority
    ]
    if changes:
        await client.patch(resource, CONFIGURATION, json_patch(changes))
        logger.info("authority written into the webhooks", kind=resource.kind)
