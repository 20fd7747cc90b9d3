"""A reconcile that is given its object runs only while there is one."""

from __future__ import annotations

from datum_compute.api.meta import Object
from datum_compute.fleets.static import StaticFleet
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.object_reconcile import for_object
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, after
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.runtime.fake_plane import WIDGETS, FakePlane
from tests.support.runtime.fleets import running


async def test_missing_and_deleting_objects_are_not_reconciled() -> None:
    plane = FakePlane()
    plane.put("a")
    plane.put("going", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    fleet = StaticFleet("fleet", {"one": plane}, SimulatedEnvironment())
    seen: list[str] = []

    async def reconcile(cluster: Cluster, obj: Object) -> Result:
        seen.append(f"{cluster.name}/{obj.name}")
        return after(1.0)

    living = for_object(fleet, WIDGETS, reconcile)
    every = for_object(fleet, WIDGETS, reconcile, deleting=True)
    async with running(fleet):
        await fleet.clusters()[0].cache(WIDGETS).wait_synced()

        assert await living(Request("one", "default", "a")) == after(1.0)
        for request in (
            Request("two", "default", "a"),
            Request("one", "default", "b"),
            Request("one", "default", "going"),
        ):
            assert await living(request) == DONE
        assert await every(Request("one", "default", "going")) == after(1.0)

    assert seen == ["one/a", "one/going"]
