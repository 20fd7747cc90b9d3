"""Facts about network services that the stand-in reproduces, one per test.

The table in ``docs/develop/stand-in-facts.md`` lists which test keeps which fact; many are kept by
the tests next to this file.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Network
from itertools import combinations
from typing import Any

import pytest

from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import Values, values
from datum_compute.standins.network_services import network_controllers, network_mirror_controllers
from tests.support.client.intercepted_transport import DISCONNECTED
from tests.support.standins.networks import (
    BINDINGS,
    CLAIMS,
    CONTEXTS,
    NETWORKS,
    NS,
    SUBNETS,
    ask_subnet,
    bind,
    is_ready,
    network,
    networked,
    present,
    range_of,
)
from tests.support.standins.platform import (
    CITY,
    StandinPlatform,
    build,
    condition,
    create_namespace,
    exists,
    location,
    revisions,
    running,
    settle,
    standin_platform,
    until,
    until_gone,
    upstream_labels,
)

LOCATIONS, LOCATION_BINDINGS = networking.LOCATIONS, networking.LOCATION_BINDINGS
UNKNOWN = ("Unknown", "Pending")


# The kinds


async def test_a_new_network_is_pending_and_has_its_defaults() -> None:
    async with standin_platform() as found:
        made = await found.project.create(NETWORKS, network(namespace="default"), "default")

        assert condition(made, "Ready") == UNKNOWN
        assert values(made.spec)["mtu"] == 1460
        assert values(made.spec)["ipFamilies"] == ["IPv6"]


@pytest.mark.parametrize(
    "spec", [{}, {"ipam": {"mode": "Odd"}}, {"ipam": {"mode": "Auto"}, "mtu": 9}]
)
async def test_a_network_needs_a_mode_and_a_valid_mtu(spec: Values) -> None:
    async with standin_platform() as found:
        body = build(NETWORKS, "odd", "default", spec=spec)

        with pytest.raises(errors.Invalid, match="spec"):
            await found.project.create(NETWORKS, body, "default")


async def test_a_network_becomes_ready() -> None:
    async with networked() as found:
        await found.cells["dfw"].create(NETWORKS, network(), NS)

        await until(
            found.cells["dfw"],
            NETWORKS,
            "default",
            NS,
            lambda one: condition(one, "Ready") == ("True", "Ready"),
        )


async def test_a_network_with_an_invalid_range_is_range_unsupported() -> None:
    async with networked() as found:
        body = network()
        body["spec"]["ipam"]["ipv4Range"] = "10.0.0.0/99"
        await found.cells["dfw"].create(NETWORKS, body, NS)

        await until(
            found.cells["dfw"],
            NETWORKS,
            "default",
            NS,
            lambda one: condition(one, "Ready") == ("False", "RangeUnsupported"),
        )


def test_locations_and_their_bindings_are_cluster_scoped() -> None:
    assert not LOCATIONS.namespaced
    assert not LOCATION_BINDINGS.namespaced


async def test_a_reference_to_a_location_keeps_its_empty_namespace() -> None:
    async with networked() as found:
        await present(found.cells["dfw"], "dfw")
        context = await found.cells["dfw"].get(CONTEXTS, "default-dfw", NS)

        assert values(context.spec)["location"] == {"name": "dfw", "namespace": ""}


@pytest.mark.parametrize("change", [{"network": {"name": "other"}}, {"location": {"name": "lhr"}}])
async def test_network_and_location_of_a_binding_are_immutable(change: Values) -> None:
    async with standin_platform() as found:
        await create_namespace(found.cells["dfw"], NS)
        await bind(found.cells["dfw"], "dfw")

        with pytest.raises(errors.Invalid, match="is immutable"):
            await found.cells["dfw"].patch(
                BINDINGS, "app-default-net-0", merge({"spec": change}), NS
            )


async def test_a_new_claim_and_its_subnet_are_pending() -> None:
    async with standin_platform() as found:
        await create_namespace(found.cells["dfw"], NS)
        await ask_subnet(found.cells["dfw"], "default-dfw", "dfw")
        claim = await found.cells["dfw"].get(CLAIMS, "default-dfw-0", NS)

        for kind in ("Allocated", "Programmed", "Ready"):
            assert condition(claim, kind) == UNKNOWN


# The flow of a subnet


async def test_a_context_is_named_after_network_and_location_and_owned_by_the_network() -> None:
    async with networked() as found:
        await present(found.cells["dfw"], "dfw")
        context = await found.cells["dfw"].get(CONTEXTS, "default-dfw", NS)
        owner = context.metadata.controller()

        assert owner is not None
        assert (owner.kind, owner.name) == ("Network", "default")


async def test_a_binding_waits_for_its_network_context() -> None:
    async with standin_platform() as found:
        dfw = found.cells["dfw"]
        await create_namespace(dfw, NS, upstream_labels())
        await dfw.create(NETWORKS, network(), NS)
        await bind(dfw, "dfw")
        controllers = network_controllers(found.cell_fleet(), found.env)
        unprogrammed = [one for one in controllers if one.name != "network-context"]
        async with running(found.env, unprogrammed):
            await until(
                dfw,
                BINDINGS,
                "app-default-net-0",
                NS,
                lambda one: condition(one, "Ready") == ("False", "NetworkContextNotReady"),
            )
        async with running(found.env, network_controllers(found.cell_fleet(), found.env)):
            await until(dfw, BINDINGS, "app-default-net-0", NS, is_ready, within=6.0)


async def test_contexts_and_subnets_are_programmed_by_the_stand_in() -> None:
    async with networked() as found:
        dfw = found.cells["dfw"]
        await present(dfw, "dfw")
        await ask_subnet(dfw, "default-dfw", "dfw")
        await range_of(dfw, "default-dfw-0")

        for resource, name in ((CONTEXTS, "default-dfw"), (SUBNETS, "default-dfw-0")):
            obj = await dfw.get(resource, name, NS)
            assert condition(obj, "Programmed") == ("True", "Programmed")
            assert condition(obj, "Ready") == ("True", "Ready")


async def test_a_claim_is_ready_with_its_subnet_and_names_it() -> None:
    async with networked() as found:
        dfw = found.cells["dfw"]
        await present(dfw, "dfw")
        await ask_subnet(dfw, "default-dfw", "dfw")
        claim = await until(dfw, CLAIMS, "default-dfw-0", NS, is_ready)

        assert condition(claim, "Ready") == ("True", "SubnetReady")
        assert values(claim.status)["subnetRef"] == {"name": "default-dfw-0"}
        assert values(claim.status)["prefixLength"] == 20


async def test_a_network_that_cannot_be_set_up_fails_its_binding() -> None:
    async with networked() as found:
        dfw, name = found.cells["dfw"], "n" * 200
        await dfw.create(NETWORKS, network(name), NS)
        body = build(
            BINDINGS,
            "long",
            NS,
            spec={"network": {"name": name}, "location": {"name": "l" * 60, "namespace": ""}},
        )
        await dfw.create(BINDINGS, body, NS)

        await until(
            dfw,
            BINDINGS,
            "long",
            NS,
            lambda one: condition(one, "Ready") == ("False", "NetworkFailedToCreate"),
        )


# Ranges


async def test_any_city_gets_a_range_and_no_two_overlap() -> None:
    cities = [f"{letter}{digit}X" for letter in "ABC" for digit in range(6)] + ["dfw", "LHR"]
    async with networked() as found:
        dfw = found.cells["dfw"]
        await dfw.create(NETWORKS, network(), NS)
        for city in cities:
            if not await exists(dfw, LOCATIONS, city.lower()):
                await dfw.create(LOCATIONS, location(city))
            name = f"default-{city.lower()}"
            body = build(
                CONTEXTS,
                name,
                NS,
                spec={
                    "network": {"name": "default"},
                    "location": {"name": city.lower(), "namespace": ""},
                },
            )
            await dfw.create(CONTEXTS, body, NS)
            await ask_subnet(dfw, name, city.lower())
        ranges = [IPv4Network(await range_of(dfw, f"default-{city.lower()}-0")) for city in cities]

        assert not [pair for pair in combinations(ranges, 2) if pair[0].overlaps(pair[1])]
        assert {str(ranges[-2]), str(ranges[-1])} == {"10.128.0.0/20", "10.132.0.0/20"}


async def exhausted(found: StandinPlatform) -> None:
    """One subnet that is the whole pool, and a claim that finds nothing."""
    dfw, lhr = found.cells["dfw"], found.cells["lhr"]
    await present(dfw, "dfw")
    await present(lhr, "lhr")
    await ask_subnet(dfw, "default-dfw", "dfw", startAddress="10.128.0.0", prefixLength=9)
    await range_of(dfw, "default-dfw-0")
    await ask_subnet(lhr, "default-lhr", "lhr")


async def test_an_exhausted_pool_is_reported_on_the_claim() -> None:
    async with networked() as found:
        await exhausted(found)
        claim = await until(
            found.cells["lhr"],
            CLAIMS,
            "default-lhr-0",
            NS,
            lambda one: condition(one, "Ready") == ("False", "SubnetNotReady"),
        )

        assert condition(claim, "Allocated") == ("False", "PoolExhausted")
        assert "10.128.0.0/9" in bytes(claim.status).decode()
        assert not await exists(found.cells["lhr"], SUBNETS, "default-lhr-0", NS)


async def test_a_claim_denied_by_an_exhausted_pool_is_served_when_a_subnet_is_deleted() -> None:
    async with networked() as found:
        await exhausted(found)
        lhr, dfw = found.cells["lhr"], found.cells["dfw"]
        await until(
            lhr, CLAIMS, "default-lhr-0", NS, lambda one: condition(one, "Ready")[0] == "False"
        )
        await dfw.delete(CLAIMS, "default-dfw-0", NS)
        await dfw.delete(SUBNETS, "default-dfw-0", NS)

        await until(lhr, CLAIMS, "default-lhr-0", NS, is_ready, within=5.0)


async def test_an_ipv6_claim_is_range_unsupported() -> None:
    async with networked() as found:
        dfw = found.cells["dfw"]
        await present(dfw, "dfw")
        await ask_subnet(dfw, "default-dfw", "dfw", ipFamily="IPv6")

        await until(
            dfw,
            CLAIMS,
            "default-dfw-0",
            NS,
            lambda one: condition(one, "Allocated") == ("False", "RangeUnsupported"),
        )


# Locations


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


async def test_deleting_a_network_releases_the_ranges_of_its_claims() -> None:
    async with networked() as found:
        dfw = found.cells["dfw"]
        await present(dfw, "dfw")
        await ask_subnet(dfw, "default-dfw", "dfw", startAddress="10.128.0.0", prefixLength=9)
        await range_of(dfw, "default-dfw-0")
        await dfw.delete(NETWORKS, "default", NS)
        await until_gone(dfw, SUBNETS, "default-dfw-0", NS)
        await until_gone(dfw, CONTEXTS, "default-dfw", NS)
        await dfw.create(NETWORKS, network(), NS)
        await until(dfw, CONTEXTS, "default-dfw", NS, is_ready)

        await range_of(dfw, "default-dfw-0")
