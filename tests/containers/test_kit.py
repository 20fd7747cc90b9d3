"""The container provider passes the kit of providers on a real engine."""

from __future__ import annotations

import pytest

from datum_compute.providers import conformance
from datum_compute.providers.conformance import Check
from tests.support.providers.container import container_cell

pytestmark = [pytest.mark.containers, pytest.mark.campaign, pytest.mark.realtime]

CHECKS = [
    pytest.param(
        check,
        marks=[pytest.mark.campaign] if check.slow else [],
        id=conformance.title(check),
    )
    for check in conformance.CHECKS
]


@pytest.mark.parametrize("check", CHECKS)
async def test_the_container_provider_passes_the_kit(check: Check, engine: str) -> None:
    async with container_cell(engine) as cell:
        await check(cell)
