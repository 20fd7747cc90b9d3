"""Project planes follow the Project objects of the root plane."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from datum_compute.api.core import NAMESPACES
from datum_compute.api.resourcemanager.v1alpha1 import PROJECTS
from datum_compute.client.protocol import Client, merge
from datum_compute.fleets.projects import ProjectFleet
from datum_compute.runtime.tasks import stop_tasks
from datum_compute.testing.server import EmbeddedServer, embedded_server
from tests.support.runtime.fleets import has, names, running


def _fleet(
    embedded: EmbeddedServer, client_for: Callable[[str], Client] | None = None
) -> ProjectFleet:
    def project_client(project: str) -> Client:
        return embedded.client(f"project/{project}")

    root_client = embedded.client("root")
    return ProjectFleet("projects", root_client, client_for or project_client, embedded.env)


async def _report_ready(root_client: Client, project: str, status: str) -> None:
    condition = {
        "type": "Ready",
        "status": status,
        "reason": "Test",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    body = merge({"status": {"conditions": [condition]}})
    await root_client.patch(PROJECTS, project, body, subresource="status")


async def test_a_project_is_engaged_when_it_is_ready_and_until_it_is_deleted() -> None:
    async with embedded_server(projects=["a", "b"]) as embedded:
        root_client = embedded.client("root")
        fleet = _fleet(embedded)
        async with running(fleet):
            assert names(fleet) == []

            await _report_ready(root_client, "a", "True")
            await has(fleet, "a")

            await _report_ready(root_client, "b", "True")
            await has(fleet, "a", "b")

            await root_client.delete(PROJECTS, "a")
            await has(fleet, "b")


async def test_a_project_that_stops_being_ready_stays_engaged() -> None:
    async with embedded_server(projects=["a"]) as embedded:
        await _report_ready(embedded.client("root"), "a", "True")
        fleet = _fleet(embedded)
        async with running(fleet):
            engaged = fleet.get("a")

            await _report_ready(embedded.client("root"), "a", "False")
            await asyncio.sleep(10)

            assert fleet.get("a") is engaged is not None


async def test_existing_projects_are_engaged_before_the_fleet_is_discovered() -> None:
    async with embedded_server(projects=["a", "b", "c"]) as embedded:
        for project in ("a", "c"):
            await _report_ready(embedded.client("root"), project, "True")
        fleet = _fleet(embedded)

        async with running(fleet):
            assert names(fleet) == ["a", "c"]


async def test_the_client_of_a_cluster_reaches_that_project() -> None:
    async with embedded_server(projects=["a", "b"]) as embedded:
        for project in ("a", "b"):
            await _report_ready(embedded.client("root"), project, "True")
        fleet = _fleet(embedded)
        async with running(fleet):
            cluster = fleet.get("b")
            assert cluster is not None
            await cluster.client.create(NAMESPACES, {"metadata": {"name": "mine"}})

        in_a = await embedded.client("project/a").list(NAMESPACES)
        in_b = await embedded.client("project/b").list(NAMESPACES)
        assert "mine" not in [namespace.name for namespace in in_a.items]
        assert "mine" in [namespace.name for namespace in in_b.items]


async def test_a_recreated_project_is_engaged_as_a_new_cluster() -> None:
    async with embedded_server(projects=["a"]) as embedded:
        root_client = embedded.client("root")
        await _report_ready(root_client, "a", "True")
        fleet = _fleet(embedded)
        async with running(fleet):
            first = fleet.get("a")
            await root_client.delete(PROJECTS, "a")
            await embedded.create_project("a")
            await asyncio.sleep(10)
            assert names(fleet) == []

            await _report_ready(root_client, "a", "True")
            await has(fleet, "a")

            assert fleet.get("a") is not first


async def test_a_stopped_fleet_has_disengaged_everything() -> None:
    async with embedded_server(projects=["a"]) as embedded:
        await _report_ready(embedded.client("root"), "a", "True")
        fleet = _fleet(embedded)
        gone: list[str] = []
        fleet.listen(lambda cluster: None, lambda cluster: gone.append(cluster.name))
        task = asyncio.get_running_loop().create_task(fleet.run())
        await fleet.wait_discovered()

        await stop_tasks([task])

        assert gone == ["a"]
        assert names(fleet) == []
        assert not fleet.discovered


async def test_a_project_without_a_client_is_reported_once_and_delays_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with embedded_server(projects=["a", "b"]) as embedded:
        refusals = 3

        def client_for(project: str) -> Client:
            nonlocal refusals
            if project == "a" and refusals:
                refusals -= 1
                raise ValueError("the credential of a cannot be read")
            return embedded.client(f"project/{project}")

        for project in ("a", "b"):
            await _report_ready(embedded.client("root"), project, "True")
        fleet = _fleet(embedded, client_for)
        with caplog.at_level(logging.ERROR, "datum_compute.fleets"):
            async with running(fleet):
                assert names(fleet) == ["b"]

                await has(fleet, "a", "b")

        assert [record.message for record in caplog.records] == [
            "cannot create a client for a cluster"
        ]
