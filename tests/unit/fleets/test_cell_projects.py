"""A cell engages the projects that have work in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from datum_compute.api.compute.v1alpha import LABEL_UPSTREAM_CLUSTER_NAME, WORKLOAD_DEPLOYMENTS
from datum_compute.api.core import NAMESPACES
from datum_compute.client.protocol import Client, merge
from datum_compute.fleets.cell_projects import CellProjectFleet
from datum_compute.fleets.draining_projects import DRAIN_SECONDS
from datum_compute.fleets.single import SingleFleet
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.request import Request
from datum_compute.runtime.watches.mapping import itself
from datum_compute.testing.server import EmbeddedServer, embedded_server
from tests.support.runtime.fleets import create_deployment, create_namespace, has, names, running


def _fleet(embedded: EmbeddedServer) -> CellProjectFleet:
    def client_for(project: str) -> Client:
        return embedded.client(f"project/{project}")

    cell = SingleFleet("cell", "single", embedded.client("cell/dfw"), embedded.env)
    return CellProjectFleet("tenants", cell, client_for, embedded.env, cluster_name="dfw")


@asynccontextmanager
async def _following() -> AsyncIterator[tuple[Client, CellProjectFleet]]:
    async with embedded_server(projects=["a", "b"]) as embedded:
        fleet = _fleet(embedded)
        async with running(*fleet.sources, fleet):
            yield embedded.client("cell/dfw"), fleet


async def test_a_namespace_counts_while_it_holds_a_deployment() -> None:
    async with _following() as (cell_client, fleet):
        await create_namespace(cell_client, "ns-1", "a")
        await asyncio.sleep(5)
        assert names(fleet) == []

        await create_deployment(cell_client, "ns-1", "web-default-dfw")
        await create_deployment(cell_client, "ns-1", "api-default-dfw")
        await has(fleet, "a")

        await cell_client.delete(WORKLOAD_DEPLOYMENTS, "web-default-dfw", "ns-1")
        await asyncio.sleep(5)
        assert names(fleet) == ["a"]

        await cell_client.delete(WORKLOAD_DEPLOYMENTS, "api-default-dfw", "ns-1")
        await has(fleet)


async def test_a_project_stays_engaged_while_any_of_its_namespaces_has_a_deployment() -> None:
    async with _following() as (cell_client, fleet):
        for namespace, project in (("ns-1", "a"), ("ns-2", "a"), ("ns-3", "b")):
            await create_namespace(cell_client, namespace, project)
            await create_deployment(cell_client, namespace, "web-default-dfw")
        await has(fleet, "a", "b")

        await cell_client.delete(WORKLOAD_DEPLOYMENTS, "web-default-dfw", "ns-1")
        await cell_client.delete(WORKLOAD_DEPLOYMENTS, "web-default-dfw", "ns-3")

        await has(fleet, "a")


async def test_a_project_without_work_stays_engaged_until_no_request_can_be_in_flight() -> None:
    async with _following() as (cell_client, fleet):
        await create_namespace(cell_client, "ns-1", "a")
        await create_deployment(cell_client, "ns-1", "web-default-dfw")
        await has(fleet, "a")
        engaged = fleet.get("a")

        await cell_client.delete(WORKLOAD_DEPLOYMENTS, "web-default-dfw", "ns-1")
        await asyncio.sleep(DRAIN_SECONDS - 1)
        assert fleet.get("a") is engaged

        await create_deployment(cell_client, "ns-1", "web-default-dfw")
        await asyncio.sleep(DRAIN_SECONDS + 1)
        assert fleet.get("a") is engaged

        await cell_client.delete(WORKLOAD_DEPLOYMENTS, "web-default-dfw", "ns-1")
        await asyncio.sleep(DRAIN_SECONDS + 1)
        assert names(fleet) == []


async def test_a_namespace_without_a_project_is_ignored() -> None:
    async with _following() as (cell_client, fleet):
        await create_deployment(cell_client, "default", "web-default-dfw")
        await asyncio.sleep(5)
        assert names(fleet) == []

        labels = {LABEL_UPSTREAM_CLUSTER_NAME: "cluster-b"}
        await cell_client.patch(NAMESPACES, "default", merge({"metadata": {"labels": labels}}))

        await has(fleet, "b")


async def test_a_manager_runs_the_fleets_that_a_fleet_reads() -> None:
    async with embedded_server(projects=["a"]) as embedded:
        fleet = _fleet(embedded)
        manager = Manager("quota", embedded.env)

        async def nothing(request: Request) -> None: ...

        watches = [Watch(fleet, NAMESPACES, itself)]
        manager.add(Controller("idle", fleet, nothing, watches=watches))

        assert [fleet.name for fleet in manager.fleets()] == ["cell", "tenants"]
