"""The reading part of the client's suite, through the plain reader."""

from __future__ import annotations

from typing import Any

import pytest

from datum_compute.client.reader import Reader
from datum_compute.client.tls import client_context
from tests.conformance.client.cases import Case, every_case_of
from tests.conformance.client.embedded import PREFIX, HttpsServer
from tests.conformance.client.reading import READ_CASES, reading
from tests.conformance.client.world import open_world

pytestmark = pytest.mark.realtime


@every_case_of(READ_CASES, first=1000)
async def test_reader_over_https(https: HttpsServer, number: int, case: Case) -> None:
    address = https.address
    tls = client_context(address.ca_pem)

    def make_reader(**options: Any) -> Reader:
        return Reader(
            address.base_url, **{"prefix": PREFIX, "token": address.token, "tls": tls, **options}
        )

    async with https.target() as target:
        await case(await open_world(reading(target, make_reader), number))
