"""A local platform that the tests of kubectl share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from datum_compute.assembly.local.state import StateDirectory
from tests.support.cluster.kubectl import BOXES, PLANES, PROJECT, Kubectl


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A running local platform; the directory holds a kubeconfig for each plane."""
    directory = tmp_path_factory.mktemp("platform")
    state = StateDirectory(directory / "state")

    def types(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "datum_compute.cli", *words, "--data-dir", str(state.path)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={"HOME": str(directory), "PATH": os.defpath},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        types("local", "up", "--detach", "--runtime=simulated", "--cities=DFW,LHR", "--port=0")
        for plane in PLANES:
            config = types("local", "kubeconfig", f"--plane={plane}")
            path = directory / plane.replace("/", "-")
            path.write_text(config, encoding="utf-8")
            path.chmod(0o600)
            kubectl = Kubectl(path, directory)
            kubectl.succeeds("create", "-f", kubectl.file(BOXES))
        yield directory
    finally:
        running = state.running()
        if running is not None:
            os.kill(running.pid, signal.SIGTERM)


@pytest.fixture(params=PLANES)
def kubectl(request: pytest.FixtureRequest, platform: Path, tmp_path: Path) -> Kubectl:
    return Kubectl(platform / request.param.replace("/", "-"), tmp_path)


@pytest.fixture
def project(platform: Path, tmp_path: Path) -> Kubectl:
    return Kubectl(platform / PROJECT.replace("/", "-"), tmp_path)


@pytest.fixture
def name() -> str:
    return f"box-{uuid.uuid4().hex[:8]}"
