"""Requests, runs, and what follows from each way a run can end."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise

import pytest

from datum_compute.api.meta import Object, ObjectMeta, Unreadable
from datum_compute.client import errors
from datum_compute.fleets.static import StaticFleet
from datum_compute.runtime.controller import Controller, Read, Watch
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import Result, Terminal, Waiting, after
from datum_compute.runtime.watches.mapping import controller_owner, itself
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.runtime.blocks import eventually, managed
from tests.support.runtime.fake_plane import PARTS, WIDGETS, FakePlane


class Runs:
    """A reconcile that records when it ran and then calls a hook."""

    def __init__(self, *outcomes: Result | Exception | None, takes: float = 0.0) -> None:
        self.outcomes = list(outcomes)
        self.takes = takes
        self.requests: list[Request] = []
        self.times: list[float] = []
        self.running = 0
        self.most_at_once = 0

    async def __call__(self, request: Request) -> Result | None:
        self.requests.append(request)
        self.times.append(asyncio.get_running_loop().time())
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        await asyncio.sleep(self.takes)
        self.running -= 1
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def names(self) -> list[str]:
        return [request.name for request in self.requests]


def _fleet(env: SimulatedEnvironment, **planes: FakePlane) -> StaticFleet:
    return StaticFleet("fleet", planes, env)


async def _runs_of(*outcomes: Result | Exception | None, seconds: float = 1000) -> list[float]:
    """When a lone object's reconcile ran, counted from the first time."""
    env, plane, runs = SimulatedEnvironment(), FakePlane(), Runs(*outcomes)
    plane.put("a")
    fleet = _fleet(env, one=plane)
    controller = Controller("c", fleet, runs, watches=[Watch(fleet, WIDGETS, itself)])
    async with managed(env, controller):
        await asyncio.sleep(seconds)
    return [time - runs.times[0] for time in runs.times]


async def test_every_object_is_reconciled_with_its_cluster_and_on_every_change() -> None:
    env, one, two, runs = SimulatedEnvironment(), FakePlane(), FakePlane(), Runs()
    one.put("a")
    two.put("b", namespace="other")
    fleet = _fleet(env, one=one, two=two)
    controller = Controller("c", fleet, runs, watches=[Watch(fleet, WIDGETS, itself)])

    async with managed(env, controller):
        await asyncio.sleep(1)
        assert sorted(runs.requests) == [
            Request("one", "default", "a"),
            Request("two", "other", "b"),
        ]
        runs.requests.clear()
        one.put("a", spec={"size": 2})
        two.remove("b", namespace="other")
        await asyncio.sleep(1)

    assert sorted(map(str, runs.requests)) == ["one://default/a", "two://other/b"]


async def test_done_waits_for_the_next_event() -> None:
    assert await _runs_of(None) == [0]


async def test_after_requeues_at_that_time() -> None:
    assert await _runs_of(after(30), after(5), None) == pytest.approx([0, 30, 35])


async def test_waiting_requeues_and_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "datum_compute.runtime.controller"):
        times = await _runs_of(Waiting("the moon", 10), None)

    assert times == pytest.approx([0, 10])
    assert caplog.records == []


async def test_terminal_is_not_retried_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    env, plane = SimulatedEnvironment(), FakePlane()
    runs = Runs(Terminal("bad"), Terminal("bad"), Terminal("worse"))
    plane.put("a")
    fleet = _fleet(env, one=plane)
    controller = Controller("c", fleet, runs, watches=[Watch(fleet, WIDGETS, itself)])

    with caplog.at_level(logging.INFO, "datum_compute.runtime.controller"):
        async with managed(env, controller):
            await asyncio.sleep(1000)
            assert len(runs.requests) == 1
            for size in (1, 2):
                plane.put("a", spec={"size": size})
                await asyncio.sleep(1)

    reasons = [record.fields["reason"] for record in caplog.records]  # type: ignore[attr-defined]
    assert reasons == ["bad", "worse"]
    assert controller.statistics().terminal == 3


async def test_a_conflict_is_requeued_soon_and_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    conflict = errors.Conflict(409, "Conflict", "moved on")
    with caplog.at_level(logging.INFO, "datum_compute.runtime.controller"):
        times = await _runs_of(*[conflict] * 8, None)

    gaps = [later - sooner for sooner, later in pairwise(times)]
    assert len(gaps) == 8
    assert all(gap < 0.5 for gap in gaps)
    assert caplog.records == []


