"""What a template depends on follows it to its members.

Facts about Karmada that the stand-in reproduces, one per test. The table in
``docs/develop/stand-in-facts.md`` lists which test keeps which fact.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.core import CONFIG_MAPS, SECRETS
from datum_compute.api.meta import Object
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import values
from datum_compute.standins.karmada import karmada_controllers
from tests.support.objects import condition, exists, until, until_gone
from tests.support.standins.karmada import BINDINGS, NS, WDS
from tests.support.standins.platform import (
    StandinPlatform,
    create_cluster,
    create_interpreter,
    create_namespace,
    create_policy,
    deployment,
    running,
    settle,
    standin_platform,
    upstream_labels,
)

CITIES = {"app-dfw": "DFW", "app-lhr": "LHR"}
NAMED = ("ConfigMap/settings", "Secret/keys")
ATTACHED = {"ConfigMap/settings": "settings-configmap", "Secret/keys": "keys-secret"}


@asynccontextmanager
async def dependent(*, conflict_resolution: str = "Abort") -> AsyncIterator[StandinPlatform]:
    """Two deployments in two cities that depend on one ConfigMap and one Secret."""
    async with standin_platform() as found:
        await create_namespace(found.hub, NS, upstream_labels())
        await create_interpreter(found.hub)
        for city in CITIES.values():
            await create_cluster(found.hub, city.lower(), city)
            await create_policy(
                found.hub, NS, city, propagateDeps=True, conflictResolution=conflict_resolution
            )
        await found.hub.create(CONFIG_MAPS, config_map("blue"), NS)
        await found.hub.create(SECRETS, secret(), NS)
        for name, city in CITIES.items():
            body = deployment(name, NS, city)
            body["metadata"]["annotations"] |= expecting(*NAMED)
            await found.hub.create(WDS, body, NS)
        controllers = karmada_controllers(found.hub_fleet(), found.member_fleet(), found.env)
        async with running(found.env, controllers):
            yield found


def config_map(colour: str) -> dict[str, Any]:
    return {"metadata": {"name": "settings"}, "data": {"colour": colour}}


def secret() -> dict[str, Any]:
    return {"metadata": {"name": "keys"}, "type": "example.com/keys", "data": {"token": "aGk="}}


def expecting(*entries: str) -> dict[str, str]:
    return {compute.ANNOTATION_EXPECTED_REFERENCED_DATA: json.dumps(entries)}


async def expect(found: StandinPlatform, name: str, *entries: str) -> None:
    body = merge({"metadata": {"annotations": expecting(*entries)}})
    await found.hub.patch(WDS, name, body, NS)


async def arrived(found: StandinPlatform, cell: str) -> tuple[Object, Object]:
    client = found.cells[cell]
    settings = await until(client, CONFIG_MAPS, "settings", NS, lambda _: True)
    return settings, await until(client, SECRETS, "keys", NS, lambda _: True)


async def required_by(found: StandinPlatform, binding: str, *names: str) -> Object:
    """The binding once exactly these bindings require it."""
    wanted = [f"{name}-workloaddeployment" for name in names]
    return await until(
        found.hub,
        BINDINGS,
        binding,
        NS,
        lambda one: [each["name"] for each in values(one.spec).get("requiredBy", [])] == wanted,
    )


async def test_dependencies_reach_every_member_of_the_templates_that_name_them() -> None:
    async with dependent() as found:
        for cell in ("dfw", "lhr"):
            settings, keys = await arrived(found, cell)
            assert values(settings.data) == {"colour": "blue"}
            assert values(keys.data) == {"token": "aGk="}
            assert bytes(keys.extra["type"]) == b'"example.com/keys"'
            for each in (settings, keys):
                noted = each.metadata.annotations
                assert karmada.ANNOTATION_TEMPLATE_UID in noted
                assert karmada.ANNOTATION_TEMPLATE_GENERATION not in noted, "it has none"


async def test_a_dependency_has_a_binding_without_placement_that_names_who_requires_it() -> None:
    async with dependent() as found:
        for name in ATTACHED.values():
            attached = await required_by(found, name, *CITIES)
            await until(
                found.hub,
                BINDINGS,
                name,
                NS,
                lambda one: condition(one, karmada.CONDITION_FULLY_APPLIED)[0] == "True",
            )
            spec = values(attached.spec)
            assert "placement" not in spec
            assert "clusters" not in spec
            clusters = [[one["name"] for one in each["clusters"]] for each in spec["requiredBy"]]
            assert clusters == [["dfw"], ["lhr"]]
            status = attached.view(karmada.ResourceBinding).status
            assert karmada.CONDITION_SCHEDULED not in {each.type for each in status.conditions}
            prefix = karmada.LABEL_DEPENDED_BY_PREFIX
            marks = {
                value for key, value in attached.metadata.labels.items() if key.startswith(prefix)
            }
            dependents = [
                await found.hub.get(BINDINGS, f"{each}-workloaddeployment", NS) for each in CITIES
            ]
            assert marks == {each.metadata.labels[karmada.LABEL_BINDING_ID] for each in dependents}
            recorded = dependents[0].metadata.annotations[karmada.ANNOTATION_DEPENDENCIES]
            assert [each["kind"] for each in json.loads(recorded)] == ["ConfigMap", "Secret"]


async def test_a_changed_dependency_is_changed_in_every_member() -> None:
    async with dependent() as found:
        for cell in ("dfw", "lhr"):
            await arrived(found, cell)
        body = merge({"data": {"colour": None, "size": "2"}})
        await found.hub.patch(CONFIG_MAPS, "settings", body, NS)
        for cell in ("dfw", "lhr"):
            await until(
                found.cells[cell],
                CONFIG_MAPS,
                "settings",
                NS,
                lambda one: values(one.data) == {"size": "2"},
            )


async def test_a_dependency_that_is_created_after_it_was_named_arrives() -> None:
    async with dependent() as found:
        await expect(found, "app-dfw", "ConfigMap/later", *NAMED)
        await settle()
        await found.hub.create(CONFIG_MAPS, {"metadata": {"name": "later"}}, NS)

        await until(found.cells["dfw"], CONFIG_MAPS, "later", NS, lambda _: True)


async def test_a_dropped_dependency_goes_from_that_member_alone() -> None:
    async with dependent() as found:
        for cell in ("dfw", "lhr"):
            await arrived(found, cell)
        await expect(found, "app-dfw", "Secret/keys")

        await until_gone(found.cells["dfw"], CONFIG_MAPS, "settings", NS)
        await required_by(found, "settings-configmap", "app-lhr")
        assert await exists(found.cells["lhr"], CONFIG_MAPS, "settings", NS)
        assert await exists(found.cells["dfw"], SECRETS, "keys", NS)


async def test_the_last_template_that_is_deleted_empties_the_members_and_bindings_stay() -> None:
    async with dependent() as found:
        for cell in ("dfw", "lhr"):
            await arrived(found, cell)
        await found.hub.delete(WDS, "app-dfw", NS)
        await until_gone(found.cells["dfw"], SECRETS, "keys", NS)
        assert await exists(found.cells["lhr"], SECRETS, "keys", NS)

        await found.hub.delete(WDS, "app-lhr", NS)
        await until_gone(found.cells["lhr"], SECRETS, "keys", NS)
        await until_gone(found.cells["lhr"], CONFIG_MAPS, "settings", NS)
        for name in ATTACHED.values():
            attached = await required_by(found, name)
            assert condition(attached, karmada.CONDITION_FULLY_APPLIED)[0] == "False"
            assert not [
                each
                for each in attached.metadata.labels
                if each.startswith(karmada.LABEL_DEPENDED_BY_PREFIX)
            ]


async def test_a_deleted_dependency_takes_its_binding_and_the_members_objects_with_it() -> None:
    async with dependent() as found:
        await arrived(found, "dfw")
        await found.hub.delete(SECRETS, "keys", NS)

        await until_gone(found.hub, BINDINGS, "keys-secret", NS)
        await until_gone(found.cells["dfw"], SECRETS, "keys", NS)
        await found.hub.create(SECRETS, secret(), NS)
        await arrived(found, "dfw")


async def test_the_policy_of_the_dependent_says_what_happens_to_a_members_own_object() -> None:
    for resolution, colour in (("Abort", "own"), ("Overwrite", "blue")):
        async with dependent(conflict_resolution=resolution) as found:
            await arrived(found, "lhr")
            await found.hub.delete(CONFIG_MAPS, "settings", NS)
            await until_gone(found.cells["dfw"], CONFIG_MAPS, "settings", NS)
            await found.cells["dfw"].create(CONFIG_MAPS, config_map("own"), NS)
            await found.hub.create(CONFIG_MAPS, config_map("blue"), NS)
            await until(found.cells["lhr"], CONFIG_MAPS, "settings", NS, lambda _: True)
            await settle()
            own = await found.cells["dfw"].get(CONFIG_MAPS, "settings", NS)
            assert values(own.data) == {"colour": colour}
