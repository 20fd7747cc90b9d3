"""Every provider package is registered, and every record builds its provider."""

from __future__ import annotations

import pkgutil
from dataclasses import replace

import pytest

from datum_compute import providers
from datum_compute.env import Environment
from datum_compute.fleets.single import SingleFleet
from datum_compute.providers import registry
from datum_compute.providers.registry import PROVIDERS, ProviderContext, ProviderRecord
from datum_compute.testing.environment import SimulatedEnvironment


def test_the_registry_names_every_provider_package_once() -> None:
    packages = [each.name for each in pkgutil.iter_modules(providers.__path__) if each.ispkg]

    assert sorted(record.name for record in PROVIDERS) == sorted(packages)


@pytest.mark.parametrize("record", PROVIDERS, ids=lambda record: record.name)
async def test_a_record_builds_the_provider_of_its_name(record: ProviderRecord) -> None:
    env = SimulatedEnvironment()
    cell = SingleFleet("cell", "single", None, env)  # type: ignore[arg-type]  # never called

    provider = registry.find(record.name).build(ProviderContext("dfw", cell, env))

    assert provider.name == record.name
    assert provider.controllers()


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(KeyError):
        registry.find("vm")


def test_a_free_choice_takes_the_first_provider_that_can_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def has_engine(env: Environment) -> bool:
        return env.variable("ENGINE") == "yes"

    engine = replace(PROVIDERS[0], name="engine", is_usable=has_engine)
    monkeypatch.setattr(registry, "PROVIDERS", (engine, *PROVIDERS))

    assert registry.choose("local", SimulatedEnvironment()).name == PROVIDERS[0].name
    with_engine = SimulatedEnvironment(variables={"ENGINE": "yes"})
    assert registry.choose("local", with_engine).name == "engine"
