"""A workload may ask that its Instances are replaced when data it names changes."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import pytest

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.apiserver.storage.protocol import PlaneStore, StoreEvent, Table
from datum_compute.client.protocol import merge
from datum_compute.decisions.references import parse_hashes
from tests.support.federation.data import (
    KEYS,
    SETTINGS,
    config_map,
    create_sources,
    deploy,
    named,
    redeploy,
    secret,
    secret_value,
    until_running,
)
from tests.support.federation.stage import CITIES, NAMESPACE, Stage, stage
from tests.support.objects import condition, until

SETTLED = 120
"""Seconds after which a cell counts as reachable for long enough, and a roll of three Instances
is over."""


class InstancesOf:
    """The uids of the Instances that each cell has run, by cell and name, in order."""

    def __init__(self, on: Stage) -> None:
        self.uids: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._on = on
        on.platform.store.subscribe(self._changed)

    def _changed(self, plane: PlaneStore, table: Table, event: StoreEvent) -> None:
        if plane.name.startswith("cell/") and table.resource.startswith("instances."):
            found = Object.from_wire(bytes(event.after.raw))
            uids = self.uids[plane.name, found.name]
            if found.metadata.uid not in uids and condition(found, "Ready")[0] == "True":
                uids.append(found.metadata.uid)

    def counts(self, name: str) -> list[int]:
        return [len(uids) for (_, each), uids in self.uids.items() if each.startswith(f"{name}-")]


async def change_secret(on: Stage, token: str) -> None:
    await on.project.patch(
        core.SECRETS, KEYS, merge({"data": secret(token=token)["data"]}), NAMESPACE
    )


async def test_a_changed_source_replaces_every_instance_once_and_no_others() -> None:
    async with stage() as on:
        seen = InstancesOf(on)
        await create_sources(on)
        await deploy(on, named(rolls=True, minimum=3))
        await deploy(on, named("api"))
        await asyncio.sleep(SETTLED)
        assert seen.counts("web") == [1] * 6

        await change_secret(on, "newer")
        await asyncio.sleep(SETTLED)
        assert seen.counts("web") == [2] * 6
        assert seen.counts("api") == [1] * 2
        # The content is the same: nothing rolls.
        note = merge({"metadata": {"labels": {"team": "web"}}})
        await on.project.patch(core.SECRETS, KEYS, note, NAMESPACE)
        await on.restart("compute-management")
        await asyncio.sleep(SETTLED)
        assert seen.counts("web") == [2] * 6


async def test_to_ask_for_it_and_to_name_less_data_roll_once() -> None:
    async with stage(cities=("DFW",)) as on:
        seen = InstancesOf(on)
        await create_sources(on)
        await deploy(on, named(cities=("DFW",)))
        await asyncio.sleep(SETTLED)
        await redeploy(on, named(cities=("DFW",), rolls=True))
        await asyncio.sleep(SETTLED)
        assert seen.counts("web") == [2]
        await redeploy(on, named(cities=("DFW",), rolls=True, settings=""))
        await asyncio.sleep(SETTLED)
        assert seen.counts("web") == [3]


async def test_a_deleted_source_rolls_nothing_until_it_is_created_again() -> None:
    async with stage(cities=("DFW",)) as on:
        seen = InstancesOf(on)
        await create_sources(on)
        await deploy(on, named(cities=("DFW",), rolls=True))
        await asyncio.sleep(SETTLED)
        await on.project.delete(core.SECRETS, KEYS, NAMESPACE)
        await on.project.patch(
            core.CONFIG_MAPS, SETTINGS, merge({"metadata": {"labels": {"a": "b"}}}), NAMESPACE
        )
        await asyncio.sleep(SETTLED)
        assert seen.counts("web") == [1]
        await on.project.create(core.SECRETS, secret(token="again"), NAMESPACE)
        await asyncio.sleep(SETTLED)
        assert seen.counts("web") == [2]


@pytest.mark.parametrize(
    "point", ["referenced-data.before-companions", "referenced-data.before-annotations"]
)
async def test_management_that_crashes_between_copy_and_roll_rolls_once(point: str) -> None:
    async with stage(cities=("DFW",)) as on:
        seen = InstancesOf(on)
        await create_sources(on)
        await deploy(on, named(cities=("DFW",), rolls=True))
        await asyncio.sleep(SETTLED)
        passed: list[str] = []

        def stop_once() -> None:
            if not passed:
                passed.append(point)
                on.stop("compute-management")

        on.env.on_fault(point, stop_once)
        await change_secret(on, "newer")
        await asyncio.sleep(5)
        assert passed
        await on.start("compute-management")
        await asyncio.sleep(SETTLED)
        assert seen.counts("web") == [2]
        copy = await on.cell().get(core.SECRETS, KEYS, on.hub_namespace)
        assert secret_value(copy) == "newer"


async def test_a_cell_that_is_cut_off_rolls_when_it_is_back_and_with_the_new_data() -> None:
    async with stage() as on:
        seen = InstancesOf(on)
        await create_sources(on)
        await deploy(on, named(rolls=True))
        for city in CITIES:
            await until_running(on, city)
        within = {"compute-cell-dfw", "provider-dfw", "cell/dfw", "standin-network"}
        beyond = {"root", "hub", "project/demo", *(set(on.parts) - within)}
        cut = on.network.partition(within, beyond, silent=False)
        await change_secret(on, "newer")
        await asyncio.sleep(120)
        assert sorted(seen.counts("web")) == [1, 2]
        on.network.heal(cut)
        await until(
            on.cell(),
            compute.INSTANCES,
            "web-default-dfw-0",
            on.hub_namespace,
            lambda one: one.metadata.uid != seen.uids["cell/dfw", "web-default-dfw-0"][0],
            within=300,
        )
        copy = await on.cell().get(core.SECRETS, KEYS, on.hub_namespace)
        assert secret_value(copy) == "newer"


async def test_what_is_recorded_of_equal_secrets_differs() -> None:
    """So that nobody who may read deployments can try values until one fits."""
    async with stage(cities=("DFW",)) as on:
        await create_sources(on)
        await on.project.create(core.SECRETS, secret("twin"), NAMESPACE)
        body = named(cities=("DFW",), rolls=True)
        [container] = body["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"]
        container["envFrom"] = [{"secretRef": {"name": "twin"}}]
        await deploy(on, body)
        await until_running(on, "DFW")
        shown = await on.project.get(compute.WORKLOAD_DEPLOYMENTS, "web-default-dfw", NAMESPACE)
        hashes = parse_hashes(shown.metadata.annotations[compute.ANNOTATION_DELIVERED_DATA])
        assert hashes is not None
        assert set(hashes) == {"ConfigMap/settings", "Secret/keys", "Secret/twin"}
        assert len(set(hashes.values())) == 3


async def test_an_optional_source_that_is_created_rolls_what_started_without_it() -> None:
    async with stage(cities=("DFW",)) as on:
        seen = InstancesOf(on)
        await create_sources(on)
        await deploy(on, named(cities=("DFW",), optional="extra", rolls=True))
        await asyncio.sleep(SETTLED)
        await on.project.create(core.CONFIG_MAPS, config_map("extra"), NAMESPACE)
        await asyncio.sleep(SETTLED)
        assert seen.counts("web") == [2]