async def test_a_key_that_needs_an_unreadable_object_is_tried_every_five_minutes_without_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    odd = Object("v1", "Widget", ObjectMeta(name="a"))

    times = await _runs_of(Unreadable(odd, "spec: odd"), Unreadable(odd, "spec: odd"))

    assert times == pytest.approx([0, 300, 600], abs=1)
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


async def test_a_key_waits_without_an_error_while_its_namespace_is_being_deleted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    error = errors.NamespaceTerminating(403, "Forbidden", "namespace x is being deleted")

    times = await _runs_of(error, error)

    assert times == pytest.approx([0, 5, 10], abs=0.1)
    assert [each for each in caplog.records if each.levelno >= logging.INFO] == []


async def test_other_errors_are_logged_with_keys_and_retried_with_growing_delay(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "datum_compute.runtime.controller"):
        times = await _runs_of(*[RuntimeError("broken")] * 14, None)

    gaps = [later - sooner for sooner, later in pairwise(times)]
    assert len(gaps) == 14
    assert all(gap < 31 for gap in gaps)
    assert sum(gaps[:4]) < 1 < sum(gaps[10:])
    assert {record.message for record in caplog.records} == {"reconcile failed"}
    fields = caplog.records[0].fields  # type: ignore[attr-defined]
    assert (fields["controller"], fields["cluster"], fields["name"]) == ("c", "one", "a")
    assert fields["reconcile_id"] == "c-1"
    assert caplog.records[0].exc_info is not None


async def test_a_success_resets_the_backoff() -> None:
    broken = RuntimeError("broken")
    times = await _runs_of(*[broken] * 12, after(100), broken, None)

    assert times[-1] - times[-2] < 0.06


async def test_a_throttled_request_is_retried_after_the_requested_delay() -> None:
    throttled = errors.Throttled(429, "TooManyRequests", "slow down", retry_after=17)

    assert (await _runs_of(throttled, None))[1] >= 17


async def test_a_key_runs_in_one_worker_and_again_if_added_meanwhile() -> None:
    env, plane, runs = SimulatedEnvironment(), FakePlane(), Runs(takes=10)
    plane.put("a")
    fleet = _fleet(env, one=plane)
    controller = Controller("c", fleet, runs, watches=[Watch(fleet, WIDGETS, itself)])

    async with managed(env, controller):
        for size in range(5):
            await asyncio.sleep(1)
            plane.put("a", spec={"size": size})
        await asyncio.sleep(100)

    assert runs.most_at_once == 1
    assert runs.names() == ["a", "a"]


async def test_as_many_keys_run_at_once_as_there_are_workers() -> None:
    env, plane, runs = SimulatedEnvironment(), FakePlane(), Runs(takes=1)
    for number in range(20):
        plane.put(f"w{number}")
    fleet = _fleet(env, one=plane)
    watches = [Watch(fleet, WIDGETS, itself)]
    controller = Controller("c", fleet, runs, watches=watches, workers=5)

    async with managed(env, controller):
        await asyncio.sleep(10)

    assert runs.most_at_once == 5
    assert len(runs.requests) == 20


@pytest.mark.parametrize(("workers", "most"), [(1, 1), (3, 6)])
async def test_all_clusters_share_twice_the_workers_and_a_single_worker_stays_single(
    workers: int, most: int
) -> None:
    env, runs = SimulatedEnvironment(), Runs(takes=1)
    planes = {f"c{number}": FakePlane() for number in range(6)}
    for plane in planes.values():
        for number in range(5):
            plane.put(f"w{number}")
    fleet = _fleet(env, **planes)
    watches = [Watch(fleet, WIDGETS, itself)]
    controller = Controller("c", fleet, runs, watches=watches, workers=workers)

    async with managed(env, controller):
        await asyncio.sleep(100)

    assert runs.most_at_once == most
    assert len(runs.requests) == 30


async def test_a_predicate_sees_old_and_new_and_decides() -> None:
    env, plane, runs = SimulatedEnvironment(), FakePlane(), Runs()
    plane.put("a", spec={"size": 1}, metadata={"generation": 1})

    def generation_changed(old: Object | None, new: Object | None) -> bool:
        return not old or not new or old.metadata.generation != new.metadata.generation

    fleet = _fleet(env, one=plane)
    watches = [Watch(fleet, WIDGETS, itself, predicate=generation_changed)]
    controller = Controller("c", fleet, runs, watches=watches)

    async with managed(env, controller):
        plane.put("a", status={"seen": True})
        await asyncio.sleep(1)
        assert len(runs.requests) == 1
        plane.put("a", metadata={"generation": 2})
        await asyncio.sleep(1)

    assert len(runs.requests) == 2


