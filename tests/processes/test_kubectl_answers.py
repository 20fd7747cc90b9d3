"""kubectl prints on the embedded server what it printed on a real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.client_conformance.targets import https_server
from tests.support.clients.kubeconfig import write_kubeconfig
from tests.support.differential.kubectl_run import KubectlRun, find_kubectl
from tests.support.differential.recorded import check_answers

pytestmark = [pytest.mark.realtime, pytest.mark.timeout(900)]


def test_invocations_end_as_they_did_on_a_real_server(tmp_path: Path) -> None:
    kubectl, missing = find_kubectl()
    if kubectl is None:
        pytest.skip(missing)
    with https_server() as server:
        config = write_kubeconfig(tmp_path / "kubeconfig", server.address)
        found = KubectlRun(kubectl, config, tmp_path).outcomes()

    assert len(found) >= 300
    check_answers("kubectl", found)
