"""The locations of the platform in its projects.

What is known of network services and the stand-in keeps, one fact a test. The table in
``docs/develop/stand-in-facts.md`` lists which test keeps which fact.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import values
from datum_compute.standins.network_services import network_controllers, network_mirror_controllers
from tests.support.client.intercepted_transport import DISCONNECTED
from tests.support.objects import condition, exists, until
from tests.support.standins.networks import (
    NETWORKS,
    network,
)
from tests.support.standins.platform import (
    CITY,
    StandinPlatform,
    location,
    revisions,
    running,
    settle,
    standin_platform,
)

LOCATIONS = networking.LOCATIONS
LOCATION_BINDINGS = networking.LOCATION_BINDINGS


@asynccontextmanager
async def located() -> AsyncIterator[StandinPlatform]:
    """Two cells with a Location each, and a project that is ready."""
    async with standin_platform() as found:
        for name, cell in found.cells.items():
            await cell.create(LOCATIONS, location(name.upper()))
        await found.set_project_ready()
        controllers = [
            *network_controllers(found.cell_fleet(), found.env),
            *network_mirror_controllers(
                found.project_fleet(), found.cell_fleet(), found.root_fleet(), found.env
            ),
        ]
        async with running(found.env, controllers):
            yield found


def available(binding: Object) -> bool:
    return condition(binding, "Available") == ("True", "Available")


async def offered(project: ApiClient, name: str = "dfw") -> Object:
    return await until(project, LOCATION_BINDINGS, name, "", available)


async def say_ready(cell: ApiClient, status: str, **more: Any) -> None:
    not_ready = {
        "type": "Ready",
        "status": status,
        "reason": "Ready" if status == "True" else "Maintenance",
        "message": "Back on Monday",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        **more,
    }
    body = merge({"status": {"conditions": [not_ready]}})
    await cell.patch(LOCATIONS, "dfw", body, subresource="status")


async def test_a_location_becomes_ready() -> None:
    async with located() as found:
        await until(
            found.cells["dfw"],
            LOCATIONS,
            "dfw",
            "",
            lambda one: condition(one, "Ready") == ("True", "Ready"),
        )


async def test_a_project_has_a_binding_for_each_location_of_the_platform() -> None:
    async with located() as found:
        for name in ("dfw", "lhr"):
            binding = await offered(found.project, name)
            spec = values(binding.spec)
            assert spec["locationRef"] == {"name": name}
            assert spec["topology"] == {CITY: name.upper()}
            assert await exists(found.project, LOCATIONS, name)


async def test_a_new_project_gets_its_bindings() -> None:
    async with located() as found:
        await offered(found.project)
        await found.embedded.create_project("late")
        status = (await found.root.get(resourcemanager.PROJECTS, "demo")).status
        body = merge({"status": values(status)})
        await found.root.patch(resourcemanager.PROJECTS, "late", body, subresource="status")

        for name in ("dfw", "lhr"):
            await offered(found.embedded.client("project/late"), name)


async def test_a_location_created_later_is_bound_in_every_project() -> None:
    async with located() as found:
        await offered(found.project)
        await found.cells["lhr"].create(LOCATIONS, location("AMS"))

        await offered(found.project, "ams")


async def test_a_location_that_is_not_ready_is_not_available_until_it_is() -> None:
    async with located() as found:
        await offered(found.project)
        await say_ready(found.cells["dfw"], "False")
        lost = await until(
            found.project,
            LOCATION_BINDINGS,
            "dfw",
            "",
            lambda one: condition(one, "Available") == ("False", "LocationNotReady"),
        )
        await say_ready(found.cells["dfw"], "True")

        assert "Back on Monday" in bytes(lost.status).decode()
        await offered(found.project)


async def test_a_location_that_is_gone_from_its_cell_is_not_available() -> None:
    async with located() as found:
        await offered(found.project)
        await found.cells["dfw"].delete(LOCATIONS, "dfw")
        await until(
            found.project,
            LOCATION_BINDINGS,
            "dfw",
            "",
            lambda one: condition(one, "Available") == ("False", "LocationGone"),
        )
        await found.cells["dfw"].create(LOCATIONS, location("DFW"))

        await offered(found.project)


async def test_an_unreachable_cell_keeps_its_locations_available() -> None:
    async with standin_platform() as found:
        for name, cell in found.cells.items():
            await cell.create(LOCATIONS, location(name.upper()))
        await found.set_project_ready()
        for broken in (False, True):
            found.links["dfw"].rules[:] = [DISCONNECTED] if broken else []
            controllers = network_mirror_controllers(
                found.project_fleet(), found.member_fleet(), found.root_fleet(), found.env
            )
            # The mirror controller itself waits for its cells.
            bindings = [one for one in controllers if one.name == "network-location-binding"]
            async with running(found.env, bindings):
                await offered(found.project)
                await settle()

        await offered(found.project)


async def test_a_change_of_the_location_is_copied_to_its_binding() -> None:
    async with located() as found:
        await offered(found.project)
        moved = merge({"spec": {"topology": {"topology.datum.net/region": "us"}}})
        await found.cells["dfw"].patch(LOCATIONS, "dfw", moved)

        await until(
            found.project,
            LOCATION_BINDINGS,
            "dfw",
            "",
            lambda one: values(one.spec)["topology"].get("topology.datum.net/region") == "us",
        )


async def test_a_deleted_location_binding_stays_deleted() -> None:
    async with located() as found:
        await offered(found.project)
        await settle()
        await found.project.delete(LOCATION_BINDINGS, "dfw")
        await say_ready(found.cells["dfw"], "True", message="again")
        await settle()

        assert not await exists(found.project, LOCATION_BINDINGS, "dfw")
        await found.project.delete(LOCATIONS, "dfw")
        await offered(found.project)


async def test_a_location_binding_set_unavailable_by_hand_stays_unavailable() -> None:
    async with located() as found:
        await offered(found.project)
        closed = {
            "type": "Available",
            "status": "False",
            "reason": "Maintenance",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        body = merge({"status": {"conditions": [closed]}})
        await found.project.patch(LOCATION_BINDINGS, "dfw", body, subresource="status")
        await say_ready(found.cells["dfw"], "True", message="again")
        await settle()

        kept = await found.project.get(LOCATION_BINDINGS, "dfw")
        assert condition(kept, "Available") == ("False", "Maintenance")


async def test_settled_network_services_write_nothing() -> None:
    async with located() as found:
        await offered(found.project, "lhr")
        await found.project.create(NETWORKS, network(namespace="default"), "default")
        await settle()
        planes = [found.project, *found.cells.values()]
        kinds = [NETWORKS, LOCATIONS, LOCATION_BINDINGS]
        before = await revisions(planes, kinds)
        for _ in range(2):
            controllers = [
                *network_controllers(found.cell_fleet(), found.env),
                *network_mirror_controllers(
                    found.project_fleet(), found.cell_fleet(), found.root_fleet(), found.env
                ),
            ]
            async with running(found.env, controllers):
                await settle()

        assert await revisions(planes, kinds) == before
