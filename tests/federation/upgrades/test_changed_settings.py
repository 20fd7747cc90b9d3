"""A later ``local up`` with other settings: they take effect, and manual changes stay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from datum_compute.api import conditions
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.assembly.local.platform import LocalPlatform
from datum_compute.assembly.local.state import LocalSettings
from datum_compute.client.protocol import Client, merge
from datum_compute.testing.environment import SimulatedEnvironment

BOTH = LocalSettings(cities=("DFW", "LHR"))


async def served(project_client: Client) -> set[str]:
    page = await project_client.list(networking.LOCATION_BINDINGS)
    bindings = [item.view(networking.LocationBinding) for item in page.items]
    return {b.city_code for b in bindings if conditions.is_true(b.status.conditions, "Available")}


async def granted(project_client: Client) -> dict[str, int]:
    found = await project_client.get(quota.RESOURCE_GRANTS, "local-default", "milo-system")
    allowances = found.view(quota.ResourceGrant).spec.allowances
    return {a.resource_type.rpartition("/")[2]: a.buckets[0].amount for a in allowances}


def platform(directory: Path, settings: LocalSettings) -> LocalPlatform:
    return LocalPlatform(SimulatedEnvironment(), directory / "state.db", settings)


async def test_a_city_removed_from_the_settings_is_not_offered_until_it_is_added_again(
    tmp_path: Path,
) -> None:
    async with platform(tmp_path, BOTH).run(admin_token="t") as first:
        assert await served(first.client("project/demo", "local-admin")) == {"DFW", "LHR"}
    fewer = replace(BOTH, cities=("DFW",))
    async with platform(tmp_path, fewer).run(admin_token="t") as second:
        assert await served(second.client("project/demo", "local-admin")) == {"DFW"}
    more = replace(BOTH, cities=("DFW", "LHR", "AMS"))
    async with platform(tmp_path, more).run(admin_token="t") as third:
        assert await served(third.client("project/demo", "local-admin")) == {"DFW", "LHR", "AMS"}


async def test_a_changed_grant_takes_effect_and_manual_changes_stay(tmp_path: Path) -> None:
    smaller = replace(BOTH, grant={**BOTH.grant, "instances": 2})
    async with platform(tmp_path, BOTH).run(admin_token="t") as first:
        assert await granted(first.client("project/demo", "local-admin")) == BOTH.grant
    async with platform(tmp_path, smaller).run(admin_token="t") as second:
        project_client = second.client("project/demo", "local-admin")
        assert await granted(project_client) == smaller.grant
        own = {"resourceType": "compute.datumapis.com/x", "buckets": [{"amount": 7}]}
        body = merge({"spec": {"allowances": [own]}})
        await project_client.patch(quota.RESOURCE_GRANTS, "local-default", body, "milo-system")
    async with platform(tmp_path, smaller).run(admin_token="t") as third:
        assert await granted(third.client("project/demo", "local-admin")) == {"x": 7}


async def test_a_binding_set_unavailable_by_hand_stays_unavailable(tmp_path: Path) -> None:
    closed = {
        "type": "Available",
        "status": "False",
        "reason": "Maintenance",
        "message": "Back on Monday",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    async with platform(tmp_path, BOTH).run(admin_token="t") as first:
        await first.client("project/demo", "local-admin").patch(
            networking.LOCATION_BINDINGS,
            "lhr",
            merge({"status": {"conditions": [closed]}}),
            subresource="status",
        )
    async with platform(tmp_path, BOTH).run(admin_token="t") as second:
        assert await served(second.client("project/demo", "local-admin")) == {"DFW"}
