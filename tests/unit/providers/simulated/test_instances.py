"""Simulated Instances in a cell with networks: addresses, times, restarts, writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object, ObjectMeta
from datum_compute.api.networking import v1alpha as networking
from datum_compute.client.protocol import merge
from datum_compute.env import SystemEnvironment
from datum_compute.fleets.static import StaticFleet
from datum_compute.providers.protocol import AVAILABLE, InstanceTarget
from datum_compute.providers.simulated import SimulatedProvider
from datum_compute.providers.simulated.behaviour import (
    CRASH_AFTER_SECONDS,
    SLEEP_AFTER_SECONDS,
    START_SECONDS,
)
from datum_compute.runtime.writes.patch import values
from tests.support.objects import condition, until, until_gone
from tests.support.providers.simulated import INSTANCES, NS, available, cell, start
from tests.support.standins.platform import StandinPlatform, build, instance_spec, running, settle


@asynccontextmanager
async def provided() -> AsyncIterator[StandinPlatform]:
    async with (
        cell() as found,
        running(found.env, SimulatedProvider(found.own_fleet("dfw"), found.env).controllers()),
    ):
        yield found


def address(obj: Object) -> str:
    return str(values(obj.status)["networkInterfaces"][0]["assignments"]["networkIP"])


@pytest.mark.realtime
async def test_an_instance_that_takes_no_time_to_start_is_reported_once() -> None:
    """On the ordinary loop, whose clock goes on while the provider looks at it."""
    env = SystemEnvironment()
    metadata = ObjectMeta(name="app-0", namespace=NS, uid="a")
    target = InstanceTarget("single", compute.Instance(metadata=metadata))
    provider = SimulatedProvider(StaticFleet("cell", {}, env), env, networking_enabled=False)

    assert (await provider.ensure(target)).available == AVAILABLE


async def test_each_instance_gets_the_next_free_address_of_its_subnet() -> None:
    async with provided() as found:
        for number in range(3):
            await start(found, number)
        addresses = [address(await available(found, number)) for number in range(3)]
        assert sorted(addresses) == ["10.128.0.2", "10.128.0.3", "10.128.0.4"]
        await found.cells["dfw"].delete(INSTANCES, "app-1", NS)
        await until_gone(found.cells["dfw"], INSTANCES, "app-1", NS)
        await start(found, 7)

        assert address(await available(found, 7)) == addresses[1]


async def test_a_restarted_provider_assigns_no_address_twice() -> None:
    async with cell() as found:
        async with running(
            found.env, SimulatedProvider(found.own_fleet("dfw"), found.env).controllers()
        ):
            for number in range(2):
                await start(found, number)
                kept = await available(found, number)
            await found.cells["dfw"].delete(INSTANCES, "app-0", NS)
            await until_gone(found.cells["dfw"], INSTANCES, "app-0", NS)
        for number in (2, 3):
            await start(found, number)
        async with running(
            found.env, SimulatedProvider(found.own_fleet("dfw"), found.env).controllers()
        ):
            others = {address(await available(found, number)) for number in (2, 3)}
            again = await available(found, 1)

        assert address(kept) == "10.128.0.3"
        assert others == {"10.128.0.2", "10.128.0.4"}
        assert again.metadata.resource_version == kept.metadata.resource_version


async def test_an_instance_of_a_deployment_without_bindings_has_no_address() -> None:
    async with provided() as found:
        body = build(
            INSTANCES,
            "lone-0",
            NS,
            metadata={"labels": {compute.LABEL_WORKLOAD_DEPLOYMENT_NAME: "lone"}},
            spec=instance_spec(),
        )
        await found.cells["dfw"].create(INSTANCES, body, NS)
        lone = await until(
            found.cells["dfw"],
            INSTANCES,
            "lone-0",
            NS,
            lambda one: condition(one, "Available")[0] == "True",
        )

        assert "networkInterfaces" not in values(lone.status)


async def test_an_instance_is_reconciled_while_its_deployment_changes_networks() -> None:
    """It keeps its address; its replacement will be in the other network."""
    async with provided() as found:
        dfw = found.cells["dfw"]
        await start(found, 0, {CRASH_AFTER_SECONDS: "30"})
        before = await available(found, 0)
        spec = values((await dfw.get(networking.NETWORK_BINDINGS, "app-net-0", NS)).spec)
        await dfw.delete(networking.NETWORK_BINDINGS, "app-net-0", NS)
        spec["network"] = {"name": "blue"}
        other = build(networking.NETWORK_BINDINGS, "app-net-0", NS, spec=spec)
        await dfw.create(networking.NETWORK_BINDINGS, other, NS)
        after = await until(
            dfw,
            INSTANCES,
            "app-0",
            NS,
            lambda one: condition(one, "Available") == ("False", "InstanceCrashing"),
        )

        assert address(after) == address(before)


async def test_an_instance_costs_two_writes() -> None:
    async with provided() as found:
        created = await start(found, 0)
        up = await available(found, 0)
        await settle()
        later = await found.cells["dfw"].get(INSTANCES, "app-0", NS)

        assert later.metadata.resource_version == up.metadata.resource_version
        before = int(created.metadata.resource_version)
        assert int(up.metadata.resource_version) - before == 2


async def test_conditions_of_the_provider_are_restored_and_others_kept() -> None:
    async with provided() as found:
        dfw = found.cells["dfw"]
        await start(found, 0)
        up = await available(found, 0)
        reported = values(up.status)
        others = {"type": "Ready", "status": "True", "reason": "Available", "message": ""}
        others["lastTransitionTime"] = reported["conditions"][0]["lastTransitionTime"]
        kept = [one for one in reported["conditions"] if one["type"] != "Ready"]
        talk = merge({"status": {"conditions": [*kept, others]}})
        patched = await dfw.patch(INSTANCES, "app-0", talk, NS, subresource="status")
        await settle()
        left = await dfw.get(INSTANCES, "app-0", NS)

        for name, wrong in (
            ("conditions", [one | {"reason": "Wrong"} for one in kept] + [others]),
            ("networkInterfaces", [{"assignments": {"networkIP": "192.0.2.1"}}]),
            ("controller", {"observedTemplateHash": "another"}),
        ):
            damage = merge({"status": {name: wrong}})
            await dfw.patch(INSTANCES, "app-0", damage, NS, subresource="status")
            await settle()
            mended = values((await dfw.get(INSTANCES, "app-0", NS)).status)

            assert mended["networkInterfaces"] == reported["networkInterfaces"]
            assert mended["controller"] == reported["controller"]
            assert mended["conditions"][:2] == reported["conditions"][:2]
            assert others in mended["conditions"]
        assert left.metadata.resource_version == patched.metadata.resource_version


async def test_a_slow_start_is_reported_until_it_ends() -> None:
    async with provided() as found:
        await start(found, 0, {START_SECONDS: "20"})
        starting = await until(
            found.cells["dfw"],
            INSTANCES,
            "app-0",
            NS,
            lambda one: condition(one, "Programmed")[1] == "ProgrammingInProgress",
        )
        begun = asyncio.get_running_loop().time()
        await available(found, 0)

        assert condition(starting, "Available") == ("Unknown", "Provisioning")
        assert 18 < asyncio.get_running_loop().time() - begun < 22


async def test_a_crash_happens_at_its_time_although_the_provider_restarted() -> None:
    async with cell() as found:
        async with running(
            found.env, SimulatedProvider(found.own_fleet("dfw"), found.env).controllers()
        ):
            await start(found, 0, {CRASH_AFTER_SECONDS: "60"})
            await available(found, 0)
            await asyncio.sleep(30)
        async with running(
            found.env, SimulatedProvider(found.own_fleet("dfw"), found.env).controllers()
        ):
            begun = asyncio.get_running_loop().time()
            crashed = await until(
                found.cells["dfw"],
                INSTANCES,
                "app-0",
                NS,
                lambda one: condition(one, "Available")[0] == "False",
                within=60,
            )

        assert condition(crashed, "Available")[1] == compute.REASON_INSTANCE_CRASHING
        assert condition(crashed, "Programmed")[0] == "True"
        assert 25 < asyncio.get_running_loop().time() - begun < 35


async def test_a_sleeping_instance_stays_available() -> None:
    async with provided() as found:
        await start(found, 0, {SLEEP_AFTER_SECONDS: "5"})
        asleep = await until(
            found.cells["dfw"],
            INSTANCES,
            "app-0",
            NS,
            lambda one: condition(one, "Available")[1] == "Asleep",
        )

        assert condition(asleep, "Available")[0] == "True"


async def test_an_invalid_annotation_is_reported_until_corrected() -> None:
    async with provided() as found:
        await start(found, 0, {START_SECONDS: "soon"})
        failed = await until(
            found.cells["dfw"],
            INSTANCES,
            "app-0",
            NS,
            lambda one: condition(one, "Programmed") == ("False", "ConfigurationError"),
        )
        await found.cells["dfw"].patch(
            INSTANCES, "app-0", merge({"metadata": {"annotations": {START_SECONDS: "0"}}}), NS
        )

        assert "soon" in failed.to_wire().decode()
        await available(found, 0)
