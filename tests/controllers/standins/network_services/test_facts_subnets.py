"""From a network binding to a subnet and its range.

What is known of network services and the stand-in keeps, one fact a test. The table in
``docs/develop/stand-in-facts.md`` lists which test keeps which fact.
"""

from __future__ import annotations

from ipaddress import IPv4Network
from itertools import combinations

from datum_compute.api.networking import v1alpha as networking
from datum_compute.runtime.writes.patch import values
from datum_compute.standins.network_services import network_controllers
from tests.support.objects import condition, exists, until, until_gone
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
    StandinPlatform,
    build,
    create_namespace,
    location,
    running,
    standin_platform,
    upstream_labels,
)

LOCATIONS = networking.LOCATIONS


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
