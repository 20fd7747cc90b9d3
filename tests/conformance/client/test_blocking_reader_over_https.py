"""The reading part of the client's suite, through the reader of a command that writes."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from datum_compute.cli.session import BlockingReader
from datum_compute.client.client import ApiClient
from datum_compute.client.http.transport import HttpTransport
from tests.support.client_conformance.cases import Case, every_case_of
from tests.support.client_conformance.fixture import open_fixture
from tests.support.client_conformance.reader import READ_CASES, reader_target
from tests.support.client_conformance.targets import PREFIX, HttpsServer

pytestmark = pytest.mark.realtime


class OneReadReader(BlockingReader):
    """Opens a session for each read: a case runs each in another thread."""

    def __init__(self, https: HttpsServer, page_size: int = 0, **options: Any) -> None:
        super().__init__(self)  # type: ignore[arg-type]  # it is the session itself
        self._address = https.address
        self._options = options

    def call(self, work: Any) -> Any:
        async def read() -> Any:
            transport = HttpTransport(self._address.base_url, ca_pem=self._address.ca_pem)
            options = {"prefix": PREFIX, "token": self._address.token, **self._options}
            try:
                return await work(ApiClient(transport, **options))
            finally:
                await transport.close()

        return asyncio.run(read())

    def close(self) -> None: ...


@every_case_of(READ_CASES, first=2000)
async def test_blocking_reader_over_https(https: HttpsServer, number: int, case: Case) -> None:
    async with https.target() as target:
        make_reader: Any = partial(OneReadReader, https)
        await case(await open_fixture(reader_target(target, make_reader), number))
