"""ConfigMaps and Secrets that a workload names reach every city that runs it, and leave with it."""

from __future__ import annotations

import asyncio
import base64

import pytest
import yaml

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.scheme import Resource
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import values
from tests.support.decisions.samples import sample_objects
from tests.support.federation.crash_scenarios import HOME, at_home
from tests.support.federation.data import (
    KEYS,
    PLANTED,
    READY,
    SETTINGS,
    config_map,
    create_sources,
    deploy,
    named,
    redeploy,
    secret,
    secret_value,
    until_deployment,
    until_running,
)
from tests.support.federation.stage import CITIES, NAMESPACE, SINGLE_CLUSTER, stage
from tests.support.objects import condition, exists, find, message, until, until_gone
from tests.support.paths import ROOT


async def test_two_workloads_in_two_cities_share_their_data_until_the_last_is_deleted() -> None:
    async with stage() as on:
        await create_sources(on)
        for name in ("web", "api"):
            await deploy(on, named(name))
        for city in CITIES:
            for name in ("web", "api"):
                instance = await until_running(on, city, name=name)
                assert condition(instance, compute.CONDITION_REFERENCED_DATA_READY) == READY
            copy = await on.cell(city).get(core.SECRETS, KEYS, on.hub_namespace)
            assert secret_value(copy) == PLANTED
            settings = await on.cell(city).get(core.CONFIG_MAPS, SETTINGS, on.hub_namespace)
            assert values(settings.data) == {"colour": "blue"}
        companion = await on.hub.get(core.SECRETS, KEYS, on.hub_namespace)
        assert companion.metadata.labels == {compute.LABEL_REFERENCED_DATA: "true"}
        users = companion.metadata.annotations[compute.ANNOTATION_REFERENCED_BY]
        assert users == (
            '["default/api-default-dfw","default/api-default-lhr",'
            '"default/web-default-dfw","default/web-default-lhr"]'
        )

        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        await until_gone(on.project, compute.WORKLOADS, "web", NAMESPACE)
        assert await exists(on.cell(), core.SECRETS, KEYS, on.hub_namespace)
        await on.project.delete(compute.WORKLOADS, "api", NAMESPACE)
        await until_gone(on.project, compute.WORKLOADS, "api", NAMESPACE)
        for resource, name in ((core.SECRETS, KEYS), (core.CONFIG_MAPS, SETTINGS)):
            await until_gone(on.hub, resource, name, on.hub_namespace)
            for city in CITIES:
                await until_gone(on.cell(city), resource, name, on.hub_namespace)
            assert await exists(on.project, resource, name, NAMESPACE)


async def test_a_changed_source_is_changed_in_every_city_and_nothing_restarts() -> None:
    async with stage() as on:
        await create_sources(on)
        await deploy(on, named())
        before = [(await until_running(on, city)).metadata.uid for city in CITIES]
        body = merge({"data": {"token": base64.b64encode(b"newer").decode()}})
        await on.project.patch(core.SECRETS, KEYS, body, NAMESPACE)
        for city in CITIES:
            await until(
                on.cell(city),
                core.SECRETS,
                KEYS,
                on.hub_namespace,
                lambda one: secret_value(one) == "newer",
            )
        assert [(await until_running(on, city)).metadata.uid for city in CITIES] == before


async def test_instances_wait_for_a_missing_source_and_start_when_it_is_created() -> None:
    async with stage() as on:
        await on.project.create(core.CONFIG_MAPS, config_map(), NAMESPACE)
        await deploy(on, named())
        shown = await until_deployment(on, compute.REASON_SOURCE_NOT_FOUND)
        assert 'Secret "keys" not found' in message(shown, compute.CONDITION_REFERENCED_DATA_READY)
        for type_ in (compute.CONDITION_AVAILABLE, compute.CONDITION_REPLICAS_READY):
            assert condition(shown, type_) == ("False", compute.REASON_SOURCE_NOT_FOUND)
        for client, where in ((on.cell(), on.hub_namespace), (on.project, NAMESPACE)):
            await until(
                client,
                compute.INSTANCES,
                "web-default-dfw-0",
                where,
                lambda one: condition(one, "Ready") == ("False", compute.REASON_SOURCE_NOT_FOUND),
            )
        workload = await until(
            on.project,
            compute.WORKLOADS,
            "web",
            NAMESPACE,
            lambda one: condition(one, "Available")[1] == compute.REASON_SOURCE_NOT_FOUND,
        )
        assert 'Secret "keys"' in message(workload, "Available")

        await on.project.create(core.SECRETS, secret(), NAMESPACE)
        for city in CITIES:
            await until_running(on, city)
        await until_deployment(on, compute.REASON_DATA_READY)


