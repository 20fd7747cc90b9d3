"""The client's conformance suite against the embedded server, over HTTPS."""

from __future__ import annotations

import pytest

from tests.conformance.client.cases import Case, every_case
from tests.conformance.client.embedded import HttpsServer
from tests.conformance.client.world import open_world

pytestmark = pytest.mark.realtime


@every_case
async def test_over_https(https: HttpsServer, number: int, case: Case) -> None:
    async with https.target() as target:
        await case(await open_world(target, number))
