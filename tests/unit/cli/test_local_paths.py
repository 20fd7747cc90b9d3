"""Parts of ``local up``: paths as they are shown, codes of cities, the image of the sample."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from datum_compute.api.planes import CELL, PLANE_TYPES, split_plane
from datum_compute.cli.commands.local.paths import abbreviate_home
from datum_compute.cli.commands.local.up import RESERVED, SampleImage
from datum_compute.env import Environment
from datum_compute.providers import registry
from datum_compute.providers.probe import Sample
from datum_compute.testing.environment import SimulatedEnvironment


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/ana/.local/state/datum-compute", "~/.local/state/datum-compute"),
        ("/home/anabel/state", "/home/anabel/state"),
        ("/srv/state", "/srv/state"),
    ],
)
def test_a_path_below_the_home_is_shown_relative_to_it(path: str, expected: str) -> None:
    env = SimulatedEnvironment(variables={"HOME": "/home/ana"})

    assert abbreviate_home(Path(path), env) == expected


def test_without_a_home_the_path_is_shown_in_full() -> None:
    assert abbreviate_home(Path("/srv/state"), SimulatedEnvironment(variables={})) == "/srv/state"


@pytest.mark.parametrize("name", [each.name for each in PLANE_TYPES])
def test_a_code_is_reserved_where_its_cell_would_be_served_as_another_plane(name: str) -> None:
    plane, _ = split_plane(CELL.path.format(name))

    assert (name.upper() in RESERVED) == (plane != CELL.plane(name))


async def test_the_image_of_the_sample_is_looked_for_once() -> None:
    looked: list[str] = []

    async def look(env: Environment) -> Sample:
        looked.append("registry")
        return Sample("registry.example/web:1")

    image = SampleImage(SimulatedEnvironment())
    record = replace(registry.find("podman"), sample=look)

    assert await image.find(record) == await image.find(record) == Sample("registry.example/web:1")
    assert looked == ["registry"]
