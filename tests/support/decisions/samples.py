"""The samples of the repository, and the warnings that some are admitted with."""

from __future__ import annotations

from tests.support.paths import ROOT

SAMPLES = ROOT / "samples"
FILES = sorted(SAMPLES.glob("*.yaml"))
WARNINGS = {
    "autoscaling.yaml": [
        'autoscaling is not active: maxReplicas and metrics of placement "default" have no'
        " effect, and minReplicas instances run in each city"
    ],
}
