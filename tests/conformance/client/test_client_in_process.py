"""The client's conformance suite against the embedded server, without sockets."""

from __future__ import annotations

from tests.support.client_conformance.cases import Case, every_case
from tests.support.client_conformance.fixture import open_fixture
from tests.support.client_conformance.targets import in_process


@every_case
async def test_in_process(number: int, case: Case) -> None:
    async with in_process() as target:
        await case(await open_fixture(target, number))
