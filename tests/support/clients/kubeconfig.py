"""A kubeconfig for one plane of a served API server."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from datum_compute.testing.server import ServerAddress
from tests.support.client_conformance.targets import PREFIX


def write_kubeconfig(path: Path, address: ServerAddress, prefix: str = PREFIX) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "ours",
                "cluster": {
                    "server": address.base_url + prefix,
                    "certificate-authority-data": base64.b64encode(address.ca_pem).decode(),
                },
            }
        ],
        "users": [{"name": "admin", "user": {"token": address.token}}],
        "contexts": [{"name": "ours", "context": {"cluster": "ours", "user": "admin"}}],
        "current-context": "ours",
    }
    path.write_text(json.dumps(config), encoding="utf-8")
    path.chmod(0o600)
    return path
