"""A fleet at work on the real embedded server, for the length of a block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.tasks import stop_tasks
from datum_compute.testing.expectations import eventually


@asynccontextmanager
async def running(*fleets: Fleet) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(fleet.run(), name=fleet.name) for fleet in fleets]
    try:
        for fleet in fleets:
            await fleet.wait_discovered()
        yield
    finally:
        await stop_tasks(tasks)
    for task in tasks:
        if not task.cancelled():
            task.result()


def names(fleet: Fleet) -> list[str]:
    return [cluster.name for cluster in fleet.clusters()]


async def has(fleet: Fleet, *expected: str) -> None:
    """Wait until exactly these clusters are engaged."""

    async def look() -> str:
        found = names(fleet)
        return "" if found == sorted(expected) else str(found)

    await eventually(f"{fleet.name} has {sorted(expected)}", look, within=60)
