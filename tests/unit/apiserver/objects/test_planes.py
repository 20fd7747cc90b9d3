"""Isolation of planes, changes of definitions, projects and their planes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from datum_compute.api.core import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.api.scheme import Resource
from datum_compute.apiserver.storage.sqlite.store import LogStore
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.server import embedded_server
from tests.support.apiserver.widgets import WIDGET_CRD, WIDGETS, Caller, widget_server

CRDS = CUSTOM_RESOURCE_DEFINITIONS


def gadget_crd(**changes: Any) -> dict[str, Any]:
    spec = {
        **WIDGET_CRD["spec"],
        "group": "gadgets.example",
        "names": {"kind": "Gadget", "plural": "gadgets"},
        **changes,
    }
    return {**WIDGET_CRD, "metadata": {"name": "gadgets.gadgets.example"}, "spec": spec}


GADGETS = Resource("gadgets.example", "v1", "gadgets", "Gadget")


async def _names(client: ApiClient, resource: Resource) -> list[str]:
    return [item.name for item in (await client.list(resource)).items]


async def test_planes_are_isolated_from_each_other() -> None:
    async with widget_server() as caller:
        hub = caller.embedded.client("hub")
        await hub.create(CONFIG_MAPS, {"metadata": {"name": "one"}}, "default")

        assert await _names(caller.client, CONFIG_MAPS) == []
        assert await _names(hub, CONFIG_MAPS) == ["one"]


async def test_a_write_on_one_plane_does_not_change_the_revision_of_another() -> None:
    async with widget_server() as caller:
        hub = caller.embedded.client("hub")
        before = (await hub.list(CONFIG_MAPS)).resource_version

        await caller.create("one")

        assert (await hub.list(CONFIG_MAPS)).resource_version == before


@pytest.mark.parametrize("plane", ["cell/nowhere", "project/unknown"])
async def test_an_unknown_plane_is_a_404(plane: str) -> None:
    async with widget_server() as caller:
        lost = Caller(caller.embedded, plane)

        answer = await lost.send("GET", "/api/v1/namespaces")

        assert (answer.status, answer.body) == (404, b"404 page not found\n")


async def test_a_kind_is_served_once_its_definition_is_created() -> None:
    async with widget_server() as caller:
        client = caller.client

        defined = await client.create(CRDS, gadget_crd())
        await client.create(GADGETS, {"metadata": {"name": "one"}, "spec": {}}, "default")

        assert b'"Established"' in bytes(defined.status)
        assert b'"NamesAccepted"' in bytes(defined.status)
        with pytest.raises(errors.NotServed):
            await caller.embedded.client("hub").list(GADGETS)


@pytest.mark.parametrize(
    ("names", "reason", "taken"),
    [
        ({"kind": "Gadget", "listKind": "ToolList"}, "KindConflict", "Gadget"),
        # Without a list kind of its own it wants that of the kind, and the last conflict counts.
        ({"kind": "Gadget"}, "ListKindConflict", "GadgetList"),
        ({"kind": "Tool", "listKind": "GadgetList"}, "ListKindConflict", "GadgetList"),
        ({"kind": "Tool", "singular": "gadgets"}, "SingularConflict", "gadgets"),
        ({"kind": "Tool", "shortNames": ["t", "gd"]}, "ShortNamesConflict", "gd"),
    ],
)
async def test_a_definition_with_a_name_of_another_is_served_when_that_one_is_gone(
    names: dict[str, Any], reason: str, taken: str
) -> None:
    tools = Resource("gadgets.example", "v1", "tools", names["kind"])
    later = gadget_crd(names={"plural": "tools", **names})
    later["metadata"] = {"name": "tools.gadgets.example"}
    held = {"kind": "Gadget", "listKind": "GadgetList", "plural": "gadgets", "shortNames": ["gd"]}
    first = gadget_crd(names=held)
    async with widget_server() as caller:
        client = caller.client
        await client.create(CRDS, first)

        refused = values((await client.create(CRDS, later)).status)
        assert [
            (each["type"], each["status"], each["reason"], each["message"])
            for each in refused["conditions"]
        ] == [
            ("NamesAccepted", "False", reason, f'"{taken}" is already in use'),
            ("Established", "False", "NotAccepted", "not all names are accepted"),
        ]
        with pytest.raises(errors.NotServed):
            await client.list(tools)
        await client.list(GADGETS)

        await client.delete(CRDS, "gadgets.gadgets.example")
        await asyncio.sleep(1)
        accepted = values((await client.get(CRDS, "tools.gadgets.example")).status)
        assert [(each["status"], each["reason"]) for each in accepted["conditions"]] == [
            ("True", "NoConflicts"),
            ("True", "InitialNamesAccepted"),
        ]
        kind = names["kind"]
        implied = {"singular": kind.lower(), "listKind": f"{kind}List"}
        assert accepted["acceptedNames"] == implied | later["spec"]["names"]
        assert (await client.list(tools)).items == []


async def test_the_same_names_in_another_group_are_accepted() -> None:
    other = gadget_crd(group="other.example")
    other["metadata"] = {"name": "gadgets.other.example"}
    async with widget_server() as caller:
        await caller.client.create(CRDS, gadget_crd())
        await caller.client.create(CRDS, other)

        assert (await caller.client.list(GADGETS)).items == []
        again = Resource("other.example", "v1", "gadgets", "Gadget")
        assert (await caller.client.list(again)).items == []


async def test_a_changed_definition_applies_to_the_next_write() -> None:
    async with widget_server() as caller:
        client = caller.client
        await client.create(CRDS, gadget_crd())
        held = await client.get(CRDS, "gadgets.gadgets.example")
        strict = gadget_crd()["spec"]["versions"][0]
        spec = {"type": "object", "properties": {"size": {"type": "integer", "maximum": 3}}}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        version = {**strict, "schema": schema}

        await client.update(
            CRDS,
            {
                **gadget_crd(versions=[version]),
                "metadata": {
                    "name": held.name,
                    "resourceVersion": held.metadata.resource_version,
                },
            },
        )

        with pytest.raises(errors.Invalid):
            await client.create(
                GADGETS, {"metadata": {"name": "one"}, "spec": {"size": 4}}, "default"
            )


async def test_a_definition_that_cannot_be_served_is_refused() -> None:
    async with widget_server() as caller:
        with pytest.raises(errors.Invalid):
            await caller.client.create(CRDS, gadget_crd(scope="Galactic"))

        with pytest.raises(errors.NotServed):
            await caller.client.list(GADGETS)


async def test_deleting_a_definition_deletes_its_objects_and_then_the_kind() -> None:
    async with widget_server() as caller:
        client = caller.client
        await client.create(CRDS, gadget_crd())
        body = {"metadata": {"name": "one", "finalizers": ["example.com/hold"]}, "spec": {}}
        await client.create(GADGETS, body, "default")
        await client.create(GADGETS, {"metadata": {"name": "two"}, "spec": {}}, "default")

        await client.delete(CRDS, "gadgets.gadgets.example")
        await asyncio.sleep(1)
        held = await _names(client, GADGETS)
        with pytest.raises(errors.Unsupported):
            await client.create(GADGETS, {"metadata": {"name": "three"}, "spec": {}}, "default")
        one = (await client.list(GADGETS)).items[0]
        await client.update(GADGETS, _without_finalizers(one.name, one.metadata.resource_version))
        await asyncio.sleep(1)

        assert held == ["one"]
        assert "gadgets.gadgets.example" not in await _names(client, CRDS)
        with pytest.raises(errors.NotServed):
            await client.list(GADGETS)


def _without_finalizers(name: str, revision: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "resourceVersion": revision}
    return {"metadata": metadata, "spec": {}}


async def test_a_project_has_a_plane_for_as_long_as_it_exists() -> None:
    async with embedded_server(cells=(), projects=()) as embedded:
        root, project = embedded.client("root"), embedded.client("project/acme")
        with pytest.raises(errors.NotServed):
            await project.list(NAMESPACES)

        await embedded.create_project("acme")
        made = await _names(project, NAMESPACES)
        await project.create(CONFIG_MAPS, {"metadata": {"name": "one"}}, "default")
        revision = int((await project.list(CONFIG_MAPS)).resource_version)
        await root.delete(resourcemanager.PROJECTS, "acme")
        with pytest.raises(errors.NotServed):
            await project.list(NAMESPACES)
        await embedded.create_project("acme")

        assert made == ["default", "milo-system"]
        again = await project.list(CONFIG_MAPS)
        assert again.items == []
        assert int(again.resource_version) > revision


async def test_planes_and_projects_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with embedded_server(path=path, cells=("dfw",)) as embedded:
        client = embedded.client("project/demo")
        await client.create(CONFIG_MAPS, {"metadata": {"name": "one"}}, "default")
        await embedded.client("cell/dfw").create(CRDS, gadget_crd())

    async with embedded_server(path=path, cells=("dfw",)) as embedded:
        assert await _names(embedded.client("project/demo"), CONFIG_MAPS) == ["one"]
        assert await _names(embedded.client("cell/dfw"), GADGETS) == []


async def test_definitions_of_a_type_that_changed_reach_old_planes(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with embedded_server(
        path=path, crds_for=lambda _: [WIDGET_CRD], cells=("dfw",), projects=()
    ):
        pass

    async with embedded_server(
        path=path,
        crds_for=lambda _: [WIDGET_CRD, gadget_crd()],
        cells=("dfw",),
        projects=(),
    ) as embedded:
        client = embedded.client("cell/dfw")
        unchanged = await client.get(CRDS, "widgets.example.com")

        assert await _names(client, GADGETS) == []
        assert await _names(client, WIDGETS) == []
        assert unchanged.metadata.generation == 1


async def test_a_stored_plane_of_an_unknown_type_is_kept_and_not_served(tmp_path: Path) -> None:
    env = SimulatedEnvironment()
    path = tmp_path / "state.db"
    store = LogStore(env, str(path))
    store.open_plane("moon/tranquility")
    await store.wait_durable()
    store.close()

    async with embedded_server(env, path, cells=("dfw",), projects=()) as embedded:
        assert "moon/tranquility" in embedded.store.planes
        assert await _names(embedded.client("cell/dfw"), CRDS)
