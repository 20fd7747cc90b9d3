"""Lesson 24: the hub added up the statuses of members, though a deployment is in exactly one cell.

So: the status of the single member is passed through unchanged.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import yaml

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.assembly.local import bootstrap
from datum_compute.assembly.local.state import LocalSettings
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes import patch
from datum_compute.testing.expectations import eventually
from datum_compute.testing.server import embedded_server
from tests.support.controllers.planes import counters
from tests.support.paths import ROOT
from tests.support.simulation.platform import (
    NAMESPACE,
    PlatformRun,
    apply,
    list_on_planes,
    missing_for_image,
    workload,
)

FEDERATORS = ("CellReachable", "Scheduled")
FEDERATION = ROOT / "deploy" / "federation"


async def _scenario(platform: PlatformRun) -> None:
    for minimum in (1, 3, 2):
        await apply(platform, workload("acme/web:1", minimum))
        missing = partial(missing_for_image, platform, "acme/web:1", 2 * minimum)
        await eventually("deployed", missing)
        for cell in platform.settings.cells:
            [in_cell] = await list_on_planes(platform, compute.WORKLOAD_DEPLOYMENTS, f"cell/{cell}")
            on_hub = await platform.client("hub").get(
                compute.WORKLOAD_DEPLOYMENTS, in_cell.name, in_cell.namespace
            )
            shown = await platform.project.get(
                compute.WORKLOAD_DEPLOYMENTS, in_cell.name, NAMESPACE
            )
            assert patch.values(on_hub.status) == patch.values(in_cell.status)
            assert counters(shown) == counters(in_cell) == (minimum,) * 4
            own = [
                each
                for each in patch.values(shown.status)["conditions"]
                if each["type"] not in FEDERATORS
            ]
            assert own == patch.values(in_cell.status)["conditions"]


def test_lesson_24_the_cells_status_arrives_unchanged(tmp_path: Path) -> None:
    assert PlatformRun(24, tmp_path / "state.db").run(_scenario)


async def test_lesson_24_the_shipped_interpreter_equals_that_of_the_local_hub() -> None:
    [shipped] = yaml.safe_load_all((FEDERATION / "status-interpreter.yaml").read_text())
    overlay = yaml.safe_load((FEDERATION / "kustomization.yaml").read_text())
    async with embedded_server() as embedded:
        hub = embedded.client("hub")
        await bootstrap.ensure_hub(hub, LocalSettings())
        [found] = (await hub.list(karmada.INTERPRETER_CUSTOMIZATIONS)).items

    assert "status-interpreter.yaml" in overlay["resources"]
    assert shipped["metadata"]["name"] == found.name
    assert shipped["spec"] == patch.values(found.spec)


async def test_an_interpreter_of_an_earlier_version_is_brought_up_to_date() -> None:
    async with embedded_server() as embedded:
        hub = embedded.client("hub")
        await bootstrap.ensure_hub(hub, LocalSettings())
        [wanted] = (await hub.list(karmada.INTERPRETER_CUSTOMIZATIONS)).items
        body = merge({"spec": {"customizations": {"dependencyInterpretation": None}}})
        await hub.patch(karmada.INTERPRETER_CUSTOMIZATIONS, wanted.name, body)
        await bootstrap.ensure_hub(hub, LocalSettings())
        found = await hub.get(karmada.INTERPRETER_CUSTOMIZATIONS, wanted.name)

    assert patch.values(found.spec) == patch.values(wanted.spec)


async def test_the_shipped_interpreter_leaves_the_reading_of_a_cells_status_to_karmada() -> None:
    """A script for it returns nil before the first status, which Karmada logs and retries."""
    [shipped] = yaml.safe_load_all((FEDERATION / "status-interpreter.yaml").read_text())

    assert "statusReflection" not in shipped["spec"]["customizations"]