async def test_instances_that_waited_for_an_hour_start_within_seconds_of_the_arrival() -> None:
    async with stage() as on:
        await on.project.create(core.CONFIG_MAPS, config_map(), NAMESPACE)
        await deploy(on, named())
        await until_deployment(on, compute.REASON_SOURCE_NOT_FOUND)
        await asyncio.sleep(3600)
        await on.project.create(core.SECRETS, secret(), NAMESPACE)
        await asyncio.sleep(5)

        for city in CITIES:
            name = f"web-default-{city.lower()}-0"
            found = await on.cell(city).get(compute.INSTANCES, name, on.hub_namespace)
            assert condition(found, "Ready")[0] == "True"


async def test_a_source_that_is_deleted_in_use_stays_with_what_runs_and_holds_what_is_new() -> None:
    async with stage() as on:
        await create_sources(on)
        await deploy(on, named())
        running = [(await until_running(on, city)).metadata.uid for city in CITIES]
        await on.project.delete(core.SECRETS, KEYS, NAMESPACE)
        await until_deployment(on, compute.REASON_SOURCE_NOT_FOUND)
        await redeploy(on, named(image="acme/web:2"))
        await asyncio.sleep(120)
        # The roll is held back, and the data is still there for an Instance that restarts.
        assert [(await until_running(on, city)).metadata.uid for city in CITIES] == running
        for city in CITIES:
            assert await exists(on.cell(city), core.SECRETS, KEYS, on.hub_namespace)

        await on.project.create(core.SECRETS, secret(token="again"), NAMESPACE)
        for city in CITIES:
            await until_running(on, city, image="acme/web:2")
            copy = await on.cell(city).get(core.SECRETS, KEYS, on.hub_namespace)
            assert secret_value(copy) == "again"


async def test_an_optional_source_may_be_missing_and_is_delivered_when_it_is_created() -> None:
    async with stage() as on:
        await create_sources(on)
        await deploy(on, named(optional="extra"))
        await until_running(on, "DFW")
        await on.project.create(core.CONFIG_MAPS, config_map("extra"), NAMESPACE)
        await until(on.cell(), core.CONFIG_MAPS, "extra", on.hub_namespace, lambda _: True)


async def test_a_source_that_is_too_large_is_reported_and_delivered_when_it_is_smaller() -> None:
    async with stage(cities=("DFW",)) as on:
        await on.project.create(core.SECRETS, secret(), NAMESPACE)
        large = config_map(text="x" * (256 * 1024))
        await on.project.create(core.CONFIG_MAPS, large, NAMESPACE)
        await deploy(on, named(cities=("DFW",)))
        shown = await until_deployment(on, compute.REASON_SOURCE_TOO_LARGE)
        said = message(shown, compute.CONDITION_REFERENCED_DATA_READY)
        assert said == 'ConfigMap "settings" holds 257 KiB, and at most 256 KiB are delivered'
        assert not await exists(on.hub, core.CONFIG_MAPS, SETTINGS, on.hub_namespace)
        await on.project.patch(
            core.CONFIG_MAPS, SETTINGS, merge({"data": {"text": "y"}}), NAMESPACE
        )
        await until_running(on, "DFW")


async def test_data_of_the_older_template_stays_until_no_instance_of_it_runs() -> None:
    async with stage(cities=("DFW",)) as on:
        await create_sources(on)
        await deploy(on, named(minimum=3, cities=("DFW",)))
        await until_running(on, "DFW")
        await asyncio.sleep(60)
        seen: list[tuple[int, bool]] = []
        await redeploy(on, named(image="acme/web:2", keys="", minimum=3, cities=("DFW",)))
        for _ in range(400):
            await asyncio.sleep(0.05)
            instances = (await on.cell().list(compute.INSTANCES, on.hub_namespace)).items
            old = sum(b"acme/web:1" in bytes(each.spec) for each in instances)
            has_data = await exists(on.cell(), core.SECRETS, KEYS, on.hub_namespace)
            seen.append((old, has_data))
        assert all(has_data for old, has_data in seen if old)
        await until_gone(on.cell(), core.SECRETS, KEYS, on.hub_namespace)
        assert await exists(on.cell(), core.CONFIG_MAPS, SETTINGS, on.hub_namespace)


