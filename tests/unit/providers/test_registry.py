"""Every provider package is registered, and every record builds its provider."""

from __future__ import annotations

import asyncio
import pkgutil
from dataclasses import replace

import pytest

from datum_compute import providers
from datum_compute.env import Environment
from datum_compute.fleets.single import SingleFleet
from datum_compute.providers import registry
from datum_compute.providers.probe import Probe
from datum_compute.providers.registry import PROVIDERS, ProviderContext, ProviderRecord
from datum_compute.testing.environment import SimulatedEnvironment


def test_every_provider_package_is_built_by_a_record() -> None:
    packages = [each.name for each in pkgutil.iter_modules(providers.__path__) if each.ispkg]
    env = SimulatedEnvironment()
    cell = SingleFleet("cell", "single", None, env)  # type: ignore[arg-type]  # never called

    async def built() -> set[str]:
        return {each.build(ProviderContext("dfw", cell, env)).name for each in PROVIDERS}

    assert asyncio.run(built()) == set(packages) - {"conformance"}


@pytest.mark.parametrize("record", PROVIDERS, ids=lambda record: record.name)
async def test_a_record_builds_a_provider_with_controllers(record: ProviderRecord) -> None:
    env = SimulatedEnvironment()
    cell = SingleFleet("cell", "single", None, env)  # type: ignore[arg-type]  # never called

    provider = registry.find(record.name).build(ProviderContext("dfw", cell, env))

    assert provider.controllers()


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(KeyError):
        registry.find("vm")


async def test_a_free_choice_takes_the_first_provider_that_can_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def probe(env: Environment) -> Probe:
        return Probe(env.variable("ENGINE") == "yes", "an engine")

    simulated = registry.find("simulated")
    engine = replace(simulated, name="engine", probe=probe)
    monkeypatch.setattr(registry, "PROVIDERS", (engine, simulated))

    chosen, probes = await registry.choose("local", SimulatedEnvironment())
    assert (chosen.name, probes) == ("simulated", [Probe(False, "an engine")])
    with_engine = SimulatedEnvironment(variables={"ENGINE": "yes"})
    chosen, probes = await registry.choose("local", with_engine)
    assert (chosen.name, probes) == ("engine", [Probe(True, "an engine")])
