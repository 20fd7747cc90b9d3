"""The client's conformance suite against the embedded server, without sockets."""

from __future__ import annotations

from tests.conformance.client.cases import Case, every_case
from tests.conformance.client.embedded import in_process
from tests.conformance.client.world import open_world


@every_case
async def test_in_process(number: int, case: Case) -> None:
    async with in_process() as target:
        await case(await open_world(target, number))