async def test_a_deployment_that_stops_naming_data_gets_back_to_costing_nothing() -> None:
    async with stage(cities=("DFW",)) as on:
        await create_sources(on)
        await deploy(on, named(cities=("DFW",)))
        await until_running(on, "DFW")
        await redeploy(on, named(image="acme/web:2", keys="", settings="", cities=("DFW",)))
        await until_running(on, "DFW", image="acme/web:2")
        shown = await until(
            on.project,
            compute.WORKLOAD_DEPLOYMENTS,
            "web-default-dfw",
            NAMESPACE,
            lambda one: compute.FINALIZER_REFERENCED_DATA not in one.metadata.finalizers,
        )
        assert compute.ANNOTATION_EXPECTED_REFERENCED_DATA not in shown.metadata.annotations
        for resource, name in ((core.SECRETS, KEYS), (core.CONFIG_MAPS, SETTINGS)):
            assert await find(on.hub, resource, name, on.hub_namespace) is None
            await until_gone(on.cell(), resource, name, on.hub_namespace)
        hub_copy = await until(
            on.hub,
            compute.WORKLOAD_DEPLOYMENTS,
            "web-default-dfw",
            on.hub_namespace,
            lambda one: compute.ANNOTATION_EXPECTED_REFERENCED_DATA not in one.metadata.annotations,
        )
        assert condition(hub_copy, compute.CONDITION_REFERENCED_DATA_READY) == ("", "")


async def test_a_key_that_an_instance_needs_and_the_object_lacks_is_named() -> None:
    async with stage(cities=("DFW",)) as on:
        await on.project.create(core.CONFIG_MAPS, config_map(), NAMESPACE)
        body = {"metadata": {"name": KEYS}, "data": {"other": "eA=="}}
        await on.project.create(core.SECRETS, body, NAMESPACE)
        await deploy(on, named(cities=("DFW",)))
        instance = await until(
            on.cell(),
            compute.INSTANCES,
            "web-default-dfw-0",
            on.hub_namespace,
            lambda one: condition(one, "Ready")[1] == compute.REASON_CONFIGURATION_ERROR,
        )
        assert message(instance, "Ready") == "Secret \"keys\" has no key 'token' for variable TOKEN"
        await on.project.patch(core.SECRETS, KEYS, merge({"data": secret()["data"]}), NAMESPACE)
        await until_running(on, "DFW")


async def test_the_sample_with_configuration_and_secrets_runs_when_its_objects_are_there() -> None:
    body = yaml.safe_load((ROOT / "samples/config-and-secret.yaml").read_text())
    objects = sample_objects()
    async with stage(cities=("DFW",)) as on:
        await deploy(on, body)
        await until_deployment(on, compute.REASON_SOURCE_NOT_FOUND, name="ledger")
        for resource, created in objects:
            await on.project.create(resource, created, NAMESPACE)
        await until_running(on, "DFW", name="ledger")


async def test_on_a_single_cluster_instances_use_the_objects_of_their_own_namespace() -> None:
    """There is nothing to wait for: the provider says what is missing, and tries again."""
    async with stage(mode=SINGLE_CLUSTER) as on:
        await at_home(on)
        cell, name = on.cell(), "web-default-dfw-0"
        await cell.create(core.CONFIG_MAPS, config_map(), HOME)
        body = named(cities=("DFW",))
        body["metadata"]["namespace"] = HOME
        await cell.create(compute.WORKLOADS, body, HOME)
        reason = compute.REASON_CONFIGURATION_ERROR
        found = await until(
            cell, compute.INSTANCES, name, HOME, lambda one: condition(one, "Ready")[1] == reason
        )
        assert message(found, "Ready") == 'no Secret "keys" for variable TOKEN'
        await cell.create(core.SECRETS, secret(), HOME)
        await until(
            cell, compute.INSTANCES, name, HOME, lambda one: condition(one, "Ready")[0] == "True"
        )


@pytest.mark.parametrize("resource", [core.CONFIG_MAPS, core.SECRETS], ids=lambda each: each.kind)
async def test_a_companion_changed_on_the_hub_is_put_back(resource: Resource) -> None:
    name = SETTINGS if resource is core.CONFIG_MAPS else KEYS
    async with stage(cities=("DFW",)) as on:
        await create_sources(on)
        await deploy(on, named(cities=("DFW",)))
        await until_running(on, "DFW")
        wanted = await on.hub.get(resource, name, on.hub_namespace)
        for change in (
            {"data": {"other": "eA=="}},
            {"metadata": {"labels": {compute.LABEL_REFERENCED_DATA: None}}},
            {"metadata": {"annotations": {compute.ANNOTATION_REFERENCED_BY: None}}},
        ):
            await on.hub.patch(resource, name, merge(change), on.hub_namespace)
            await until(
                on.hub,
                resource,
                name,
                on.hub_namespace,
                lambda one: (
                    values(one.data) == values(wanted.data)
                    and one.metadata.labels == wanted.metadata.labels
                    and one.metadata.annotations == wanted.metadata.annotations
                ),
            )
