"""The samples of the repository, and the warnings that some are admitted with."""

from __future__ import annotations

import base64
from typing import Any

from datum_compute.api import core
from datum_compute.api.scheme import Resource
from tests.support.paths import ROOT

SAMPLES = ROOT / "samples"
FILES = sorted(SAMPLES.glob("*.yaml"))
WARNINGS = {
    "autoscaling.yaml": [
        'autoscaling is not active: maxReplicas and metrics of placement "default" have no'
        " effect, and minReplicas instances run in each city"
    ],
}


def sample_objects() -> list[tuple[Resource, dict[str, Any]]]:
    """What ``config-and-secret.yaml`` says that the project must have."""
    encoded = {key: base64.b64encode(key.encode()).decode() for key in ("tls.crt", "tls.key")}
    password = base64.b64encode(b"PASSWORD").decode()
    return [
        (
            core.CONFIG_MAPS,
            {"metadata": {"name": "ledger-config"}, "data": {"log-level": "info"}},
        ),
        (
            core.SECRETS,
            {"metadata": {"name": "ledger-secrets"}, "data": {"database-password": password}},
        ),
        (core.SECRETS, {"metadata": {"name": "ledger-tls"}, "data": encoded}),
    ]
