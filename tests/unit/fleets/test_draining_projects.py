"""A cell leaves a project when the project has said that it holds nothing of the cell's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from datum_compute.api import planes
from datum_compute.api.compute.v1alpha import LABEL_SOURCE_CLUSTER, WORKLOAD_DEPLOYMENTS
from datum_compute.api.quota.v1alpha1 import RESOURCE_CLAIMS
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.in_process import InProcessTransport
from datum_compute.client.protocol import Client
from datum_compute.client.transport import HttpRequest, HttpResponse
from datum_compute.fleets.cell_projects import CellProjectFleet
from datum_compute.fleets.draining_projects import DRAIN_SECONDS, REFUSED
from datum_compute.fleets.single import SingleFleet
from datum_compute.testing.server import EmbeddedServer, embedded_server
from tests.support.runtime.fleets import create_deployment, create_namespace, has, names, running

HOUR = 3600.0
CELL = "cell/dfw"


@dataclass
class Lines:
    """The lines of a cell to the projects: what is sent there is counted, and may not arrive.
    Whatever a project is called, plane ``a`` answers, or none."""

    embedded: EmbeddedServer
    asked: dict[str, int] = field(default_factory=dict)
    trouble: Callable[[str], None] = lambda project: None
    """Raises for a project that is not to be had."""
    slow: float = 0.0
    """Seconds that an answer takes."""

    def client_for(self, project: str) -> Client:
        plane = "project/a"
        return ApiClient(
            _Line(self, project, InProcessTransport(self.embedded.server.handle)),
            cluster=project,
            prefix=planes.plane_prefix(plane),
            token=self.embedded.token(),
            user_agent="test",
        )

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


@dataclass
class _Line:
    lines: Lines
    project: str
    transport: InProcessTransport

    async def send(self, request: HttpRequest, *, timeout: float | None = None) -> HttpResponse:
        self.lines.asked[self.project] = self.lines.asked.get(self.project, 0) + 1
        await asyncio.sleep(self.lines.slow)
        self.lines.trouble(self.project)
        return await self.transport.send(request, timeout=timeout)

    async def close(self) -> None:
        await self.transport.close()


@asynccontextmanager
async def _cell(*projects: str) -> AsyncIterator[tuple[Lines, CellProjectFleet, Client]]:
    """A cell with an empty namespace of each of these projects, whose manager does not run."""
    async with embedded_server(projects=["a"]) as embedded:
        lines = Lines(embedded)
        cell = SingleFleet("cell", "single", embedded.client(CELL), embedded.env)
        tenants = CellProjectFleet(
            "tenants", cell, lines.client_for, embedded.env, cluster_name="dfw"
        )
        client = embedded.client(CELL)
        for project in projects:
            await create_namespace(client, f"ns-{project}", project)
        yield lines, tenants, client


def away(project: str) -> None:
    raise errors.ConnectFailed("the line is cut")


def refuses(project: str) -> None:
    raise errors.Forbidden(403, "Forbidden", "no")


async def test_a_cell_without_claims_asks_each_project_twice_and_engages_none() -> None:
    """At once, and when nothing of a life before can be under way any more."""
    many = [f"p{number}" for number in range(100)]
    async with _cell(*many) as (lines, tenants, _), running(*tenants.sources, tenants):
        await asyncio.sleep(1)
        assert lines.asked == dict.fromkeys(many, 1)
        assert names(tenants) == []
        await asyncio.sleep(HOUR)
        assert lines.asked == dict.fromkeys(many, 2)
        assert names(tenants) == []


async def test_a_project_that_holds_a_claim_of_ours_is_followed_until_it_does_not() -> None:
    async with _cell("a", "b") as (lines, tenants, _):
        await lines.claim()
        async with running(*tenants.sources, tenants):
            await has(tenants, "a", "b")
            await asyncio.sleep(HOUR)
            assert names(tenants) == ["a", "b"]

            await lines.give_up()

            await has(tenants)


async def test_claims_of_another_cell_are_ignored() -> None:
    async with _cell("a") as (lines, tenants, _):
        await lines.claim(source="lhr")
        async with running(*tenants.sources, tenants):
            await asyncio.sleep(DRAIN_SECONDS + 1)
            assert names(tenants) == []
            assert lines.asked == {"a": 2}


async def test_a_claim_that_arrives_late_is_found() -> None:
    """The manager before had sent it and was killed."""
    async with _cell("a") as (lines, tenants, _), running(*tenants.sources, tenants):
        await asyncio.sleep(DRAIN_SECONDS - 5)
        assert names(tenants) == []

        await lines.claim()

        await has(tenants, "a")


async def test_an_unreachable_project_is_retried_until_it_answers() -> None:
    async with _cell("a") as (lines, tenants, _):
        await lines.claim()
        lines.trouble = away
        async with running(*tenants.sources, tenants):
            await asyncio.sleep(24 * HOUR)
            assert names(tenants) == []

            lines.trouble = lambda project: None

            await asyncio.sleep(31)
            assert names(tenants) == ["a"]


async def test_many_unreachable_projects_are_retried_in_turn() -> None:
    """The line to all of them is one, and nobody hears more for being asked more often."""
    many = [f"p{number}" for number in range(300)]
    async with _cell(*many) as (lines, tenants, _):
        lines.trouble = away
        async with running(*tenants.sources, tenants):
            await asyncio.sleep(10 * 60)
            before = dict(lines.asked)
            assert set(before) == set(many), "nobody is left out"
            assert sum(before.values()) <= 10 * 10 * 60

            lines.trouble = lambda project: None
            await asyncio.sleep(60)
            assert all(lines.asked[name] > before[name] for name in many)


async def test_a_silent_project_does_not_delay_the_others() -> None:
    async with _cell("a", "b", "c") as (lines, tenants, _):
        await lines.claim()

        def trouble(project: str) -> None:
            if project == "a":
                away(project)

        lines.trouble = trouble
        async with running(*tenants.sources, tenants):
            await asyncio.sleep(5)
            assert names(tenants) == ["b", "c"]


async def test_a_project_that_refuses_is_retried_seldom() -> None:
    async with _cell("a") as (lines, tenants, _):
        lines.trouble = refuses
        async with running(*tenants.sources, tenants):
            await asyncio.sleep(24 * HOUR)
            assert 24 * HOUR / REFUSED.cap_seconds / 2 < lines.asked["a"] < 600

            await lines.claim()
            lines.trouble = lambda project: None

            await asyncio.sleep(REFUSED.cap_seconds + 1)
            assert names(tenants) == ["a"]


async def test_a_deleted_project_has_nothing_to_release() -> None:
    async with embedded_server(projects=["a"]) as embedded:
        cell = SingleFleet("cell", "single", embedded.client(CELL), embedded.env)
        asked: list[str] = []

        def client_for(project: str) -> Client:
            asked.append(project)
            return embedded.client("project/of-no-such-name")

        tenants = CellProjectFleet("tenants", cell, client_for, embedded.env, cluster_name="dfw")
        await create_namespace(embedded.client(CELL), "ns-gone", "gone")
        async with running(*tenants.sources, tenants):
            await asyncio.sleep(HOUR)
            assert names(tenants) == []
            assert asked == ["gone", "gone"]


async def test_a_bad_credential_ends_nothing() -> None:
    async with _cell("a") as (lines, tenants, _):
        bad = [True]

        def client_for(project: str) -> Client:
            if bad[0]:
                raise ValueError("no such context")
            return lines.client_for(project)

        tenants = CellProjectFleet(
            "tenants", tenants.sources[0], client_for, lines.embedded.env, cluster_name="dfw"
        )
        await lines.claim()
        async with running(*tenants.sources, tenants):
            await asyncio.sleep(60)
            bad[0] = False
            await asyncio.sleep(120)
            assert names(tenants) == ["a"]


@pytest.mark.parametrize("trouble", [None, away, refuses], ids=["answers", "away", "refuses"])
async def test_a_deployment_that_arrives_meanwhile_ends_the_draining(
    trouble: Callable[[str], None] | None,
) -> None:
    async with _cell("a") as (lines, tenants, cell_client):
        if trouble is not None:
            lines.trouble = trouble
        async with running(*tenants.sources, tenants):
            await asyncio.sleep(20)
            await create_deployment(cell_client, "ns-a", "web-default-dfw")
            await has(tenants, "a")
            engaged, before = tenants.get("a"), lines.asked["a"]
            await asyncio.sleep(HOUR)
            assert tenants.get("a") is engaged
            assert lines.asked["a"] == before, "nobody watches here, so nobody asks"


async def test_a_deployment_that_comes_while_the_project_is_asked_makes_the_answer_void() -> None:
    async with _cell("a") as (lines, tenants, cell_client):
        lines.slow = 3.0
        async with running(*tenants.sources, tenants):
            await asyncio.sleep(DRAIN_SECONDS + 4)
            assert lines.asked == {"a": 2}, "it is being asked for the second time"
            await create_deployment(cell_client, "ns-a", "web-default-dfw")
            await has(tenants, "a")
            engaged = tenants.get("a")
            await asyncio.sleep(HOUR)
            assert tenants.get("a") is engaged

            await cell_client.delete(WORKLOAD_DEPLOYMENTS, "web-default-dfw", "ns-a")
            await has(tenants)


async def test_an_unreachable_project_is_disengaged_once_it_has_answered() -> None:
    async with _cell("a") as (lines, tenants, cell_client):
        await create_deployment(cell_client, "ns-a", "web-default-dfw")
        async with running(*tenants.sources, tenants):
            await has(tenants, "a")
            lines.trouble = away
            await cell_client.delete(WORKLOAD_DEPLOYMENTS, "web-default-dfw", "ns-a")
            await asyncio.sleep(24 * HOUR)
            assert names(tenants) == ["a"]

            lines.trouble = lambda project: None
            await asyncio.sleep(31)
            assert names(tenants) == []
