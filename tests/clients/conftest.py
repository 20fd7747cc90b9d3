"""Clients of Kubernetes against the embedded server.

Programs in Go are left out without Go, with the reason; ``make test-clients`` installs the
clients in Python.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.cluster_tools import HELM, ensure_tools
from tests.support.clients.gadgets import GadgetPlane, gadget_plane

CONTROLLER = Path(__file__).parent / "controller"
PREVIOUS = ("k8s.io/api@v0.36", "k8s.io/client-go@v0.36", "sigs.k8s.io/controller-runtime@v0.24")
"""The minor before the one in go.mod."""


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[GadgetPlane]:
    with gadget_plane(tmp_path) as served:
        yield served


@pytest.fixture(scope="session")
def go() -> str:
    found = shutil.which("go")
    if found is None:
        pytest.skip("Go is not on the PATH; it compiles the clients of this suite")
    return found


@pytest.fixture(scope="session")
def controller(go: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The controller, with the newest client-go."""
    return build(go, CONTROLLER, tmp_path_factory.mktemp("controller") / "controller")


@pytest.fixture(scope="session")
def previous_controller(go: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The controller, with the minor of client-go before."""
    source = tmp_path_factory.mktemp("previous") / "source"
    shutil.copytree(CONTROLLER, source)
    run(go, source, "get", *PREVIOUS, "k8s.io/apimachinery@v0.36")
    run(go, source, "mod", "tidy")
    return build(go, source, source.parent / "controller")


@pytest.fixture(scope="session")
def helm_binary(go: str) -> Path:
    return ensure_tools([HELM]) / HELM.name


def build(go: str, source: Path, binary: Path) -> Path:
    run(go, source, "build", "-o", str(binary), ".")
    return binary


def run(go: str, source: Path, *words: str) -> None:
    done = subprocess.run(
        [go, *words], cwd=source, capture_output=True, text=True, timeout=1500, check=False
    )
    assert done.returncode == 0, f"go {' '.join(words)}: {done.stdout}{done.stderr}"
