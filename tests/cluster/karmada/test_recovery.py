"""A plane that is restored from an older backup, as the page about recovery does it: what was
changed meanwhile is brought there again, and what runs goes on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from datum_compute.api.compute import v1alpha as compute
from tests.support.cluster.karmada_stage import NAMESPACE, KarmadaStage
from tests.support.federation.lifecycle import BOTH, FIRST, Lifecycle

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.karmada,
    pytest.mark.campaign,
    pytest.mark.timeout(900),
]

WITHIN = 300.0


async def restore(on: KarmadaStage, plane: str, backup: Path) -> None:
    """As the page says: its clients are stopped meanwhile, as their watches are of revisions that
    the restored plane has yet to reach."""
    names = list(on.managers) if plane == "hub" else [plane]
    async with asyncio.timeout(WITHIN):
        for name in names:
            for pod in on.managers[name]:
                await pod.stop()
        with on.clusters.without_all():
            await asyncio.to_thread(on.clusters.planes[plane].restore, backup)
        for name in names:
            for pod in on.managers[name]:
                await pod.start()
        for name in names:
            for pod in on.managers[name]:
                await pod.wait_ready()


@pytest.mark.parametrize("plane", ["hub", "dfw"])
async def test_a_plane_restored_from_an_older_backup_catches_up(
    plane: str, on: KarmadaStage, tmp_path: Path
) -> None:
    steps = Lifecycle(on, within=WITHIN)
    await on.project.create(compute.WORKLOADS, FIRST.to_create(), NAMESPACE)
    await steps.settled(FIRST)
    backup = tmp_path / "backup"
    await asyncio.to_thread(on.clusters.planes[plane].back_up, backup)
    await steps.settled(FIRST)
    changed = replace(FIRST, image="acme/web:2", minimum=3)
    await steps.become(changed)
    before = {city: await steps.uids(city) for city in BOTH}

    await restore(on, plane, backup)

    await steps.settled(changed)
    for city in BOTH:
        if city.lower() != plane:
            assert await steps.uids(city) == before[city], "those of other planes run on"
