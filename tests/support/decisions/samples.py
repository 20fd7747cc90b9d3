"""The samples of the repository, and the warnings that some are admitted with."""

from __future__ import annotations

from tests.support.paths import ROOT

SAMPLES = ROOT / "samples"
FILES = sorted(SAMPLES.glob("*.yaml"))
UNDELIVERED = "is not delivered to cells yet: instances that need it will report ConfigurationError"
WARNINGS = {
    "autoscaling.yaml": [
        'autoscaling is not active: maxReplicas and metrics of placement "default" have no'
        " effect, and minReplicas instances run in each city"
    ],
    "config-and-secret.yaml": [
        f'data of ConfigMap "ledger-config" {UNDELIVERED}',
        f'data of Secret "ledger-tls", "ledger-secrets" {UNDELIVERED}',
    ],
}
