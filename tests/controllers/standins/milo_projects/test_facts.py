"""Facts about Milo's projects that the stand-in reproduces, one per test.

The table in ``docs/develop/stand-in-facts.md`` lists which test keeps which fact.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from datum_compute.api import planes
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.core import CONFIG_MAPS, NAMESPACES
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.apiserver.request.admission import Admission
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.testing.server import embedded_server
from tests.support.objects import condition, exists, until, until_gone
from tests.support.standins.platform import (
    StandinPlatform,
    build,
    deployment,
    settle,
    standin_platform,
)
from tests.support.standins.projects import PROJECTS, projects

CLEANUP = "ResourceCleanup"
HELD: dict[str, Any] = {"metadata": {"finalizers": ["example.com/hold"]}}
RELEASED: dict[str, Any] = {"metadata": {"finalizers": []}}


async def ready(found: StandinPlatform, name: str = "demo") -> Object:
    return await until(
        found.root, PROJECTS, name, "", lambda one: condition(one, "Ready") == ("True", "Ready")
    )


def test_a_project_is_a_control_plane_below_its_own_path() -> None:
    base = "/apis/resourcemanager.miloapis.com/v1alpha1/projects/demo/control-plane"

    assert planes.split_plane(f"{base}/api/v1/namespaces") == (
        "project/demo",
        "/api/v1/namespaces",
    )
    assert planes.split_plane("/api/v1/namespaces")[0] == "root"


async def test_project_planes_are_isolated_from_each_other() -> None:
    async with projects() as found:
        await found.embedded.create_project("second")
        await ready(found, "second")
        second = found.embedded.client("project/second")
        note = build(CONFIG_MAPS, "note", "default")
        await found.project.create(CONFIG_MAPS, note, "default")

        assert not await exists(second, CONFIG_MAPS, "note", "default")
        one = await found.project.get(NAMESPACES, "default")
        other = await second.get(NAMESPACES, "default")
        assert one.metadata.uid != other.metadata.uid


async def test_reviews_name_the_project_in_which_a_user_acts() -> None:
    reviewed: list[dict[str, Any]] = []

    async def review(review: dict[str, Any]) -> dict[str, Any]:
        reviewed.append(review["request"]["userInfo"]["extra"])
        return {"response": {"uid": review["request"]["uid"], "allowed": True}}

    kinds = frozenset({CONFIG_MAPS.group_resource})
    async with embedded_server(admissions=[Admission("test", kinds, review, review)]) as embedded:
        note = build(CONFIG_MAPS, "note", "default")
        await embedded.client("project/demo").create(CONFIG_MAPS, note, "default")

    assert reviewed[0] == {
        "iam.miloapis.com/parent-api-group": ["resourcemanager.miloapis.com"],
        "iam.miloapis.com/parent-type": ["Project"],
        "iam.miloapis.com/parent-name": ["demo"],
    }


async def test_a_project_is_engaged_under_its_bare_name_once_it_is_ready() -> None:
    async with standin_platform() as found:
        fleet = found.project_fleet()
        task = asyncio.create_task(fleet.run())
        try:
            await settle()
            before = [cluster.name for cluster in fleet.clusters()]
            await found.set_project_ready()
            await settle()

            assert before == []
            assert [cluster.name for cluster in fleet.clusters()] == ["demo"]
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_project_stays_engaged_until_it_is_gone() -> None:
    async with standin_platform() as found:
        fleet = found.project_fleet()
        await found.set_project_ready()
        task = asyncio.create_task(fleet.run())
        try:
            await settle()
            unready: dict[str, Any] = {"status": {"conditions": []}}
            await found.root.patch(PROJECTS, "demo", merge(unready), subresource="status")
            await settle()
            kept = [cluster.name for cluster in fleet.clusters()]
            await found.root.delete(PROJECTS, "demo")
            await settle()

            assert kept == ["demo"]
            assert fleet.clusters() == []
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_ready_project_has_its_finalizer() -> None:
    async with projects() as found:
        project = await ready(found)

        assert project.metadata.finalizers == ("resourcemanager.miloapis.com/project-controller",)


async def test_every_project_has_its_namespaces_and_gets_them_back() -> None:
    async with projects() as found:
        await ready(found)
        with pytest.raises(errors.Forbidden):
            await found.project.delete(NAMESPACES, "default")
        await found.project.delete(NAMESPACES, "milo-system")
        await until_gone(found.project, NAMESPACES, "milo-system")
        await found.root.patch(PROJECTS, "demo", merge({"metadata": {"labels": {"look": "again"}}}))

        await until(found.project, NAMESPACES, "milo-system", "", lambda _: True)


async def test_deletion_purges_every_kind_of_object_first() -> None:
    async with projects() as found:
        await ready(found)
        made: list[tuple[Any, dict[str, Any], str]] = [
            (CONFIG_MAPS, build(CONFIG_MAPS, "note", "default"), "default"),
            (
                networking.LOCATIONS,
                build(networking.LOCATIONS, "dfw", spec={"topology": {}}),
                "",
            ),
            (
                compute.WORKLOAD_DEPLOYMENTS,
                deployment("app", "default", "DFW"),
                "default",
            ),
        ]
        for resource, body, namespace in made:
            await found.project.create(resource, body, namespace)
        await found.project.patch(CONFIG_MAPS, "note", merge(HELD), "default")
        await found.root.delete(PROJECTS, "demo")
        await until_gone(found.project, networking.LOCATIONS, "dfw")
        await until_gone(found.project, compute.WORKLOAD_DEPLOYMENTS, "app", "default")
        note = await until(
            found.project, CONFIG_MAPS, "note", "default", lambda one: one.metadata.deleting
        )

        assert note.metadata.finalizers == ("example.com/hold",)
        waiting = await found.root.get(PROJECTS, "demo")
        assert condition(waiting, CLEANUP) == ("False", "CleanupAwaitingCompletion")
        await found.project.patch(CONFIG_MAPS, "note", merge(RELEASED), "default")
        await until_gone(found.root, PROJECTS, "demo")


async def test_objects_created_during_the_purge_are_found_within_five_seconds() -> None:
    async with projects() as found:
        await ready(found)
        await found.project.create(CONFIG_MAPS, build(CONFIG_MAPS, "note", "default"), "default")
        await found.project.patch(CONFIG_MAPS, "note", merge(HELD), "default")
        await found.root.delete(PROJECTS, "demo")
        await settle()
        await found.project.create(CONFIG_MAPS, build(CONFIG_MAPS, "late", "default"), "default")

        await until_gone(found.project, CONFIG_MAPS, "late", "default", within=5.5)


async def test_the_cleanup_of_a_project_is_reported_from_start_to_end() -> None:
    async with projects() as found:
        await ready(found)
        await found.project.create(CONFIG_MAPS, build(CONFIG_MAPS, "note", "default"), "default")
        reported: list[str] = []
        revision = (await found.root.list(PROJECTS)).resource_version
        async with found.root.watch(PROJECTS, resource_version=revision) as events:
            await found.root.delete(PROJECTS, "demo")
            async for event in events:
                reported.append(condition(event.object, CLEANUP)[1])
                if event.type == "DELETED":
                    break

        changes = zip(reported, ["", *reported], strict=False)
        order = [reason for reason, before in changes if reason != before]
        assert order == ["CleanupStarted", "CleanupAwaitingCompletion", "CleanupComplete"]


async def test_the_plane_is_deleted_with_its_project() -> None:
    async with projects() as found:
        await ready(found)
        await found.root.delete(PROJECTS, "demo")
        await until_gone(found.root, PROJECTS, "demo")

        assert "project/demo" not in found.embedded.store.planes
        with pytest.raises(errors.NotServed):
            await found.project.list(NAMESPACES)


async def test_a_recreated_project_is_a_new_plane_with_later_revisions() -> None:
    async with projects() as found:
        await ready(found)
        note = build(CONFIG_MAPS, "note", "default")
        before = await found.project.create(CONFIG_MAPS, note, "default")
        home = await found.project.get(NAMESPACES, "default")
        await found.root.delete(PROJECTS, "demo")
        await until_gone(found.root, PROJECTS, "demo")
        await found.embedded.create_project("demo")
        await ready(found)

        assert not await exists(found.project, CONFIG_MAPS, "note", "default")
        again = await found.project.get(NAMESPACES, "default")
        assert again.metadata.uid != home.metadata.uid
        assert int(again.metadata.resource_version) > int(before.metadata.resource_version)
