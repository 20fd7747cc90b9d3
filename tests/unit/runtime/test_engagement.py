"""A disengaged cluster leaves nothing behind, and a reengaged one starts from an empty cache."""

from __future__ import annotations

import asyncio

from datum_compute.api.meta import Object
from datum_compute.client.protocol import merge
from datum_compute.fleets.static import StaticFleet
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import Result, Terminal, after
from datum_compute.runtime.tasks import TaskGroup
from datum_compute.runtime.watches.mapping import itself
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.loop import VirtualLoop
from tests.support.runtime.blocks import eventually, managed
from tests.support.runtime.fake_plane import PARTS, WIDGETS, FakePlane


class OpenFleet(Fleet):
    """Engages and disengages on the test's request."""

    async def discover(self, tasks: TaskGroup) -> None:
        self.mark_discovered()
        await asyncio.get_running_loop().create_future()


def _tasks() -> list[str]:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return sorted(task.get_name() for task in loop.pending_tasks())


def _timers() -> int:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return len([timer for *_, timer in loop._scheduled if not timer.cancelled()])


async def test_disengaging_leaves_no_task_timer_cache_or_queue_entry() -> None:
    """Keys in every state: ready, running, delayed, failing, stuck, waiting for a write."""
    env = SimulatedEnvironment()
    fleet = OpenFleet("open", env)

    async def reconcile(request: Request) -> Result | None:
        cluster = fleet.get(request.cluster)
        assert cluster is not None
        match request.name:
            case "delayed":
                return after(3600)
            case "failing":
                raise RuntimeError("broken")
            case "stuck":
                raise Terminal("bad")
            case "slow":
                await asyncio.sleep(50)
                return after(7200)
            case "unseen":
                await cluster.client.patch(WIDGETS, "unseen", merge({"status": {}}), "default")
        return None

    watches = [Watch(fleet, WIDGETS, itself), Watch(fleet, PARTS, itself)]
    controller = Controller("c", fleet, reconcile, watches=watches, workers=3)
    async with managed(env, controller):
        before = (_tasks(), _timers())
        for _ in range(3):
            plane = FakePlane()
            for name in ("delayed", "failing", "stuck", "unseen", "slow", "slow2"):
                plane.put(name)
            fleet.engage("one", plane)
            await asyncio.sleep(30)
            with plane.lagging():
                controller.enqueue(Request("one", "default", "unseen"))
                await asyncio.sleep(0.1)
                controller.enqueue(Request("one", "default", "unseen"))
                await fleet.disengage("one")
            await asyncio.sleep(100)  # the slow one ends

            assert (_tasks(), _timers()) == before
            queue = controller.statistics().queue
            assert queue is not None
            assert (queue.ready, queue.delayed, queue.running) == (0, 0, 0)
            assert plane.open_watches == 0
            assert not controller._unseen
            assert not controller._terminal_errors
            assert controller._intake.kept_aside() == 0
            assert controller._queue is not None
            assert not controller._queue._failures


async def test_a_reconcile_that_outlives_its_cluster_is_not_requeued() -> None:
    env, plane, runs = SimulatedEnvironment(), FakePlane(), list[float]()
    plane.put("a")
    fleet = OpenFleet("open", env)

    async def reconcile(request: Request) -> Result | None:
        runs.append(asyncio.get_running_loop().time())
        await asyncio.sleep(10)
        return after(1)

    controller = Controller("c", fleet, reconcile, watches=[Watch(fleet, WIDGETS, itself)])
    async with managed(env, controller):
        fleet.engage("one", plane)
        await asyncio.sleep(5)
        await fleet.disengage("one")
        await asyncio.sleep(1000)

    assert len(runs) == 1


