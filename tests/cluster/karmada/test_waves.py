"""A new template reaches the cities of a federation on real Karmada in waves, and goes back where
a wave fails."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.expectations import eventually
from tests.support.cluster.command_line import types
from tests.support.cluster.karmada_stage import NAMESPACE, KarmadaStage
from tests.support.federation.lifecycle import BOTH, FIRST, Lifecycle
from tests.support.objects import condition, message
from tests.support.simulation.platform import list_on_planes
from tests.support.simulation.random_operations import DesiredWorkload

pytestmark = [pytest.mark.cluster, pytest.mark.karmada, pytest.mark.realtime]

WITHIN = 120.0
SOAK = timedelta(seconds=3)
POLICY = {
    "waves": [["DFW"], ["LHR"]],
    "soak": "3s",
    # Also how long a wave is open before a cause that waiting cannot help counts.
    "timeout": "20s",
    "onFailure": "Undo",
}
WAVED = replace(FIRST, rollout=json.dumps(POLICY))


async def deploys(
    on: KarmadaStage, directory: Path, desired: DesiredWorkload, *, ends_with: int = 0
) -> str:
    """What the command says until the rollout has ended."""
    file = directory / "workload.json"
    file.write_text(json.dumps(desired.to_create()))
    command = ("deploy", "-f", str(file), "--window=0s", "--yes")
    return (await types(on.kubeconfig, *command, ends_with=ends_with)).messages


async def running(on: KarmadaStage, city: str) -> Mapping[str, int]:
    """How many Instances in a cell have which image; one that is not ready has none."""
    found: Counter[str] = Counter()
    for obj in await list_on_planes(on, compute.INSTANCES, f"cell/{city.lower()}"):
        [container] = values(obj.spec)["runtime"]["sandbox"]["containers"]
        found[container["image"] if condition(obj, "Ready")[0] == "True" else ""] += 1
    return found


async def times(on: KarmadaStage, city: str) -> tuple[datetime, datetime]:
    """When the first Instance in a cell was created, and when the last one became Ready."""
    created, ready = [], []
    for obj in await list_on_planes(on, compute.INSTANCES, f"cell/{city.lower()}"):
        wire = json.loads(obj.to_wire())
        created.append(wire["metadata"]["creationTimestamp"])
        ready += [
            each["lastTransitionTime"]
            for each in wire["status"]["conditions"]
            if each["type"] == "Ready"
        ]
    return datetime.fromisoformat(min(created)), datetime.fromisoformat(max(ready))


async def test_a_city_follows_when_the_one_before_has_stayed_ready(
    on: KarmadaStage, tmp_path: Path
) -> None:
    await deploys(on, tmp_path, WAVED)
    second = replace(WAVED, image="acme/web:2")

    await deploys(on, tmp_path, second)

    await Lifecycle(on, within=WITHIN).settled(second)
    for city in BOTH:
        assert await running(on, city) == {"acme/web:2": 2}
    _, ready = await times(on, "DFW")
    created, _ = await times(on, "LHR")
    assert created - ready >= SOAK
    found = await on.project.get(compute.WORKLOADS, "web", NAMESPACE)
    assert condition(found, compute.CONDITION_PROGRESSING) == ("True", "Complete")


async def test_a_wave_with_a_bad_image_is_undone_and_the_next_one_never_opens(
    on: KarmadaStage, tmp_path: Path
) -> None:
    steps = Lifecycle(on, within=WITHIN)
    await deploys(on, tmp_path, WAVED)
    await steps.settled(WAVED)
    before = {city: await steps.uids(city) for city in BOTH}
    bad = replace(WAVED, image="acme/web:bad", fail=compute.REASON_IMAGE_UNAVAILABLE)

    said = await deploys(on, tmp_path, bad, ends_with=3)

    assert 'rollout of "web" failed: rolled back' in said

    async def differs() -> str:
        found = [await running(on, city) for city in BOTH]
        return "" if all(each == {"acme/web:1": 2} for each in found) else str(found)

    await eventually("both cities run the template before", differs, within=WITHIN)
    assert await steps.uids("LHR") == before["LHR"], "it was not touched"
    assert await steps.uids("DFW") != before["DFW"], "the bad image was tried there"
    found = await on.project.get(compute.WORKLOADS, "web", NAMESPACE)
    assert condition(found, compute.CONDITION_PROGRESSING) == ("False", "RolledBack")
    assert "DFW" in message(found, compute.CONDITION_PROGRESSING)
    assert compute.REASON_IMAGE_UNAVAILABLE in message(found, compute.CONDITION_PROGRESSING)

    third = replace(WAVED, image="acme/web:3")
    await deploys(on, tmp_path, third)
    await steps.settled(third)
