"""The answers of the embedded server are those that a real kube-apiserver gave.

``tests/cluster/differential/test_recorded_answers.py`` compares them on a real server, and records
its answers.
"""

from __future__ import annotations

import ssl

import pytest

from tests.support.client_conformance.targets import PREFIX, https_server
from tests.support.differential.all_cases import all_cases
from tests.support.differential.recorded import RawSide, check_answers, load, run_raw
from tests.support.paths import ROOT

pytestmark = [pytest.mark.realtime, pytest.mark.timeout(600)]


def test_requests_are_answered_as_a_real_server_answered_them() -> None:
    with https_server() as server:
        address = server.address
        tls = ssl.create_default_context(cadata=address.ca_pem.decode())
        side = RawSide(address.base_url, PREFIX, address.token, tls)
        try:
            found = run_raw(side, all_cases())
        finally:
            side.close()

    assert len(found) >= 250
    check_answers("raw", found)


def test_every_difference_is_in_the_docs() -> None:
    page = (ROOT / "docs" / "operate" / "kubernetes-clients.md").read_text(encoding="utf-8")

    reasons = {reason for kinds in load("differences.json").values() for reason in kinds}
    assert [reason for reason in sorted(reasons) if reason not in page] == []
