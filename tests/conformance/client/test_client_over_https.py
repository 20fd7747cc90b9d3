"""The client's conformance suite against the embedded server, over HTTPS."""

from __future__ import annotations

import pytest

from tests.support.client_conformance.cases import Case, every_case
from tests.support.client_conformance.fixture import open_fixture
from tests.support.client_conformance.targets import HttpsServer

pytestmark = pytest.mark.realtime


@every_case
async def test_over_https(https: HttpsServer, number: int, case: Case) -> None:
    async with https.target() as target:
        await case(await open_fixture(target, number))
