"""A local platform runs the provider of its settings, one for each cell."""

from __future__ import annotations

from typing import Any, Self

import msgspec
import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.assembly.local.platform import LocalPlatform
from datum_compute.assembly.local.state import LocalSettings
from datum_compute.client.transport import HttpRequest
from datum_compute.providers import registry
from datum_compute.providers.registry import PROVIDERS, ProviderContext, ProviderRecord
from datum_compute.providers.simulated import SimulatedProvider
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.controllers.planes import NAMESPACE, workload
from tests.support.objects import until

SETTINGS = LocalSettings(
    cities=("DFW", "LHR"), runtime="second", runtime_settings={"socket": "/run/engine.sock"}
)


class SecondProvider(SimulatedProvider):
    """Holds a connection while it runs."""

    name = "second"

    def __init__(self, context: ProviderContext) -> None:
        super().__init__(context.cell, context.env)
        self.context = context
        self.connected = False

    async def __aenter__(self) -> Self:
        self.connected = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self.connected = False


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[SecondProvider]:
    """The providers that the platform builds from a second record."""
    found: list[SecondProvider] = []

    def build(context: ProviderContext) -> SecondProvider:
        found.append(SecondProvider(context))
        return found[-1]

    record = ProviderRecord("second", build, ("local",), "", ("socket",))
    monkeypatch.setattr(registry, "PROVIDERS", (*PROVIDERS, record))
    return found


async def test_the_provider_of_the_settings_runs_in_every_cell(
    built: list[SecondProvider],
) -> None:
    platform = LocalPlatform(SimulatedEnvironment(), ":memory:", SETTINGS)
    async with platform.run(admin_token="admin"):
        assert [each.context.cell_name for each in built] == ["dfw", "lhr"]
        assert all(each.context.settings == SETTINGS.runtime_settings for each in built)
        assert all(each.connected for each in built)
        assert (await status(platform))["runtime"] == "second"

        client = platform.client("project/demo", "local-admin")
        await client.create(compute.WORKLOADS, workload("DFW"))
        await until(client, compute.WORKLOADS, "web", NAMESPACE, serves)
        cell = platform.client("cell/dfw", "local-admin")
        [instance] = (await cell.list(compute.INSTANCES)).items
        assert compute.provider_finalizer("second") in instance.metadata.finalizers
    assert not any(each.connected for each in built)


def serves(found: Object) -> bool:
    return bool(values(found.status).get("readyReplicas"))


async def status(platform: LocalPlatform) -> dict[str, Any]:
    headers = {"authorization": "Bearer admin"}
    request = HttpRequest("GET", "/local/v1/status", headers=headers)
    found: dict[str, Any] = msgspec.json.decode((await platform.server.handle(request)).body)
    return found
