"""Wanted clusters are engaged, each under its identity."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from datum_compute.client.protocol import Client
from datum_compute.fleets.engagement import ChangedNames, sync_engagements
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.tasks import TaskGroup
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.runtime.fake_plane import FakePlane
from tests.support.runtime.fleets import names, running


class WantedFleet(Fleet):
    """Wants the names in ``identities``, each with an identity."""

    def __init__(self, client_for: Callable[[str], Client] = FakePlane) -> None:
        super().__init__("wanted", SimulatedEnvironment())
        self.identities: dict[str, str] = {}
        self.changes = ChangedNames()
        self._client_for = client_for

    async def discover(self, tasks: TaskGroup) -> None:
        await sync_engagements(
            self, self.changes, lambda name, _: self.identities.get(name, ""), self._client_for
        )

    async def want(self, name: str, identity: str) -> None:
        self.identities[name] = identity
        self.changes.note(name)
        await asyncio.sleep(0.1)


async def test_a_cluster_with_a_new_identity_is_engaged_again() -> None:
    fleet = WantedFleet()
    async with running(fleet):
        await fleet.want("a", "first")
        first = fleet.get("a")
        await fleet.want("a", "first")
        assert fleet.get("a") is first

        await fleet.want("a", "second")

        assert fleet.get("a") is not None
        assert fleet.get("a") is not first


async def test_an_unwanted_cluster_is_disengaged() -> None:
    fleet = WantedFleet()
    async with running(fleet):
        await fleet.want("a", "x")
        await fleet.want("b", "y")
        await fleet.want("a", "")

        assert names(fleet) == ["b"]


async def test_a_client_is_requested_again_with_backoff_and_not_when_unwanted() -> None:
    calls: list[float] = []

    def client_for(name: str) -> Client:
        calls.append(asyncio.get_running_loop().time())
        raise RuntimeError("no such credential")

    fleet = WantedFleet(client_for)
    async with running(fleet):
        await fleet.want("a", "x")
        await asyncio.sleep(600)
        assert 20 < len(calls) < 100
        assert names(fleet) == []

        await fleet.want("a", "")
        before = len(calls)
        await asyncio.sleep(600)

        assert len(calls) == before
