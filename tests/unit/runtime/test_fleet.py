"""Clusters are engaged and disengaged with their watches, and nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from datum_compute.api.meta import Object
from datum_compute.fleets.static import StaticFleet
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.request import Request
from datum_compute.runtime.tasks import TaskGroup, stop_tasks
from datum_compute.runtime.watches.mapping import itself
from datum_compute.testing import loop as virtual
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.runtime.blocks import eventually, managed, running
from tests.support.runtime.fake_plane import WIDGETS, FakePlane


class OpenFleet(Fleet):
    """Engages and disengages on the test's request."""

    async def discover(self, tasks: TaskGroup) -> None:
        self.mark_discovered()
        await asyncio.get_running_loop().create_future()


@asynccontextmanager
async def run_fleet(fleet: Fleet) -> AsyncIterator[None]:
    task = asyncio.get_running_loop().create_task(fleet.run())
    await fleet.wait_discovered()
    try:
        yield
    finally:
        await stop_tasks([task])


def _recorder(requests: list[str], fleet: Fleet) -> Controller:
    async def reconcile(request: Request) -> None:
        requests.append(str(request))

    return Controller("c", fleet, reconcile, watches=[Watch(fleet, WIDGETS, itself)])


async def test_engaging_starts_watches_and_disengaging_stops_them() -> None:
    env, one, two = SimulatedEnvironment(), FakePlane(), FakePlane()
    one.put("a")
    two.put("b")
    fleet, requests = OpenFleet("open", env), list[str]()

    async with managed(env, _recorder(requests, fleet)):
        fleet.engage("one", one)
        fleet.engage("two", two)
        await eventually(lambda: len(requests) == 2, lambda: requests)
        await fleet.disengage("one")
        assert (one.open_watches, two.open_watches) == (0, 1)

        one.put("a2")
        two.put("b2")
        await asyncio.sleep(10)
        assert sorted(requests) == ["one://default/a", "two://default/b", "two://default/b2"]
        assert [cluster.name for cluster in fleet.clusters()] == ["two"]
        assert fleet.get("one") is None


async def test_a_reengaged_cluster_starts_with_an_empty_cache() -> None:
    env, plane = SimulatedEnvironment(), FakePlane()
    plane.put("a")
    fleet, requests = OpenFleet("open", env), list[str]()

    async with managed(env, _recorder(requests, fleet)):
        for _ in range(3):
            fleet.engage("one", plane)
            await asyncio.sleep(1)
            await fleet.disengage("one")

    assert requests == ["one://default/a"] * 3


async def test_a_request_made_before_its_cluster_is_engaged_runs_once_it_is() -> None:
    """The hub may deliver a project's object before the project is engaged; it will not
    deliver it again."""
    env, hub, project = SimulatedEnvironment(), FakePlane(), FakePlane()
    hub.put("a", metadata={"labels": {"project": "demo"}})
    projects, requests = OpenFleet("projects", env), list[str]()

    async def reconcile(request: Request) -> None:
        requests.append(str(request))

    def to_project(cluster: str, obj: Object) -> list[Request]:
        return [Request(obj.metadata.labels["project"], obj.namespace, obj.name)]

    hubs = StaticFleet("hub", {"hub": hub}, env)
    controller = Controller("c", projects, reconcile, watches=[Watch(hubs, WIDGETS, to_project)])

    async with managed(env, controller):
        await asyncio.sleep(10)
        assert requests == []
        projects.engage("demo", project)
        await asyncio.sleep(1)

    assert requests == ["demo://default/a"]
    assert controller.statistics().dropped_unengaged == 1


async def test_a_required_cluster_that_joins_later_is_waited_for() -> None:
    env, plane, late = SimulatedEnvironment(), FakePlane(), FakePlane()
    late.unserved.add("widgets")
    fleet = StaticFleet("fleet", {"one": plane}, env)
    others, requests = OpenFleet("others", env), list[str]()

    async def reconcile(request: Request) -> None:
        requests.append(request.name)

    watches = [Watch(fleet, WIDGETS, itself), Watch(others, WIDGETS, lambda cluster, obj: [])]
    controller = Controller("c", fleet, reconcile, watches=watches)

    async with managed(env, controller):
        others.engage("late", late)
        plane.put("a")
        await asyncio.sleep(100)
        assert requests == []
        late.unserved.clear()
        await eventually(lambda: requests == ["a"], lambda: requests)


