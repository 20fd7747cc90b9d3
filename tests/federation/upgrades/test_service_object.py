"""A platform of version 0.1.0 called the Service object by the service's name."""

from __future__ import annotations

from pathlib import Path

from datum_compute.api.services import v1alpha1 as services
from datum_compute.assembly.local.platform import LocalPlatform
from datum_compute.assembly.local.state import LocalSettings
from datum_compute.client.protocol import merge
from datum_compute.testing.environment import SimulatedEnvironment

OLD = "compute.datumapis.com"
SETTINGS = LocalSettings(cities=("DFW",))


def platform(directory: Path) -> LocalPlatform:
    return LocalPlatform(SimulatedEnvironment(), directory / "state.db", SETTINGS)


async def test_a_project_keeps_its_access_when_the_service_object_gets_its_real_name(
    tmp_path: Path,
) -> None:
    async with platform(tmp_path).run(admin_token="t") as first:
        root = first.client("root", "local-admin")
        project = first.client("project/demo", "local-admin")
        for resource in (services.SERVICES, services.SERVICE_CONFIGURATIONS):
            found = await root.get(resource, "compute")
            body = {"metadata": {"name": OLD}, "spec": found.spec}
            await root.create(resource, body)
            await root.delete(resource, "compute")
        old = merge({"spec": {"serviceRef": {"name": OLD}}})
        await project.patch(services.SERVICE_ENTITLEMENTS, "compute", old)

    async with platform(tmp_path).run(admin_token="t") as second:
        root = second.client("root", "local-admin")
        project = second.client("project/demo", "local-admin")
        for resource in (services.SERVICES, services.SERVICE_CONFIGURATIONS):
            assert [each.name for each in (await root.list(resource)).items] == ["compute"]
        found = await project.get(services.SERVICE_ENTITLEMENTS, "compute")
        view = found.view(services.ServiceEntitlement)
        assert view.spec.service_ref.name == "compute"
        assert view.status.phase == services.PHASE_ACTIVE
