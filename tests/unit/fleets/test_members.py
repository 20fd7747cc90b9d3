"""Member clusters follow the Karmada Cluster objects of the hub."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from datum_compute.api import karmada
from datum_compute.api.core import NAMESPACES
from datum_compute.client.protocol import Client, merge
from datum_compute.fleets.members import MemberFleet
from datum_compute.fleets.single import SingleFleet
from datum_compute.testing.loop import VirtualLoop
from datum_compute.testing.server import EmbeddedServer, embedded_server
from tests.support.runtime.fleets import has, names, running


def _fleet(
    embedded: EmbeddedServer, client_for: Callable[[str], Client] | None = None
) -> MemberFleet:
    def cell_client(name: str) -> Client:
        return embedded.client(f"cell/{name}")

    hub = SingleFleet("hub", "hub", embedded.client("hub"), embedded.env)
    return MemberFleet("members", hub, client_for or cell_client, embedded.env)


@asynccontextmanager
async def _following() -> AsyncIterator[tuple[Client, MemberFleet]]:
    async with embedded_server() as embedded:
        members = _fleet(embedded)
        async with running(*members.sources, members):
            yield embedded.client("hub"), members


async def _register(hub_client: Client, name: str, ready: str = "") -> None:
    await hub_client.create(
        karmada.CLUSTERS, {"metadata": {"name": name}, "spec": {"syncMode": "Push"}}
    )
    if ready:
        await _report_ready(hub_client, name, ready)


async def _report_ready(hub_client: Client, name: str, status: str) -> None:
    condition = {
        "type": "Ready",
        "status": status,
        "reason": "Test",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    body = merge({"status": {"conditions": [condition]}})
    await hub_client.patch(karmada.CLUSTERS, name, body, subresource="status")


async def test_a_member_is_engaged_when_it_is_ready_and_until_it_is_gone() -> None:
    async with _following() as (hub_client, members):
        await _register(hub_client, "dfw")
        await _register(hub_client, "lhr", "False")
        await asyncio.sleep(5)
        assert names(members) == []

        await _report_ready(hub_client, "dfw", "True")
        await has(members, "dfw")
        await _report_ready(hub_client, "lhr", "True")
        await has(members, "dfw", "lhr")

        await hub_client.delete(karmada.CLUSTERS, "dfw")
        await has(members, "lhr")


async def test_a_member_out_of_reach_keeps_what_is_known_of_it() -> None:
    async with _following() as (hub_client, members):
        await _register(hub_client, "dfw", "True")
        await has(members, "dfw")
        engaged = members.get("dfw")

        for status in ("False", "Unknown"):
            await _report_ready(hub_client, "dfw", status)
            await asyncio.sleep(10)

        assert members.get("dfw") is engaged is not None


async def test_a_member_made_anew_is_another_cluster() -> None:
    async with _following() as (hub_client, members):
        await _register(hub_client, "dfw", "True")
        await has(members, "dfw")
        first = members.get("dfw")

        await hub_client.delete(karmada.CLUSTERS, "dfw")
        await _register(hub_client, "dfw")
        await asyncio.sleep(10)
        assert names(members) == []
        await _report_ready(hub_client, "dfw", "True")
        await has(members, "dfw")

        assert members.get("dfw") is not first


async def test_those_that_are_there_are_engaged_before_it_counts_as_discovered() -> None:
    async with embedded_server() as embedded:
        for name in ("dfw", "lhr"):
            await _register(embedded.client("hub"), name, "True")
        members = _fleet(embedded)

        async with running(*members.sources, members):
            assert names(members) == ["dfw", "lhr"]


async def test_the_client_of_a_member_speaks_to_that_cell() -> None:
    async with embedded_server() as embedded:
        await _register(embedded.client("hub"), "lhr", "True")
        members = _fleet(embedded)
        async with running(*members.sources, members):
            cluster = members.get("lhr")
            assert cluster is not None
            await cluster.client.create(NAMESPACES, {"metadata": {"name": "mine"}})

        in_lhr = await embedded.client("cell/lhr").list(NAMESPACES)
        in_dfw = await embedded.client("cell/dfw").list(NAMESPACES)
        assert "mine" in [namespace.name for namespace in in_lhr.items]
        assert "mine" not in [namespace.name for namespace in in_dfw.items]


async def test_the_hub_is_watched_once_by_all_who_read_it() -> None:
    async with _following() as (_, members):
        (hub,) = members.sources[0].clusters()

        assert [str(cache.resource) for cache in hub.caches()] == ["clusters.cluster.karmada.io"]
        assert hub.cache(karmada.CLUSTERS) is hub.caches()[0]


async def test_members_stay_while_the_hub_is_engaged_anew_and_follow_it_then() -> None:
    async with embedded_server() as embedded:
        hub_client = embedded.client("hub")
        for name in ("dfw", "lhr"):
            await _register(hub_client, name, "True")
        members = _fleet(embedded)
        hub = members.sources[0]
        async with running(hub, members):
            engaged = members.get("dfw")
            await hub.disengage("hub")
            await hub_client.delete(karmada.CLUSTERS, "lhr")
            await asyncio.sleep(10)
            assert names(members) == ["dfw", "lhr"]

            hub.engage("hub", hub_client)
            await has(members, "dfw")

            assert members.get("dfw") is engaged


async def test_members_stay_when_the_hub_comes_back_without_an_answer_and_goes_again() -> None:
    async with embedded_server() as embedded:
        await _register(embedded.client("hub"), "dfw", "True")
        members = _fleet(embedded)
        hub = members.sources[0]
        async with running(hub, members):
            engaged = members.get("dfw")
            silent = embedded.client("hub")
            await silent.close()
            await hub.disengage("hub")
            hub.engage("hub", silent)
            await asyncio.sleep(10)
            await hub.disengage("hub")
            await asyncio.sleep(10)

            assert members.get("dfw") is engaged is not None


async def test_a_member_without_a_client_is_reported_once_and_delays_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with embedded_server() as embedded:
        refusals = 3

        def client_for(name: str) -> Client:
            nonlocal refusals
            if name == "dfw" and refusals:
                refusals -= 1
                raise ValueError("the credential of dfw cannot be read")
            return embedded.client(f"cell/{name}")

        for name in ("dfw", "lhr"):
            await _register(embedded.client("hub"), name, "True")
        members = _fleet(embedded, client_for)
        with caplog.at_level(logging.ERROR, "datum_compute.fleets"):
            async with running(*members.sources, members):
                assert names(members) == ["lhr"]

                await has(members, "dfw", "lhr")

        assert [record.message for record in caplog.records] == ["no client for a cluster"]


async def test_a_stopped_fleet_leaves_no_task() -> None:
    async with embedded_server() as embedded:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        before = [task.get_name() for task in loop.pending_tasks()]
        await _register(embedded.client("hub"), "dfw", "True")
        members = _fleet(embedded)
        async with running(*members.sources, members):
            cluster = members.get("dfw")
            assert cluster is not None
            await cluster.cache(NAMESPACES).wait_synced()

        assert [task.get_name() for task in loop.pending_tasks()] == before
        assert names(members) == []
