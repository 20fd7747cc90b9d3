"""Deployments that race for a companion, late watches, and cells that are cut off."""

from __future__ import annotations

import asyncio
import json

import pytest

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import merge
from tests.support.federation.data import (
    KEYS,
    create_sources,
    deploy,
    named,
    secret,
    secret_value,
    until_running,
)
from tests.support.federation.stage import CITIES, NAMESPACE, stage
from tests.support.objects import exists, until, until_gone

NAMES = ("web", "api", "job")


@pytest.mark.parametrize("late", [(), ("secrets", "configmaps"), ("workloaddeployments",)], ids=str)
async def test_deployments_that_race_for_a_companion_are_all_counted(late: tuple[str, ...]) -> None:
    async with stage() as on:
        for plural in late:
            on.network.lags["compute-management", plural] = 8.0
        await create_sources(on)
        await asyncio.gather(*(deploy(on, named(name)) for name in NAMES))
        for city in CITIES:
            for name in NAMES:
                await until_running(on, city, name=name)
        wanted = sorted(
            f"default/{name}-default-{city.lower()}" for name in NAMES for city in CITIES
        )
        await until(
            on.hub,
            core.SECRETS,
            KEYS,
            on.hub_namespace,
            lambda one: (
                json.loads(one.metadata.annotations[compute.ANNOTATION_REFERENCED_BY]) == wanted
            ),
        )
        # The last two leave while another one comes.
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        await on.project.delete(compute.WORKLOADS, "api", NAMESPACE)
        await on.project.delete(compute.WORKLOADS, "job", NAMESPACE)
        await deploy(on, named("new", cities=("DFW",)))
        for name in NAMES:
            await until_gone(on.project, compute.WORKLOADS, name, NAMESPACE, within=180)
        await until_running(on, "DFW", name="new")
        await asyncio.sleep(30)
        companion = await on.hub.get(core.SECRETS, KEYS, on.hub_namespace)
        users = json.loads(companion.metadata.annotations[compute.ANNOTATION_REFERENCED_BY])
        assert users == ["default/new-default-dfw"]
        assert await exists(on.cell("DFW"), core.SECRETS, KEYS, on.hub_namespace)
        assert not await exists(on.cell("LHR"), core.SECRETS, KEYS, on.hub_namespace)


async def test_a_deployment_removed_by_force_leaves_no_companion() -> None:
    async with stage(cities=("DFW",)) as on:
        await create_sources(on)
        await deploy(on, named(cities=("DFW",)))
        await until_running(on, "DFW")
        on.stop("compute-management")
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        for resource, name in (
            (compute.WORKLOAD_DEPLOYMENTS, "web-default-dfw"),
            (compute.WORKLOADS, "web"),
        ):
            body = merge({"metadata": {"finalizers": None}})
            await on.project.patch(resource, name, body, NAMESPACE)
        await until_gone(on.project, compute.WORKLOAD_DEPLOYMENTS, "web-default-dfw", NAMESPACE)
        await on.start("compute-management")
        await until_gone(on.hub, core.SECRETS, KEYS, on.hub_namespace)
        await until_gone(on.cell(), core.SECRETS, KEYS, on.hub_namespace)


async def test_a_companion_without_users_is_deleted_when_no_deployment_names_it() -> None:
    async with stage(cities=("DFW",)) as on:
        await create_sources(on)
        await deploy(on, named(cities=("DFW",)))
        await until_running(on, "DFW")
        labels = {compute.LABEL_REFERENCED_DATA: "true"}
        body = {"metadata": {"name": "stray", "labels": labels}}
        await on.hub.create(core.CONFIG_MAPS, body, on.hub_namespace)
        await until_gone(on.hub, core.CONFIG_MAPS, "stray", on.hub_namespace)


async def test_an_object_of_others_on_the_hub_is_not_replaced() -> None:
    async with stage(cities=("DFW",)) as on:
        await deploy(on, named(keys="", settings="", cities=("DFW",)))
        await until_running(on, "DFW")
        theirs = {"metadata": {"name": KEYS}, "data": {"token": "b3RoZXI="}}
        await on.hub.create(core.SECRETS, theirs, on.hub_namespace)
        await create_sources(on)
        await deploy(on, named("api", cities=("DFW",)))
        shown = await until(
            on.project,
            compute.WORKLOAD_DEPLOYMENTS,
            "api-default-dfw",
            NAMESPACE,
            lambda one: compute.ANNOTATION_REFERENCED_DATA_ERROR in one.metadata.annotations,
        )
        error = json.loads(shown.metadata.annotations[compute.ANNOTATION_REFERENCED_DATA_ERROR])
        assert error == {
            "reason": compute.REASON_SOURCE_UNAUTHORIZED,
            "message": 'the hub has another Secret "keys", which is not replaced',
        }
        kept = await on.hub.get(core.SECRETS, KEYS, on.hub_namespace)
        assert secret_value(kept) == "other"
        await on.hub.delete(core.SECRETS, KEYS, on.hub_namespace)
        await until_running(on, "DFW", name="api")


async def test_a_secret_created_again_with_another_type_arrives_with_it() -> None:
    async with stage(cities=("DFW",)) as on:
        await create_sources(on)
        await deploy(on, named(cities=("DFW",)))
        await until_running(on, "DFW")
        await on.project.delete(core.SECRETS, KEYS, NAMESPACE)
        await on.project.create(core.SECRETS, {**secret(), "type": "example.com/keys"}, NAMESPACE)
        await until(
            on.cell(),
            core.SECRETS,
            KEYS,
            on.hub_namespace,
            lambda one: bytes(one.extra["type"]) == b'"example.com/keys"',
        )


async def test_a_cell_that_is_cut_off_while_a_source_changes_gets_it_when_it_is_back() -> None:
    async with stage() as on:
        await create_sources(on)
        await deploy(on, named())
        before = [(await until_running(on, city)).metadata.uid for city in CITIES]
        within = {"compute-cell-dfw", "provider-dfw", "cell/dfw", "standin-network"}
        beyond = {"root", "hub", "project/demo", *(set(on.parts) - within)}
        cut = on.network.partition(within, beyond, silent=False)
        changed = secret(token="newer")["data"]
        await on.project.patch(core.SECRETS, KEYS, merge({"data": changed}), NAMESPACE)
        await asyncio.sleep(120)
        for city, value in (("DFW", "s3cr3t-planted-value"), ("LHR", "newer")):
            copy = await on.cell(city).get(core.SECRETS, KEYS, on.hub_namespace)
            assert secret_value(copy) == value
        on.network.heal(cut)
        await until(
            on.cell(),
            core.SECRETS,
            KEYS,
            on.hub_namespace,
            lambda one: secret_value(one) == "newer",
            within=180,
        )
        assert [(await until_running(on, city)).metadata.uid for city in CITIES] == before
