"""A cache stays equal to its collection, whatever the plane does meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from datum_compute.api.meta import Object, ObjectList
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.runtime.backoff import RECONNECT
from datum_compute.runtime.cache.cache import Cache, CacheState
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.runtime.blocks import engaged, eventually
from tests.support.runtime.fake_plane import WIDGETS, FakePlane


def _names(cache: Cache) -> list[str]:
    return [obj.name for obj in cache.list()]


def _report(cache: Cache) -> tuple[str, str]:
    return cache.state.value, cache.message


async def test_the_reflector_lists_in_pages_and_then_watches() -> None:
    plane = FakePlane()
    for number in range(1201):
        plane.put(f"w{number:04}")

    async with engaged(plane, SimulatedEnvironment()) as cluster:
        cache = cluster.cache(WIDGETS)
        await cache.wait_synced()
        assert len(cache) == 1201
        plane.put("x")
        plane.remove("w0000")
        await asyncio.sleep(1)

        assert _names(cache) == plane.names()
        assert plane.calls == ["list", "list", "list", "watch"]


async def test_one_cache_per_kind_and_selector() -> None:
    plane = FakePlane()
    plane.put("red", metadata={"labels": {"color": "red"}})
    plane.put("blue", metadata={"labels": {"color": "blue"}})

    async with engaged(plane, SimulatedEnvironment()) as cluster:
        red = cluster.cache(WIDGETS, label_selector="color=red")
        assert cluster.cache(WIDGETS, label_selector="color=red") is red
        assert cluster.cache(WIDGETS) is not red
        await red.wait_synced()

        assert _names(red) == ["red"]


async def test_an_expired_revision_causes_a_relist_that_keeps_the_cache() -> None:
    plane = FakePlane()
    plane.put("stays")
    plane.put("goes")
    env = SimulatedEnvironment()

    async with engaged(plane, env) as cluster:
        cache = cluster.cache(WIDGETS)
        await eventually(lambda: cache.state is CacheState.CURRENT, "a watch")
        lost: list[str] = []
        cache.subscribe(lambda old, new: lost.append(old.name) if old and not new else None)
        with plane.down():
            await asyncio.sleep(5)
            assert _names(cache) == ["goes", "stays"]
            plane.remove("goes")
            plane.put("comes")
            plane.forget_history()
        await eventually(lambda: _names(cache) == ["comes", "stays"], lambda: _names(cache))

        assert lost == ["goes"]


@pytest.mark.parametrize("seed", range(10))
async def test_an_expired_revision_after_an_outage_is_not_one_more_failure(seed: int) -> None:
    plane = FakePlane()
    async with engaged(plane, SimulatedEnvironment(seed=seed)) as cluster:
        cache = cluster.cache(WIDGETS)
        await eventually(lambda: cache.state is CacheState.CURRENT, "a watch")
        with plane.down():
            await asyncio.sleep(600)
            plane.put("comes")
            plane.forget_history()
        # Half a minute until it is tried again, and then at once.
        await asyncio.sleep(RECONNECT.cap_seconds + 1)

        assert _names(cache) == ["comes"]


async def test_a_watch_resumes_from_the_last_revision_after_an_outage() -> None:
    plane = FakePlane()
    plane.put("a")

    async with engaged(plane, SimulatedEnvironment()) as cluster:
        cache = cluster.cache(WIDGETS)
        await eventually(lambda: cache.state is CacheState.CURRENT, "a watch")
        with plane.down():
            await asyncio.sleep(600)
            assert _report(cache) == ("Interrupted", "the plane is down")
            assert _names(cache) == ["a"]
            attempts = len(plane.calls)
            assert attempts < 100
            plane.put("b")
        await eventually(lambda: _names(cache) == ["a", "b"], lambda: _names(cache))

        assert plane.calls.count("list") == 1
        assert _report(cache) == ("Current", "")


async def test_a_watch_that_breaks_every_few_seconds_is_reopened_at_once() -> None:
    """A watch that was open for a while is no failure, though nothing came through it."""
    plane = FakePlane()
    plane.put("a")

    async with engaged(plane, SimulatedEnvironment()) as cluster:
        cache = cluster.cache(WIDGETS)
        await eventually(lambda: cache.state is CacheState.CURRENT, "a watch")
        for _ in range(60):
            with plane.down():
                await asyncio.sleep(0.1)
            await asyncio.sleep(5)
            assert cache.state is CacheState.CURRENT
            await asyncio.sleep(4.9)


async def test_a_watch_that_breaks_at_once_is_reopened_with_backoff() -> None:
    plane = FakePlane()
    plane.put("a")

    async with engaged(plane, SimulatedEnvironment()) as cluster:
        cache = cluster.cache(WIDGETS)
        for _ in range(600):
            await asyncio.sleep(0.5)
            with plane.down():
                await asyncio.sleep(0)
        assert cache.synced
        assert len(plane.calls) < 120


async def test_a_kind_that_is_not_served_is_reported_and_waited_for() -> None:
    plane = FakePlane()
    plane.unserved.add("widgets")

    async with engaged(plane, SimulatedEnvironment()) as cluster:
        cache = cluster.cache(WIDGETS)
        await asyncio.sleep(300)
        assert cache.state is CacheState.NOT_SERVED
        assert not cache.synced
        assert "not served" in cache.message
        assert len(plane.calls) < 60

        plane.unserved.clear()
        plane.put("a")
        await cache.wait_synced()

        assert _names(cache) == ["a"]


async def test_the_cache_of_a_kind_that_is_no_longer_served_is_kept() -> None:
    plane = FakePlane()
    plane.put("a")

    async with engaged(plane, SimulatedEnvironment()) as cluster:
        cache = cluster.cache(WIDGETS)
        await cache.wait_synced()
        plane.unserved.add("widgets")
        await eventually(lambda: cache.state is CacheState.NOT_SERVED, "a report", within=1000)

        assert _names(cache) == ["a"]


async def test_a_quiet_day_costs_a_few_calls() -> None:
    plane = FakePlane()

    async with engaged(plane, SimulatedEnvironment()) as cluster:
        cache = cluster.cache(WIDGETS)
        await cache.wait_synced()
        await asyncio.sleep(24 * 3600)

        assert plane.calls.count("list") == 1
        assert plane.calls.count("watch") <= 24 * 3600 / 300 + 1
        plane.put("a")
        await asyncio.sleep(1)
        assert _names(cache) == ["a"]


async def test_stopping_a_cluster_closes_its_watches() -> None:
    plane = FakePlane()

    async with engaged(plane, SimulatedEnvironment()) as cluster:
        cache = cluster.cache(WIDGETS)
        await eventually(lambda: plane.open_watches == 1, "a watch")
        delivered: list[Object | None] = []
        cache.subscribe(lambda old, new: delivered.append(new))
        await cluster.stop()

        assert plane.open_watches == 0
        assert cache.state is CacheState.CLOSED
        plane.put("a")
        await asyncio.sleep(10)
        assert delivered == []


class ForgettingPlane(FakePlane):
    """Forgets the revision of a first page before the second is requested."""

    async def list(self, resource: Resource, namespace: str = "", **how: Any) -> ObjectList:
        if how.get("continue_token"):
            await self._called("list", resource)
            raise errors.Expired(410, "Expired", "the continue token is too old")
        return await super().list(resource, namespace, **how)


async def test_a_list_that_expires_between_pages_is_repeated_at_once() -> None:
    plane = ForgettingPlane()
    for number in range(501):
        plane.put(f"w{number:04}")

    async with engaged(plane, SimulatedEnvironment()) as cluster:
        cache = cluster.cache(WIDGETS)
        await cache.wait_synced()

        assert len(cache) == 501
        assert plane.calls[:3] == ["list", "list", "list"]


class ChangingPlane(FakePlane):
    """Changes an object of the first page before the second is answered."""

    async def list(self, resource: Resource, namespace: str = "", **how: Any) -> ObjectList:
        if how.get("continue_token"):
            self.put("w0000", spec={"changed": True})
        return await super().list(resource, namespace, **how)


async def test_changes_between_pages_of_a_list_are_not_missed() -> None:
    """On a server whose later pages are younger than its first one."""
    plane = ChangingPlane()
    for number in range(501):
        plane.put(f"w{number:04}")

    async with engaged(plane, SimulatedEnvironment()) as cluster:
        cache = cluster.cache(WIDGETS)
        await cache.wait_synced()
        await asyncio.sleep(1)

        changed = cache.get("w0000", "default")
        assert changed is not None
        assert bytes(changed.spec) == b'{"changed": true}'


async def test_managed_fields_are_not_kept_in_memory() -> None:
    plane = FakePlane()
    managed_fields = [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]
    plane.put("a", metadata={"managedFields": managed_fields})

    async with engaged(plane, SimulatedEnvironment()) as cluster:
        cache = cluster.cache(WIDGETS)
        await cache.wait_synced()

        assert b"managedFields" not in cache.list()[0].to_wire()
        assert not hasattr(cache.list()[0].metadata, "managed_fields")