async def test_changes_with_a_delay_are_in_one_run_with_those_that_follow() -> None:
    env, plane, runs = SimulatedEnvironment(), FakePlane(), Runs()
    plane.put("a")
    fleet = _fleet(env, one=plane)

    def delay(_: Object | None, new: Object | None) -> float:
        return 0.0 if new is not None and b"urgent" in bytes(new.spec) else 5.0

    watches = [Watch(fleet, WIDGETS, itself, delay=delay)]
    controller = Controller("c", fleet, runs, watches=watches)

    async with managed(env, controller):
        await asyncio.sleep(10)
        runs.times.clear()
        began = asyncio.get_running_loop().time()
        plane.put("a", spec={"size": 1})
        await asyncio.sleep(4)
        plane.put("a", spec={"size": 2})
        await asyncio.sleep(4)
        assert [time - began for time in runs.times] == pytest.approx([5])
        plane.put("a", spec={"size": 3})
        await asyncio.sleep(1)
        plane.put("a", spec={"size": "urgent"})
        await asyncio.sleep(10)

    assert [time - began for time in runs.times] == pytest.approx([5, 9])


async def test_a_change_of_owner_enqueues_both_owners() -> None:
    env, plane, runs = SimulatedEnvironment(), FakePlane(), Runs()

    def owned_by(name: str) -> dict[str, object]:
        return {"ownerReferences": [{"kind": "Widget", "name": name, "controller": True}]}

    plane.put("p", resource=PARTS, metadata=owned_by("first"))
    fleet = _fleet(env, one=plane)
    watches = [Watch(fleet, PARTS, controller_owner("Widget"))]
    controller = Controller("c", fleet, runs, watches=watches)

    async with managed(env, controller):
        await asyncio.sleep(1)
        runs.requests.clear()
        plane.put("p", resource=PARTS, metadata=owned_by("second"))
        await asyncio.sleep(1)

    assert sorted(runs.names()) == ["first", "second"]


async def test_each_requests_the_object_and_owned_its_owner() -> None:
    env, one, two, runs = SimulatedEnvironment(), FakePlane(), FakePlane(), Runs()
    owners = [
        {"apiVersion": WIDGETS.api_version, "kind": "Widget", "name": "w", "controller": True}
    ]
    others = [{"apiVersion": "example.org/v1", "kind": "Widget", "name": "w", "controller": True}]
    one.put("itself")
    two.put("p", resource=PARTS, namespace="shed", metadata={"ownerReferences": owners})
    two.put("q", resource=PARTS, namespace="barn", metadata={"ownerReferences": others})
    fleet = _fleet(env, one=one, two=two)
    watches = [Watch.each(fleet, WIDGETS), Watch.owned(fleet, PARTS, by=WIDGETS)]

    async with managed(env, Controller("c", fleet, runs, watches=watches)):
        await asyncio.sleep(1)

    assert sorted(map(str, runs.requests)) == ["one://default/itself", "two://shed/w"]


async def test_a_watch_of_each_and_of_what_is_owned_takes_the_same_options() -> None:
    env, plane, runs = SimulatedEnvironment(), FakePlane(), Runs()
    plane.put("red", metadata={"labels": {"color": "red"}})
    plane.put("blue", metadata={"labels": {"color": "blue"}})
    fleet = _fleet(env, one=plane)
    watches = [
        Watch.each(fleet, WIDGETS, label_selector="color=red", predicate=lambda old, new: not old)
    ]

    async with managed(env, Controller("c", fleet, runs, watches=watches)):
        await asyncio.sleep(1)
        plane.put("red", spec={"size": 2})
        await asyncio.sleep(1)

    assert runs.names() == ["red"]


async def test_an_object_that_cannot_be_mapped_is_reported_once_and_does_not_block_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    env, plane, runs = SimulatedEnvironment(), FakePlane(), Runs()
    plane.put("bad")
    plane.put("good", metadata={"labels": {"owner": "x"}})

    def by_label(cluster: str, obj: Object) -> list[Request]:
        return [Request(cluster, obj.namespace, obj.metadata.labels["owner"])]

    fleet = _fleet(env, one=plane)
    controller = Controller("c", fleet, runs, watches=[Watch(fleet, WIDGETS, by_label)])

    async with managed(env, controller):
        await asyncio.sleep(1)

        plane.put("bad", spec={"size": 2})
        await asyncio.sleep(1)

    assert runs.names() == ["x"]
    assert controller.statistics().mapping_errors == 2
    assert [record.message for record in caplog.records] == ["change could not be mapped"]


