"""Features that only a Kubernetes API server has: a clear refusal, on both transports.

``scale`` is proven on the real server, in ``tests/cluster/test_client_conformance.py``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from datum_compute.client import errors
from tests.support.client_conformance.fixture import (
    WIDGETS,
    ConformanceFixture,
    get_subresource,
    open_fixture,
)
from tests.support.client_conformance.targets import HttpsServer, in_process


async def scale(world: ConformanceFixture) -> None:
    await world.create("one")

    with pytest.raises(errors.NotFound):
        await get_subresource(world.client, WIDGETS, "one", world.namespace, subresource="scale")


ABSENT = [scale]
every_absence = pytest.mark.parametrize(
    ("number", "absence"), list(enumerate(ABSENT, 3000)), ids=[each.__name__ for each in ABSENT]
)


@every_absence
async def test_in_process(
    number: int, absence: Callable[[ConformanceFixture], Awaitable[None]]
) -> None:
    async with in_process() as target:
        await absence(await open_fixture(target, number))


@pytest.mark.realtime
@every_absence
async def test_over_https(
    https: HttpsServer, number: int, absence: Callable[[ConformanceFixture], Awaitable[None]]
) -> None:
    async with https.target() as target:
        await absence(await open_fixture(target, number))
