"""A key runs again only when the caches contain what its last run wrote."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from datum_compute.api.meta import Object, ObjectMeta
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.fleets.static import StaticFleet
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.request import Request
from datum_compute.runtime.watches.mapping import itself
from datum_compute.runtime.writes.own_writes import MAX_EXPECTED_WRITES, OwnWriteFilter
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.runtime.blocks import managed
from tests.support.runtime.fake_plane import PARTS, WIDGETS, FakePlane

Act = Callable[[Cluster, Request], Awaitable[None]]


class World:
    """One widget ``a``; each run does ``act`` and notes what its cache showed at the start."""

    def __init__(self, act: Act, *, selector: str = "") -> None:
        self.env = SimulatedEnvironment()
        self.plane = FakePlane()
        self.plane.put("a")
        self.fleet = StaticFleet("fleet", {"one": self.plane}, self.env)
        self.act = act
        self.selector = selector
        self.runs: list[tuple[float, list[str]]] = []
        self.controller = Controller(
            "c",
            self.fleet,
            self.reconcile,
            watches=[
                Watch(self.fleet, WIDGETS, itself),
                Watch(self.fleet, PARTS, lambda cluster, obj: [], label_selector=selector),
            ],
        )
        self.request = Request("one", "default", "a")

    async def reconcile(self, request: Request) -> None:
        cluster = self.fleet.get(request.cluster)
        assert cluster is not None
        parts = cluster.cache(PARTS, label_selector=self.selector).list()
        time = asyncio.get_running_loop().time()
        self.runs.append((time, [part.name for part in parts]))
        await self.act(cluster, request)

    @property
    def seen(self) -> list[list[str]]:
        return [parts for _, parts in self.runs]


async def _create_part(cluster: Cluster, request: Request) -> None:
    try:
        await cluster.client.create(PARTS, {"metadata": {"name": "p"}}, request.namespace)
    except errors.AlreadyExists:
        pass


async def test_a_created_object_is_in_the_cache_when_the_key_runs_again() -> None:
    world = World(_create_part)

    async with managed(world.env, world.controller):
        with world.plane.lagging():
            await asyncio.sleep(1)
            world.controller.enqueue(world.request)
            await asyncio.sleep(2)
            assert world.seen == [[]]
        await asyncio.sleep(1)

    assert world.seen == [[], ["p"]]
    assert world.controller.statistics().deferred >= 1
    assert world.controller.statistics().live_reads == 0
    assert world.plane.calls.count("create") == 2


async def test_the_key_runs_as_soon_as_the_event_arrives_and_not_later() -> None:
    world = World(_create_part)

    async with managed(world.env, world.controller):
        with world.plane.lagging():
            await asyncio.sleep(1)
            world.controller.enqueue(world.request)
            await asyncio.sleep(2)
        released = asyncio.get_running_loop().time()
        await asyncio.sleep(1)

    assert world.runs[1][0] == pytest.approx(released, abs=0.01)


async def _label_part(cluster: Cluster, request: Request) -> None:
    known = cluster.cache(PARTS).get("p", request.namespace)
    assert known is not None
    metadata = {"resourceVersion": known.metadata.resource_version, "labels": {"seen": "yes"}}
    await cluster.client.patch(PARTS, "p", merge({"metadata": metadata}), request.namespace)


async def test_a_key_runs_again_after_a_conflict_as_soon_as_the_other_write_arrives() -> None:
    world = World(_label_part)
    world.plane.put("p", resource=PARTS)

    async with managed(world.env, world.controller):
        await asyncio.sleep(1)
        with world.plane.lagging():
            world.plane.put("p", resource=PARTS, spec={"size": 2})
            world.controller.enqueue(world.request)
            await asyncio.sleep(1)
            conflicts = world.controller.statistics().conflicts
        released = asyncio.get_running_loop().time()
        await asyncio.sleep(1)

    assert conflicts > 0
    assert world.runs[-1][0] == pytest.approx(released, abs=0.01)
    assert world.controller.statistics().conflicts == conflicts
    assert world.plane.wire("p", PARTS)["metadata"]["labels"] == {"seen": "yes"}


async def test_other_keys_do_not_wait_meanwhile() -> None:
    world = World(_create_part)

    async with managed(world.env, world.controller):
        with world.plane.lagging():
            await asyncio.sleep(1)
            for number in range(20):  # more than there are workers
                world.controller.enqueue(world.request)
                world.controller.enqueue(Request("one", "default", f"other{number}"))
                await asyncio.sleep(0.1)

            assert len(world.runs) == 21


async def test_after_five_seconds_a_live_read_fills_the_cache() -> None:
    world = World(_create_part)

    async with managed(world.env, world.controller):
        with world.plane.lagging():
            await asyncio.sleep(1)
            world.controller.enqueue(world.request)
            await asyncio.sleep(10)
            assert world.seen == [[], ["p"]]

    assert world.runs[1][0] - world.runs[0][0] == pytest.approx(5, abs=0.1)
    assert world.controller.statistics().live_reads == 1


async def test_a_deleted_object_is_gone_from_the_cache_when_the_key_runs_again() -> None:
    async def delete_part(cluster: Cluster, request: Request) -> None:
        if cluster.cache(PARTS).get("p", "default") is not None:
            await cluster.client.delete(PARTS, "p", "default")

    world = World(delete_part)
    world.plane.put("p", resource=PARTS)

    async with managed(world.env, world.controller):
        with world.plane.lagging():
            await asyncio.sleep(1)
            world.controller.enqueue(world.request)
            await asyncio.sleep(2)
            assert world.seen == [["p"]]
            await asyncio.sleep(10)
            assert world.seen == [["p"], []]

    assert world.plane.calls.count("delete") == 1


async def test_a_patch_that_changed_nothing_is_not_waited_for() -> None:
    async def patch_nothing(cluster: Cluster, request: Request) -> None:
        await cluster.client.patch(WIDGETS, "a", merge({"kind": "Widget"}), "default")

    world = World(patch_nothing)

    async with managed(world.env, world.controller):
        with world.plane.lagging():
            await asyncio.sleep(1)
            world.controller.enqueue(world.request)
            await asyncio.sleep(0.1)
            assert len(world.runs) == 2

    assert world.controller.statistics().deferred == 0


async def test_a_write_of_a_kind_without_a_cache_is_not_waited_for() -> None:
    world = World(_create_part, selector="color=red")

    async with managed(world.env, world.controller):
        with world.plane.lagging():
            await asyncio.sleep(1)
            world.controller.enqueue(world.request)
            await asyncio.sleep(0.1)
            assert len(world.runs) == 2


async def test_a_plane_unreachable_after_the_write_does_not_hold_the_key_for_ever() -> None:
    async def create_once(cluster: Cluster, request: Request) -> None:
        if len(world.runs) == 1:
            await _create_part(cluster, request)

    world = World(create_once)

    async with managed(world.env, world.controller):
        with world.plane.lagging(), world.plane.down():
            world.controller.enqueue(world.request)
            await asyncio.sleep(1)
        with world.plane.lagging():
            await asyncio.sleep(1)
            with world.plane.down():
                world.controller.enqueue(world.request)
                await asyncio.sleep(20)

            assert len(world.runs) >= 2


async def test_an_ordinary_status_write_causes_no_wait() -> None:
    async def write_status(cluster: Cluster, request: Request) -> None:
        body = merge({"status": {"runs": min(len(world.runs), 3)}})
        await cluster.client.patch(WIDGETS, "a", body, "default", subresource="status")

    world = World(write_status)

    async with managed(world.env, world.controller):
        await asyncio.sleep(60)

    assert len(world.runs) == 4
    assert world.controller.statistics().deferred == 0


class Marker:
    """Marks a widget once; each run notes what it found."""

    def __init__(self, *, own_writes: bool, plane: FakePlane | None = None) -> None:
        self.env = SimulatedEnvironment()
        self.plane = plane or FakePlane()
        self.plane.put("a")
        self.fleet = StaticFleet("fleet", {"one": self.plane}, self.env)
        self.found: list[dict[str, str]] = []
        self.controller = Controller(
            "c",
            self.fleet,
            self.reconcile,
            watches=[Watch(self.fleet, WIDGETS, itself, own_writes=own_writes)],
        )

    async def reconcile(self, request: Request) -> None:
        cluster = self.fleet.get(request.cluster)
        assert cluster is not None
        widget = cluster.cache(WIDGETS).get(request.name, request.namespace)
        assert widget is not None
        self.found.append(dict(widget.metadata.labels))
        if "marked" not in widget.metadata.labels:
            body = {"metadata": {"labels": {"marked": "yes"}}}
            await cluster.client.patch(WIDGETS, request.name, merge(body), request.namespace)


@pytest.mark.parametrize("own_writes", [True, False])
async def test_an_own_write_requests_a_run_unless_the_watch_leaves_it_out(own_writes: bool) -> None:
    world = Marker(own_writes=own_writes)

    async with managed(world.env, world.controller):
        await asyncio.sleep(1)

    assert world.found == [{}, {"marked": "yes"}][: 2 if own_writes else 1]


async def test_what_others_write_over_an_own_write_requests_a_run() -> None:
    world = Marker(own_writes=False)

    async with managed(world.env, world.controller):
        await asyncio.sleep(1)
        world.plane.put("a", metadata={"labels": {"marked": "again"}})
        await asyncio.sleep(1)
        world.plane.put("a", metadata={"labels": {"marked": "and again"}})
        await asyncio.sleep(1)

    assert world.found == [{}, {"marked": "again"}, {"marked": "and again"}]


class EventFirst(FakePlane):
    """Answers a write some time after its event, and after what others write ``meanwhile``."""

    def __init__(self, *, meanwhile: dict[str, str] | None = None, fails: bool = False) -> None:
        super().__init__()
        self._meanwhile = meanwhile
        self._fails = fails

    async def patch(self, *args: Any, **options: Any) -> Object:
        patched = await super().patch(*args, **options)
        if self._meanwhile is not None:
            self.put("a", metadata={"labels": self._meanwhile})
        await asyncio.sleep(0.5)
        if self._fails:
            raise errors.Disconnected("after the write")
        return patched


async def test_an_own_write_whose_event_comes_before_its_answer_requests_no_run() -> None:
    world = Marker(own_writes=False, plane=EventFirst())

    async with managed(world.env, world.controller):
        await asyncio.sleep(2)

    assert world.found == [{}]


async def test_what_others_write_before_the_answer_to_an_own_write_requests_a_run() -> None:
    world = Marker(own_writes=False, plane=EventFirst(meanwhile={"marked": "again"}))

    async with managed(world.env, world.controller):
        await asyncio.sleep(2)

    assert world.found == [{}, {"marked": "again"}]


async def test_an_own_write_without_an_answer_requests_a_run() -> None:
    world = Marker(own_writes=False, plane=EventFirst(fails=True))

    async with managed(world.env, world.controller):
        await asyncio.sleep(0.6)
        assert world.found[-1] == {"marked": "yes"}, "at once, not after the delay of a failure"


async def test_an_own_write_enqueues_the_key_of_another_controller() -> None:
    world = Marker(own_writes=False)
    seen: list[str] = []

    async def note(request: Request) -> None:
        seen.append(request.name)

    watch = Watch(world.fleet, WIDGETS, itself, own_writes=False)
    other = Controller("other", world.fleet, note, watches=[watch])

    async with managed(world.env, world.controller, other):
        await asyncio.sleep(1)

    assert seen == ["a", "a"]


class Forgetful(Marker):
    """Marks in its first run, and leaves the rest to those that follow."""

    async def reconcile(self, request: Request) -> None:
        if not self.found:
            await super().reconcile(request)
            return
        cluster = self.fleet.get(request.cluster)
        widget = cluster.cache(WIDGETS).get(request.name, request.namespace) if cluster else None
        self.found.append(dict(widget.metadata.labels) if widget else {})


async def test_an_own_write_that_a_later_run_did_not_see_requests_a_run() -> None:
    world = Forgetful(own_writes=False)

    async with managed(world.env, world.controller):
        with world.plane.lagging():
            await asyncio.sleep(1)
            world.controller.enqueue(Request("one", "default", "a"))
            await asyncio.sleep(3)
            with world.plane.down():
                await asyncio.sleep(3)
            assert world.found == [{}, {}], "neither event nor live read had arrived"
        await asyncio.sleep(60)

    assert world.found == [{}, {}, {"marked": "yes"}]


def test_own_writes_without_an_event_are_forgotten_after_a_while() -> None:
    own_writes = OwnWriteFilter([WIDGETS])
    for number in range(3 * MAX_EXPECTED_WRITES):
        widget = Object("v1", "Widget", ObjectMeta(uid="u", resource_version=str(number)))
        own_writes.expect(WIDGETS, widget)
    last = Object(
        "v1", "Widget", ObjectMeta(uid="u", resource_version=str(3 * MAX_EXPECTED_WRITES - 1))
    )
    first = Object("v1", "Widget", ObjectMeta(uid="u", resource_version="0"))

    assert own_writes.consume(last)
    assert not own_writes.consume(last)
    assert not own_writes.consume(first)


def test_own_writes_are_not_recorded_where_no_watch_ignores_them() -> None:
    own_writes = OwnWriteFilter([WIDGETS])
    gadget = Object("v1", "Gadget", ObjectMeta(uid="u", resource_version="7"))
    own_writes.expect(WIDGETS._replace(plural="gadgets", kind="Gadget"), gadget)

    assert len(own_writes) == 0
    assert not own_writes.consume(gadget)
