"""The recorded answers are those of a real server, and ours differ from them as the docs say.

With ``RECORD_ANSWERS=1`` the answers of the real server are recorded instead of compared.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.cluster_tools import ensure_tools
from tests.support.client_conformance.targets import https_server
from tests.support.clients.kubeconfig import write_kubeconfig
from tests.support.cluster.control_plane import ControlPlane
from tests.support.differential.all_cases import all_cases
from tests.support.differential.kubectl_run import KubectlRun
from tests.support.differential.recorded import RawSide, check_answers, load, run_raw, store

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def fresh() -> Iterator[ControlPlane]:
    """A real server that nothing else has written to."""
    with ControlPlane(ensure_tools()) as control_plane:
        yield control_plane


def compare_or_record(name: str, found: dict[str, object]) -> None:
    if os.environ.get("RECORD_ANSWERS"):
        store(name, found)
    assert json.loads(json.dumps(found)) == load(name)


def test_a_real_server_answers_requests_as_recorded(fresh: ControlPlane) -> None:
    side = RawSide(fresh.server, "", fresh.token, fresh.ssl_context())
    try:
        compare_or_record("raw.json", run_raw(side, all_cases()))
    finally:
        side.close()


def test_kubectl_ends_on_a_real_server_as_recorded(fresh: ControlPlane, tmp_path: Path) -> None:
    kubectl = ensure_tools() / "kubectl"
    config = fresh.write_kubeconfig(tmp_path / "kubeconfig")
    compare_or_record("kubectl.json", KubectlRun(kubectl, config, tmp_path).outcomes())


def test_kubectl_ends_on_the_embedded_server_alike(tmp_path: Path) -> None:
    with https_server() as server:
        config = write_kubeconfig(tmp_path / "kubeconfig", server.address)
        found = KubectlRun(ensure_tools() / "kubectl", config, tmp_path).outcomes()
    check_answers("kubectl", found)
