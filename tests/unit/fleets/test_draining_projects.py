"""A cell disengages a project when the project holds no more claims of the cell."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from datum_compute.api import planes
from datum_compute.api.compute.v1alpha import LABEL_SOURCE_CLUSTER, WORKLOAD_DEPLOYMENTS
from datum_compute.api.quota.v1alpha1 import RESOURCE_CLAIMS
from datum_compute.client.client import ApiClient
from datum_compute.client.in_process import InProcessTransport
from datum_compute.client.protocol import Client
from datum_compute.client.transport import Handler, HttpRequest, HttpResponse
from datum_compute.fleets.cell_projects import CellProjectFleet
from datum_compute.fleets.draining_projects import DRAIN_SECONDS, REFUSED
from datum_compute.fleets.single import SingleFleet
from datum_compute.testing.server import EmbeddedServer, embedded_server
from tests.support.client.intercepted_transport import (
    CUT,
    InterceptedTransport,
    Rule,
    delay,
    forbid,
)
from tests.support.runtime.fleets import create_deployment, create_namespace, has, names, running

HOUR = 3600.0
CELL = "cell/dfw"


class Connection:
    """The connection of a cell to the projects, whose requests are counted by project. Whatever
    a project is called, plane ``a`` answers."""

    def __init__(self, embedded: EmbeddedServer) -> None:
        self.embedded = embedded
        self.checks: Counter[str] = Counter()
        transport = InProcessTransport(embedded.server.handle)
        self._transport = InterceptedTransport(transport, [Rule(self._count)])
        self.rules = self._transport.rules

    def client_for(self, project: str) -> Client:
        return ApiClient(
            self._transport,
            cluster=project,
            prefix=planes.plane_prefix("project/a"),
            token=self.embedded.token(),
            user_agent=project,
        )

    async def _count(self, request: HttpRequest, forward: Handler) -> HttpResponse:
        self.checks[request.headers["user-agent"]] += 1
        return await forward(request)

    @property
    def project(self) -> Client:
        return self.embedded.client("project/a")

    async def claim(self, name: str = "instance-web-0", source: str = "dfw") -> None:
        body = {
            "metadata": {"name": name, "labels": {LABEL_SOURCE_CLUSTER: source}},
            "spec": {
                "consumerRef": {"kind": "Project", "name": "a"},
                "resourceRef": {"kind": "Project", "name": "a"},
                "requests": [{"resourceType": "compute.datumapis.com/instances", "amount": 1}],
            },
        }
        await self.project.create(RESOURCE_CLAIMS, body, "default")

    async def give_up(self, name: str = "instance-web-0") -> None:
        await self.project.delete(RESOURCE_CLAIMS, name, "default")


@asynccontextmanager
async def _cell(*projects: str) -> AsyncIterator[tuple[Connection, CellProjectFleet, Client]]:
    """A cell with an empty namespace of each of these projects, whose manager does not run."""
    async with embedded_server(projects=["a"]) as embedded:
        line = Connection(embedded)
        cell = SingleFleet("cell", "single", embedded.client(CELL), embedded.env)
        fleet = CellProjectFleet("tenants", cell, line.client_for, embedded.env, cluster_name="dfw")
        client = embedded.client(CELL)
        for project in projects:
            await create_namespace(client, f"ns-{project}", project)
        yield line, fleet, client


REFUSED_READS = forbid("GET")


async def test_a_cell_without_claims_checks_each_project_twice_and_engages_none() -> None:
    """At once, and when no request of an earlier process can be in flight any more."""
    many = [f"p{number}" for number in range(100)]
    async with _cell(*many) as (line, fleet, _), running(*fleet.sources, fleet):
        await asyncio.sleep(1)
        assert line.checks == dict.fromkeys(many, 1)
        assert names(fleet) == []
        await asyncio.sleep(HOUR)
        assert line.checks == dict.fromkeys(many, 2)
        assert names(fleet) == []


async def test_a_project_is_engaged_until_it_holds_no_claim_of_the_cell() -> None:
    async with _cell("a", "b") as (line, fleet, _):
        await line.claim()
        async with running(*fleet.sources, fleet):
            await has(fleet, "a", "b")
            await asyncio.sleep(HOUR)
            assert names(fleet) == ["a", "b"]

            await line.give_up()

            await has(fleet)


async def test_claims_of_another_cell_are_ignored() -> None:
    async with _cell("a") as (line, fleet, _):
        await line.claim(source="lhr")
        async with running(*fleet.sources, fleet):
            await asyncio.sleep(DRAIN_SECONDS + 1)
            assert names(fleet) == []
            assert line.checks == {"a": 2}


async def test_a_claim_that_arrives_late_is_found() -> None:
    """The manager before had sent it and was killed."""
    async with _cell("a") as (line, fleet, _), running(*fleet.sources, fleet):
        await asyncio.sleep(DRAIN_SECONDS - 5)
        assert names(fleet) == []

        await line.claim()

        await has(fleet, "a")


async def test_an_unreachable_project_is_retried_until_it_answers() -> None:
    async with _cell("a") as (line, fleet, _):
        await line.claim()
        line.rules.append(CUT)
        async with running(*fleet.sources, fleet):
            await asyncio.sleep(24 * HOUR)
            assert names(fleet) == []

            line.rules.remove(CUT)

            await asyncio.sleep(31)
            assert names(fleet) == ["a"]


async def test_many_unreachable_projects_are_retried_in_turn() -> None:
    """All of them share one connection, and checking more often finds nothing more."""
    many = [f"p{number}" for number in range(300)]
    async with _cell(*many) as (line, fleet, _):
        line.rules.append(CUT)
        async with running(*fleet.sources, fleet):
            await asyncio.sleep(10 * 60)
            before = dict(line.checks)
            assert set(before) == set(many), "none is left out"
            assert sum(before.values()) <= 10 * 10 * 60

            line.rules.remove(CUT)
            await asyncio.sleep(60)
            assert all(line.checks[name] > before[name] for name in many)


async def test_a_silent_project_does_not_delay_the_others() -> None:
    async with _cell("a", "b", "c") as (line, fleet, _):
        await line.claim()
        line.rules.append(Rule(CUT.action, lambda request: request.headers["user-agent"] == "a"))
        async with running(*fleet.sources, fleet):
            await asyncio.sleep(5)
            assert names(fleet) == ["b", "c"]


async def test_a_project_that_refuses_is_retried_at_long_intervals() -> None:
    async with _cell("a") as (line, fleet, _):
        line.rules.append(REFUSED_READS)
        async with running(*fleet.sources, fleet):
            await asyncio.sleep(24 * HOUR)
            assert 24 * HOUR / REFUSED.cap_seconds / 2 < line.checks["a"] < 600

            await line.claim()
            line.rules.remove(REFUSED_READS)

            await asyncio.sleep(REFUSED.cap_seconds + 1)
            assert names(fleet) == ["a"]


async def test_a_deleted_project_has_nothing_to_release() -> None:
    async with embedded_server(projects=["a"]) as embedded:
        cell = SingleFleet("cell", "single", embedded.client(CELL), embedded.env)
        checks: list[str] = []

        def client_for(project: str) -> Client:
            checks.append(project)
            return embedded.client("project/of-no-such-name")

        fleet = CellProjectFleet("tenants", cell, client_for, embedded.env, cluster_name="dfw")
        await create_namespace(embedded.client(CELL), "ns-gone", "gone")
        async with running(*fleet.sources, fleet):
            await asyncio.sleep(HOUR)
            assert names(fleet) == []
            assert checks == ["gone", "gone"]


async def test_an_invalid_credential_does_not_end_the_fleet() -> None:
    async with _cell("a") as (line, fleet, _):
        bad = [True]

        def client_for(project: str) -> Client:
            if bad[0]:
                raise ValueError("no such context")
            return line.client_for(project)

        fleet = CellProjectFleet(
            "tenants", fleet.sources[0], client_for, line.embedded.env, cluster_name="dfw"
        )
        await line.claim()
        async with running(*fleet.sources, fleet):
            await asyncio.sleep(60)
            bad[0] = False
            await asyncio.sleep(120)
            assert names(fleet) == ["a"]


@pytest.mark.parametrize(
    "rules", [[], [CUT], [REFUSED_READS]], ids=["answers", "unreachable", "refuses"]
)
async def test_a_deployment_that_arrives_meanwhile_ends_the_draining(
    rules: list[Rule],
) -> None:
    async with _cell("a") as (line, fleet, cell_client):
        line.rules += rules
        async with running(*fleet.sources, fleet):
            await asyncio.sleep(20)
            await create_deployment(cell_client, "ns-a", "web-default-dfw")
            await has(fleet, "a")
            engaged, before = fleet.get("a"), line.checks["a"]
            await asyncio.sleep(HOUR)
            assert fleet.get("a") is engaged
            assert line.checks["a"] == before, "no drain, so no check"


async def test_a_deployment_created_during_the_check_invalidates_its_result() -> None:
    async with _cell("a") as (line, fleet, cell_client):
        line.rules.append(Rule(delay(3.0)))
        async with running(*fleet.sources, fleet):
            await asyncio.sleep(DRAIN_SECONDS + 4)
            assert line.checks == {"a": 2}, "the second check is under way"
            await create_deployment(cell_client, "ns-a", "web-default-dfw")
            await has(fleet, "a")
            engaged = fleet.get("a")
            await asyncio.sleep(HOUR)
            assert fleet.get("a") is engaged

            await cell_client.delete(WORKLOAD_DEPLOYMENTS, "web-default-dfw", "ns-a")
            await has(fleet)


async def test_an_unreachable_project_is_disengaged_once_it_has_answered() -> None:
    async with _cell("a") as (line, fleet, cell_client):
        await create_deployment(cell_client, "ns-a", "web-default-dfw")
        async with running(*fleet.sources, fleet):
            await has(fleet, "a")
            line.rules.append(CUT)
            await cell_client.delete(WORKLOAD_DEPLOYMENTS, "web-default-dfw", "ns-a")
            await asyncio.sleep(24 * HOUR)
            assert names(fleet) == ["a"]

            line.rules.remove(CUT)
            await asyncio.sleep(31)
            assert names(fleet) == []