async def test_a_cluster_engaged_again_gets_the_requests_that_others_map_to_it() -> None:
    """Events of the hub from before the project was disengaged are mapped again, as in a process
    that has just started."""
    env, hub, project = SimulatedEnvironment(), FakePlane(), FakePlane()
    for name, owner in (("a", "demo"), ("b", "demo"), ("c", "other")):
        hub.put(name, metadata={"labels": {"project": owner}})
    projects, requests = OpenFleet("projects", env), list[str]()

    async def reconcile(request: Request) -> None:
        requests.append(str(request))

    def to_project(cluster: str, obj: Object) -> list[Request]:
        return [Request(obj.metadata.labels["project"], obj.namespace, obj.name)]

    hubs = StaticFleet("hub", {"hub": hub}, env)
    controller = Controller("c", projects, reconcile, watches=[Watch(hubs, WIDGETS, to_project)])

    async with managed(env, controller):
        projects.engage("demo", project)
        await eventually(lambda: len(requests) == 2, lambda: requests)
        await projects.disengage("demo")
        hub.put("a", spec={"size": 2})
        hub.remove("b")
        await asyncio.sleep(10)
        assert len(requests) == 2
        requests.clear()
        projects.engage("demo", project)
        await asyncio.sleep(10)

    assert requests == ["demo://default/a"]


async def test_requests_for_a_cluster_that_is_never_engaged_are_bounded() -> None:
    env, plane = SimulatedEnvironment(), FakePlane()
    fleet = StaticFleet("fleet", {"one": plane}, env)

    async def reconcile(request: Request) -> None:
        raise AssertionError(f"{request} must not run")

    controller = Controller("c", fleet, reconcile, watches=[Watch(fleet, WIDGETS, itself)])
    async with managed(env, controller):
        for number in range(100_010):
            controller.enqueue(Request("never", "", str(number)))
        assert controller._intake.kept_aside() == 100_000
        await asyncio.sleep(1)

    assert controller.statistics().dropped_unengaged == 100_010


async def test_a_cluster_with_very_many_objects_does_not_starve_another() -> None:
    env, large, small = SimulatedEnvironment(), FakePlane(), FakePlane()
    for number in range(2_000):
        large.put(f"w{number:04}")
    fleet, runs = OpenFleet("open", env), list[str]()

    async def reconcile(request: Request) -> None:
        runs.append(request.cluster)
        await asyncio.sleep(1)

    watches = [Watch(fleet, WIDGETS, itself)]
    controller = Controller("c", fleet, reconcile, watches=watches, workers=4)
    async with managed(env, controller):
        fleet.engage("large", large)
        fleet.engage("small", small)
        await asyncio.sleep(20)
        for name in "abc":
            small.put(name)
        before = len(runs)
        await asyncio.sleep(3)

    assert runs[before:].count("small") == 3


async def test_requests_that_wait_for_caches_are_dropped_with_their_cluster() -> None:
    env, plane = SimulatedEnvironment(), FakePlane()
    plane.put("a")
    plane.unserved.add("parts")
    fleet = OpenFleet("open", env)

    async def reconcile(request: Request) -> None:
        raise AssertionError(f"{request} must not run")

    watches = [Watch(fleet, WIDGETS, itself), Watch(fleet, PARTS, itself)]
    controller = Controller("c", fleet, reconcile, watches=watches)
    async with managed(env, controller):
        fleet.engage("one", plane)
        await asyncio.sleep(10)
        assert controller._intake.kept_aside() == 1

        await fleet.disengage("one")

        assert controller._intake.kept_aside() == 0


async def test_a_cluster_that_hangs_does_not_delay_another() -> None:
    env, hanging, healthy = SimulatedEnvironment(), FakePlane(), FakePlane()
    for number in range(100):
        hanging.put(f"w{number:02}")
    fleet, served = OpenFleet("open", env), list[float]()

    async def reconcile(request: Request) -> None:
        if request.cluster == "hanging":
            await asyncio.sleep(30)  # as long as a request may take
        else:
            served.append(asyncio.get_running_loop().time())

    controller = Controller("c", fleet, reconcile, watches=[Watch(fleet, WIDGETS, itself)])
    async with managed(env, controller):
        fleet.engage("hanging", hanging)
        fleet.engage("healthy", healthy)
        await asyncio.sleep(10)
        now = asyncio.get_running_loop().time()
        for name in "abc":
            healthy.put(name)
        await asyncio.sleep(1)

    assert [round(time - now, 1) for time in served] == [0, 0, 0]
