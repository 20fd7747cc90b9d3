"""Bindings, contexts, subnets, and the networks of projects in cells."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import IPv4Network

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import merge
from datum_compute.providers.registry import RuntimeAway
from datum_compute.runtime.writes.patch import values
from datum_compute.standins.network_services import (
    MachineRanges,
    network_controllers,
    network_mirror_controllers,
)
from datum_compute.standins.network_services.subnets import (
    REASON_POOL_EXHAUSTED,
    REASON_RANGE_OCCUPIED,
)
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
    deployment,
    location,
    running,
    settle,
    standin_platform,
    upstream_labels,
)


async def test_a_binding_waits_for_its_network_and_is_ready_with_its_context() -> None:
    async with networked() as found:
        dfw = found.cells["dfw"]
        await bind(dfw, "dfw")
        await until(
            dfw,
            BINDINGS,
            "app-default-net-0",
            NS,
            lambda one: condition(one, "Ready") == ("False", networking.REASON_NETWORK_NOT_FOUND),
        )
        made = await dfw.create(NETWORKS, network(), NS)
        binding = await until(dfw, BINDINGS, "app-default-net-0", NS, is_ready)
        context = await dfw.get(CONTEXTS, "default-dfw", NS)

        assert values(binding.status)["networkContextRef"] == {
            "namespace": NS,
            "name": "default-dfw",
        }
        assert condition(context, "Programmed")[0] == "True"
        owner = context.metadata.controller()
        assert owner is not None
        assert owner.uid == made.metadata.uid


async def test_a_range_that_another_platform_has_just_taken_is_left_to_it() -> None:
    """Both have seen it free."""
    claimed: list[tuple[str, str, str, IPv4Network]] = []

    async def occupied() -> list[IPv4Network]:
        return []

    async def claim(cell: str, namespace: str, name: str, range_: IPv4Network) -> bool:
        claimed.append((cell, namespace, name, range_))
        return str(range_) != "10.128.0.0/20"

    async with networked(MachineRanges(occupied, claim)) as found:
        dfw = found.cells["dfw"]
        await present(dfw, "dfw")
        await ask_subnet(dfw, "default-dfw", "dfw")
        given = await range_of(dfw, "default-dfw-0")

        assert given == "10.128.16.0/20"
        assert ("dfw", NS, "default-dfw-0", IPv4Network(given)) in claimed


async def test_a_claim_waits_while_no_range_can_be_taken() -> None:
    away = True

    async def occupied() -> list[IPv4Network]:
        return []

    async def claim(cell: str, namespace: str, name: str, range_: IPv4Network) -> bool:
        if away:
            raise RuntimeAway("podman does not answer")
        return True

    async with networked(MachineRanges(occupied, claim)) as found:
        dfw = found.cells["dfw"]
        await present(dfw, "dfw")
        await ask_subnet(dfw, "default-dfw", "dfw")
        await settle()
        assert not await exists(dfw, SUBNETS, "default-dfw-0", NS)

        away = False
        assert await range_of(dfw, "default-dfw-0") == "10.128.0.0/20"


async def test_a_claim_gets_a_subnet_of_its_name_controlled_by_the_context() -> None:
    async with networked() as found:
        dfw = found.cells["dfw"]
        await present(dfw, "dfw")
        await ask_subnet(dfw, "default-dfw", "dfw")

        assert await range_of(dfw, "default-dfw-0") == "10.128.0.0/20"
        subnet = await until(dfw, SUBNETS, "default-dfw-0", NS, is_ready)
        owner = subnet.metadata.controller()
        assert owner is not None
        assert (owner.kind, owner.name) == ("NetworkContext", "default-dfw")
        for kind in ("Allocated", "Programmed", "Ready"):
            assert condition(subnet, kind)[0] == "True"


@pytest.mark.parametrize("restart", [True, False])
async def test_ranges_of_a_network_do_not_overlap_between_cells(restart: bool) -> None:
    async with standin_platform() as found:
        ranges: list[str] = []
        for name in ("lhr", "dfw"):
            cell = found.cells[name]
            await cell.create(networking.LOCATIONS, location("ORD"))
            await create_namespace(cell, NS, upstream_labels())
        async with AsyncExitStack() as stack:
            for name in ("lhr", "dfw"):
                if restart:
                    await stack.aclose()
                if restart or not ranges:
                    controllers = network_controllers(found.cell_fleet(), found.env)
                    await stack.enter_async_context(running(found.env, controllers))
                await present(found.cells[name], "ord")
                await ask_subnet(found.cells[name], "default-ord", "ord")
                ranges.append(await range_of(found.cells[name], "default-ord-0"))

        assert ranges == ["10.128.16.0/20", "10.128.32.0/20"]


async def test_two_networks_may_use_the_same_range() -> None:
    async with networked() as found:
        dfw = found.cells["dfw"]
        for name in ("default", "other"):
            await present(dfw, "dfw", name=name)
            await ask_subnet(dfw, f"{name}-dfw", "dfw")

        assert await range_of(dfw, "default-dfw-0") == await range_of(dfw, "other-dfw-0")


async def test_a_requested_range_is_allocated_or_refused() -> None:
    async with networked() as found:
        dfw, lhr = found.cells["dfw"], found.cells["lhr"]
        await present(dfw, "dfw")
        await present(lhr, "lhr")
        await ask_subnet(dfw, "default-dfw", "dfw", startAddress="10.200.0.0", prefixLength=24)
        assert await range_of(dfw, "default-dfw-0") == "10.200.0.0/24"
        await ask_subnet(lhr, "default-lhr", "lhr", startAddress="10.200.0.0", prefixLength=16)

        await until(
            lhr,
            CLAIMS,
            "default-lhr-0",
            NS,
            lambda one: condition(one, "Allocated") == ("False", REASON_RANGE_OCCUPIED),
        )
        assert not await exists(lhr, SUBNETS, "default-lhr-0", NS)


async def test_an_exhausted_pool_is_reported_until_a_range_is_free() -> None:
    async with networked() as found:
        dfw, lhr = found.cells["dfw"], found.cells["lhr"]
        await present(dfw, "dfw")
        await present(lhr, "lhr")
        await ask_subnet(dfw, "default-dfw", "dfw", startAddress="10.128.0.0", prefixLength=9)
        await range_of(dfw, "default-dfw-0")
        await ask_subnet(lhr, "default-lhr", "lhr")
        await until(
            lhr,
            CLAIMS,
            "default-lhr-0",
            NS,
            lambda one: condition(one, "Allocated") == ("False", REASON_POOL_EXHAUSTED),
        )
        await dfw.delete(CLAIMS, "default-dfw-0", NS)
        await dfw.delete(SUBNETS, "default-dfw-0", NS)

        await until(lhr, CLAIMS, "default-lhr-0", NS, is_ready, within=120)


async def test_contexts_and_subnets_are_deleted_with_their_network() -> None:
    async with networked() as found:
        dfw = found.cells["dfw"]
        await present(dfw, "dfw")
        await ask_subnet(dfw, "default-dfw", "dfw")
        await range_of(dfw, "default-dfw-0")
        await dfw.delete(NETWORKS, "default", NS)

        await until_gone(dfw, CONTEXTS, "default-dfw", NS)
        await until_gone(dfw, SUBNETS, "default-dfw-0", NS)


@asynccontextmanager
async def mirrored() -> AsyncIterator[StandinPlatform]:
    """A project with a network, namespaces in both cells, and the mirror controller running."""
    async with standin_platform() as found:
        await found.set_project_ready()
        await found.project.create(NETWORKS, network(namespace="default"), "default")
        for cell in found.cells.values():
            await create_namespace(cell, NS, upstream_labels())
            await create_namespace(cell, "ns-2", upstream_labels(namespace="other"))
        controllers = network_mirror_controllers(
            found.project_fleet(), found.cell_fleet(), found.root_fleet(), found.env
        )
        async with running(found.env, controllers):
            yield found


async def deploy(cell: ApiClient, name: str = "app-web-dfw", namespace: str = NS) -> None:
    await cell.create(compute.WORKLOAD_DEPLOYMENTS, deployment(name, namespace, "DFW"), namespace)


async def test_a_projects_network_is_mirrored_to_the_cells_with_its_deployments() -> None:
    async with mirrored() as found:
        await deploy(found.cells["dfw"])
        mirror = await until(found.cells["dfw"], NETWORKS, "default", NS, lambda _: True)
        await settle()

        source = await found.project.get(NETWORKS, "default", "default")
        assert values(mirror.spec) == values(source.spec)
        assert not await exists(found.cells["lhr"], NETWORKS, "default", NS)
        assert not await exists(found.cells["dfw"], NETWORKS, "default", "ns-2")


async def test_a_network_created_or_changed_later_is_mirrored() -> None:
    async with mirrored() as found:
        dfw = found.cells["dfw"]
        await deploy(dfw)
        await found.project.create(NETWORKS, network("late", "default"), "default")
        await until(dfw, NETWORKS, "late", NS, lambda _: True)
        change = {"spec": {"mtu": 1400}}
        await found.project.patch(NETWORKS, "late", merge(change), "default")

        await until(dfw, NETWORKS, "late", NS, lambda one: values(one.spec).get("mtu") == 1400)


async def test_the_mirrored_network_is_deleted_with_the_last_deployment() -> None:
    async with mirrored() as found:
        dfw = found.cells["dfw"]
        await deploy(dfw, "one")
        await deploy(dfw, "two")
        await until(dfw, NETWORKS, "default", NS, lambda _: True)
        await dfw.delete(compute.WORKLOAD_DEPLOYMENTS, "one", NS)
        await settle()
        assert await exists(dfw, NETWORKS, "default", NS)
        await dfw.delete(compute.WORKLOAD_DEPLOYMENTS, "two", NS)

        await until_gone(dfw, NETWORKS, "default", NS)


async def test_a_network_deleted_in_the_project_is_deleted_in_the_cells() -> None:
    async with mirrored() as found:
        dfw = found.cells["dfw"]
        await deploy(dfw)
        await until(dfw, NETWORKS, "default", NS, lambda _: True)
        await found.project.delete(NETWORKS, "default", "default")

        await until_gone(dfw, NETWORKS, "default", NS)


async def test_a_network_of_the_cells_own_is_not_touched() -> None:
    async with mirrored() as found:
        dfw = found.cells["dfw"]
        own = build(NETWORKS, "default", NS, spec={"ipam": {"mode": "Policy"}})
        await dfw.create(NETWORKS, own, NS)
        await deploy(dfw)
        await settle()
        await dfw.delete(compute.WORKLOAD_DEPLOYMENTS, "app-web-dfw", NS)
        await settle()

        kept = await dfw.get(NETWORKS, "default", NS)
        assert values(kept.spec)["ipam"]["mode"] == "Policy"
