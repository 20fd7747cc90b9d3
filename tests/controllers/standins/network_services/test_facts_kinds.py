"""Networks, locations, bindings and subnet claims, each by itself.

What is known of network services and the stand-in keeps, one fact a test. The table in
``docs/develop/stand-in-facts.md`` lists which test keeps which fact.
"""

from __future__ import annotations

import pytest

from datum_compute.api.networking import v1alpha as networking
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import Values, values
from tests.support.objects import condition, until
from tests.support.standins.networks import (
    BINDINGS,
    CLAIMS,
    CONTEXTS,
    NETWORKS,
    NS,
    ask_subnet,
    bind,
    network,
    networked,
    present,
)
from tests.support.standins.platform import build, create_namespace, standin_platform

LOCATIONS = networking.LOCATIONS
LOCATION_BINDINGS = networking.LOCATION_BINDINGS
UNKNOWN = ("Unknown", "Pending")


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
