"""The reading part of the client's suite, through the plain reader."""

from __future__ import annotations

from typing import Any

import pytest

from datum_compute.cli.quick.reader import Reader
from datum_compute.client.http.tls import client_context
from tests.support.client_conformance.cases import Case, every_case_of
from tests.support.client_conformance.fixture import open_fixture
from tests.support.client_conformance.reader import READ_CASES, reader_target
from tests.support.client_conformance.targets import PREFIX, HttpsServer

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
        await case(await open_fixture(reader_target(target, make_reader), number))