async def test_the_mapped_cluster_survives_to_the_reconcile() -> None:
    """An event seen on the hub that concerns a project runs under the project's name."""
    env, hub, project, runs = SimulatedEnvironment(), FakePlane(), FakePlane(), Runs()
    hub.put("a", metadata={"labels": {"project": "demo"}})

    def to_project(cluster: str, obj: Object) -> list[Request]:
        return [Request(obj.metadata.labels.get("project", ""), obj.namespace, obj.name)]

    projects = StaticFleet("projects", {"demo": project}, env)
    hubs = StaticFleet("hub", {"hub": hub}, env)
    controller = Controller("c", projects, runs, watches=[Watch(hubs, WIDGETS, to_project)])

    async with managed(env, controller):
        await asyncio.sleep(1)
        hub.put("unmapped")
        await asyncio.sleep(1)

    assert runs.requests == [Request("demo", "default", "a")]
    assert controller.statistics().dropped_empty == 1


async def test_a_request_for_a_cluster_that_is_not_engaged_is_dropped_and_counted() -> None:
    env, plane, runs = SimulatedEnvironment(), FakePlane(), Runs()
    plane.put("a")
    fleet = _fleet(env, one=plane)
    watches = [Watch(fleet, WIDGETS, lambda cluster, obj: [Request("else", "", obj.name)])]
    controller = Controller("c", fleet, runs, watches=watches)

    async with managed(env, controller):
        await asyncio.sleep(100)

    assert runs.requests == []
    assert controller.statistics().dropped_unengaged == 1


async def test_reconciles_wait_for_required_caches() -> None:
    env, plane, runs = SimulatedEnvironment(), FakePlane(), Runs()
    plane.put("a")
    plane.unserved.add("parts")
    fleet = _fleet(env, one=plane)
    watches, reads = [Watch(fleet, WIDGETS, itself)], [Read(fleet, PARTS)]
    controller = Controller("c", fleet, runs, watches=watches, reads=reads)
    manager_task = None

    async with asyncio.TaskGroup() as tasks:
        manager_task = tasks.create_task(_hold(env, controller))
        await asyncio.sleep(60)
        assert runs.requests == []
        assert controller.missing() == [
            "one parts.example.com: NotServed parts.example.com is not served"
        ]
        plane.unserved.clear()
        await eventually(lambda: runs.names() == ["a"], lambda: runs.names())
        manager_task.cancel()

    assert controller.statistics().dropped_unengaged == 0


async def _hold(env: SimulatedEnvironment, controller: Controller) -> None:
    async with managed(env, controller):
        await asyncio.sleep(100_000)


async def test_reconciles_run_although_an_optional_cluster_is_unreachable() -> None:
    env, plane, remote, runs = SimulatedEnvironment(), FakePlane(), FakePlane(), Runs()
    plane.put("a")
    fleet = _fleet(env, one=plane)
    far = StaticFleet("far", {"remote": remote}, env)
    controller = Controller(
        "c",
        fleet,
        runs,
        watches=[Watch(fleet, WIDGETS, itself)],
        reads=[Read(far, PARTS, required=False)],
    )

    with remote.down():
        async with managed(env, controller):
            await asyncio.sleep(1)

    assert runs.names() == ["a"]


async def test_indexes_exist_before_the_first_reconcile() -> None:
    env, plane = SimulatedEnvironment(), FakePlane()
    plane.put("a")
    plane.put("p", resource=PARTS, metadata={"labels": {"of": "a"}})
    fleet = _fleet(env, one=plane)
    found: list[list[str]] = []

    async def reconcile(request: Request) -> None:
        cluster = fleet.get(request.cluster)
        assert cluster is not None
        found.append([part.name for part in cluster.cache(PARTS).by_index("of", request.name)])

    reads = [Read(fleet, PARTS, indexes={"of": lambda obj: obj.metadata.labels.values()})]
    watches = [Watch(fleet, WIDGETS, itself)]
    controller = Controller("c", fleet, reconcile, watches=watches, reads=reads)

    async with managed(env, controller):
        await asyncio.sleep(1)

    assert found == [["p"]]


async def test_a_run_can_be_requested_from_outside() -> None:
    env, plane, runs = SimulatedEnvironment(), FakePlane(), Runs()
    fleet = _fleet(env, one=plane)
    controller = Controller("c", fleet, runs, watches=[Watch(fleet, WIDGETS, itself)])

    async with managed(env, controller):
        controller.enqueue(Request("one", "default", "ghost"))
        await asyncio.sleep(1)

    assert runs.names() == ["ghost"]
