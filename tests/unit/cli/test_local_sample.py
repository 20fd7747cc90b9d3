"""The image of the sample that ``local up --sample`` deploys."""

from __future__ import annotations

from dataclasses import replace

from datum_compute.cli.commands.local.up import SampleImage
from datum_compute.env import Environment
from datum_compute.providers import registry
from datum_compute.providers.probe import Sample
from datum_compute.testing.environment import SimulatedEnvironment


async def test_the_image_of_the_sample_is_looked_for_once() -> None:
    looked: list[str] = []

    async def look(env: Environment) -> Sample:
        looked.append("registry")
        return Sample("registry.example/web:1")

    image = SampleImage(SimulatedEnvironment())
    record = replace(registry.find("podman"), sample=look)

    assert await image.find(record) == await image.find(record) == Sample("registry.example/web:1")
    assert looked == ["registry"]