async def test_a_fleet_shared_by_managers_runs_once_and_outlives_the_first() -> None:
    env, plane = SimulatedEnvironment(), FakePlane()
    plane.put("a")
    fleet = StaticFleet("shared", {"one": plane}, env)
    first_requests, second_requests = list[str](), list[str]()
    first, second = Manager("first", env), Manager("second", env)
    first.add(_recorder(first_requests, fleet))
    second.add(_recorder(second_requests, fleet))

    async with running(second):
        async with running(first):
            await first.wait_ready()
            await second.wait_ready()
            await asyncio.sleep(1)
            assert plane.open_watches == 1
            assert first_requests == second_requests == ["one://default/a"]
        plane.put("b")
        await second.wait_ready()
        await eventually(lambda: "one://default/b" in second_requests, "the second still works")
        assert plane.open_watches == 1

    assert plane.open_watches == 0
    assert "one://default/b" not in first_requests


async def test_the_manager_that_runs_a_shared_fleet_may_stop_first() -> None:
    env, plane = SimulatedEnvironment(), FakePlane()
    fleet, requests = StaticFleet("shared", {"one": plane}, env), list[str]()
    first, second = Manager("first", env), Manager("second", env)
    first.add(_recorder([], fleet))
    second.add(_recorder(requests, fleet))

    async with running(first) as task:
        await first.wait_ready()
        async with running(second):
            await second.wait_ready()
            await stop_tasks([task])
            plane.put("a")
            await eventually(lambda: requests == ["one://default/a"], lambda: requests)


def test_a_stopped_manager_leaves_no_task_and_no_watch() -> None:
    async def main() -> list[str]:
        env, plane = SimulatedEnvironment(), FakePlane()
        plane.put("a")
        fleet = StaticFleet("fleet", {"one": plane, "two": FakePlane()}, env)

        async def busy(request: Request) -> None:
            await asyncio.sleep(1000)

        controller = Controller("c", fleet, busy, watches=[Watch(fleet, WIDGETS, itself)])
        async with managed(env, controller):
            await asyncio.sleep(10)
            assert plane.open_watches == 1
        assert plane.open_watches == 0
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual.VirtualLoop)
        return [task.get_name() for task in loop.pending_tasks()]

    assert virtual.run(main()) == ["main"]


async def test_a_fleet_that_fails_ends_its_manager_with_the_reason() -> None:
    class Broken(Fleet):
        async def discover(self, tasks: TaskGroup) -> None:
            raise ValueError("no such settings")

    env = SimulatedEnvironment()
    manager = Manager("m", env)
    manager.add(_recorder([], Broken("broken", env)))

    with pytest.raises(ValueError, match="no such settings"):
        await manager.run()


async def test_waiting_for_a_manager_that_has_ended_is_an_error() -> None:
    env, plane = SimulatedEnvironment(), FakePlane()
    manager = Manager("m", env)
    manager.add(_recorder([], StaticFleet("fleet", {"one": plane}, env)))

    with plane.down():
        async with running(manager):
            waiting = asyncio.get_running_loop().create_task(manager.wait_ready())
            await asyncio.sleep(10)
            assert not waiting.done()
        with pytest.raises(RuntimeError, match="'m' ended before it was ready"):
            await waiting


async def test_a_manager_without_controllers_is_refused() -> None:
    with pytest.raises(RuntimeError, match="'empty' has no controllers"):
        await Manager("empty", SimulatedEnvironment()).run()


async def test_engaging_needs_a_running_fleet_and_an_unused_name() -> None:
    fleet = OpenFleet("open", SimulatedEnvironment())
    with pytest.raises(RuntimeError, match="does not run"):
        fleet.engage("one", FakePlane())

    async with run_fleet(fleet):
        fleet.engage("one", FakePlane())
        with pytest.raises(ValueError, match="engaged already"):
            fleet.engage("one", FakePlane())
        with pytest.raises(ValueError, match="needs a name"):
            fleet.engage("", FakePlane())


async def test_fifty_idle_clusters_cost_only_their_watches() -> None:
    """Nothing polls: in an idle hour each watch is reopened a few times and no more."""
    env = SimulatedEnvironment()
    planes = {f"c{number:02}": FakePlane() for number in range(50)}
    fleet, requests = StaticFleet("fleet", planes, env), list[str]()

    async with managed(env, _recorder(requests, fleet)):
        await asyncio.sleep(3600)

    assert requests == []
    assert all(len(plane.calls) <= 2 + 3600 / 300 for plane in planes.values())
