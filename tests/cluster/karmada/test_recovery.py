"""A plane that is restored from an older backup, as the page about recovery does it: what was
changed meanwhile is brought there again, and what runs goes on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.scheme import Resource
from datum_compute.client.protocol import Client
from datum_compute.testing.expectations import eventually
from tests.support.cluster.karmada_stage import NAMESPACE, KarmadaStage
from tests.support.federation.lifecycle import BOTH, FIRST, Lifecycle

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.karmada,
    pytest.mark.campaign,
    pytest.mark.timeout(900),
]

WITHIN = 300.0
MANAGEMENT = "management"
MANAGER, AGENT = "controller-manager", "agent"
"""Programs of Karmada that write to cells."""


async def restore_cell(on: KarmadaStage, cell: str, backup: Path) -> None:
    """As the page says: the clients are stopped meanwhile, as their watches are of revisions that
    the restored plane has yet to reach."""
    await stop(on, cell)
    for process in on.processes.values():
        process.stop()
    with on.clusters.without_all():
        await asyncio.to_thread(on.clusters.planes[cell].restore, backup)
    for process in on.processes.values():
        process.start()
        await process.wait_ready()
    await start(on, cell)


async def restore_hub(on: KarmadaStage, backup: Path, image: str) -> None:
    """As the page says: Karmada writes nothing to cells before the hub has caught up."""
    await stop(on, *on.managers)
    clusters = on.clusters
    names = await asyncio.to_thread(clusters.stop_all)
    await asyncio.to_thread(clusters.hub.restore, backup)
    for name in names:
        if name not in (MANAGER, AGENT):
            await asyncio.to_thread(clusters.start, name)
    await start(on, MANAGEMENT)
    await caught_up(on, compute.WORKLOAD_DEPLOYMENTS, image)
    clusters.start(MANAGER, "--controllers=*,-execution")
    await caught_up(on, karmada.WORKS, image)
    with clusters.without(MANAGER):
        pass
    clusters.start(AGENT)
    await start(on, *(name for name in on.managers if name != MANAGEMENT))


async def stop(on: KarmadaStage, *names: str) -> None:
    for name in names:
        for pod in on.managers[name]:
            await pod.stop()


async def start(on: KarmadaStage, *names: str) -> None:
    pods = [pod for name in names for pod in on.managers[name]]
    for pod in pods:
        await pod.start()
    for pod in pods:
        await pod.wait_ready()


async def caught_up(on: KarmadaStage, resource: Resource, image: str) -> None:
    await eventually(
        f"{resource.plural} have {image}", lambda: older(on.hub, resource, image), within=WITHIN
    )


async def older(hub: Client, resource: Resource, image: str) -> str:
    """Deployments, or Works of deployments, that have another image."""
    found = (await hub.list(resource)).items
    specs = {each.name: bytes(each.spec) for each in found}
    return ", ".join(
        name
        for name, spec in specs.items()
        if b'"image"' in spec and f'"{image}"'.encode() not in spec
    )


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

    async with asyncio.timeout(WITHIN):
        if plane == "hub":
            await restore_hub(on, backup, changed.image)
        else:
            await restore_cell(on, plane, backup)

    await steps.settled(changed)
    for city in BOTH:
        if city.lower() != plane:
            assert await steps.uids(city) == before[city], "those of other planes run on"
