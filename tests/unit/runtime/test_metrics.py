"""The text Prometheus reads, and what the runtime counts about itself."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import ClassVar

import pytest

from datum_compute.client import errors
from datum_compute.fleets.static import StaticFleet
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.metrics.exposition import render
from datum_compute.runtime.metrics.registry import MetricsRegistry
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import Result, Terminal, Waiting, after
from datum_compute.runtime.watches.mapping import itself
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.runtime.blocks import running
from tests.support.runtime.fake_plane import WIDGETS, FakePlane


def test_a_counter_and_a_gauge_in_the_text_format() -> None:
    registry = MetricsRegistry()
    registry.gauge("b_now", "How much.").labels().set(2.5)
    requests = registry.counter("a_total", "How many.", "code", "method")
    requests.labels("200", "GET").inc()
    requests.labels("200", "GET").inc(2)
    requests.labels("", "").inc(0)

    assert render(registry) == (
        "# HELP a_total How many.\n"
        "# TYPE a_total counter\n"
        'a_total{code="",method=""} 0.0\n'
        'a_total{code="200",method="GET"} 3.0\n'
        "# HELP b_now How much.\n"
        "# TYPE b_now gauge\n"
        "b_now 2.5\n"
    )


def test_a_histogram_is_cumulative_and_includes_its_bounds() -> None:
    registry = MetricsRegistry()
    seconds = registry.histogram("s", "Time.", "of", buckets=(0.1, 1.0)).labels("me")
    for value in (0.1, 0.5, 7.0):
        seconds.observe(value)

    assert render(registry).splitlines()[2:] == [
        's_bucket{le="0.1",of="me"} 1.0',
        's_bucket{le="1",of="me"} 2.0',
        's_bucket{le="+Inf",of="me"} 3.0',
        's_count{of="me"} 3.0',
        's_sum{of="me"} 7.6',
    ]


def test_label_values_and_help_texts_are_escaped() -> None:
    registry = MetricsRegistry()
    registry.counter("x_total", "One\nline \\ only.", "text").labels('a"b\\c\nd').inc()

    assert render(registry) == (
        "# HELP x_total One\\nline \\\\ only.\n"
        "# TYPE x_total counter\n"
        'x_total{text="a\\"b\\\\c\\nd"} 1.0\n'
    )


def test_series_are_in_order_of_their_labels() -> None:
    one, other = MetricsRegistry(), MetricsRegistry()
    for registry, values in ((one, "ab"), (other, "ba")):
        for value in values:
            registry.gauge("g", "", "of").labels(value).set(1)

    assert render(one) == render(other)


def test_counters_of_one_name_are_summed() -> None:
    registry = MetricsRegistry()
    end = registry.counter("n_total", "", "of").labels("x").track(lambda: 3)
    registry.counter("n_total", "", "of").labels("x").inc()
    assert registry.counter("n_total", "", "of").value("x") == 4

    end()

    assert registry.counter("n_total", "", "of").value("x") == 4  # a counter never goes back


def test_a_gauge_adds_up_or_takes_the_greatest() -> None:
    registry = MetricsRegistry()
    for value in (2.0, 5.0):
        registry.gauge("all", "").labels().track(partial(float, value))
        registry.gauge("most", "", combine=max).labels().track(partial(float, value))

    assert registry.gauge("all", "").value() == 7
    assert registry.gauge("most", "", combine=max).value() == 5


def test_sampled_series_appear_and_disappear() -> None:
    registry = MetricsRegistry()
    there: dict[tuple[str, ...], float] = {("a",): 1.0, ("b",): 2.0}
    end = registry.gauge("s", "", "of").sample(lambda: there)
    assert registry.gauge("s", "", "of").value("b") == 2

    del there[("b",)]

    assert 's{of="b"}' not in render(registry)
    end()
    assert 's{of="a"}' not in render(registry)


def test_registries_are_read_together_as_one() -> None:
    one, other, both = MetricsRegistry(), MetricsRegistry(), MetricsRegistry()
    for registry, weight in ((one, 1.0), (both, 1.0), (other, 2.0), (both, 2.0)):
        registry.counter("a_total", "A.", "of").labels("x").inc(weight)
        registry.histogram("h", "H.", "of", buckets=(1.0,)).labels("x").observe(weight)
        gauge = registry.gauge("g", "G.", combine=max).labels()
        gauge.set(max(gauge.value(), weight))
    other.counter("b_total", "B.").labels().inc()
    both.counter("b_total", "B.").labels().inc()

    assert render(one, other) == render(both)


def test_one_name_means_one_thing() -> None:
    registry = MetricsRegistry()
    registry.counter("n_total", "", "of")

    with pytest.raises(ValueError, match="n_total is a counter with labels"):
        registry.gauge("n_total", "", "of")
    with pytest.raises(ValueError, match="has labels"):
        registry.counter("n_total", "", "of").labels("a", "b")


class Outcomes:
    """A reconcile whose outcome follows from the object's name."""

    ends: ClassVar[dict[str, Result | Exception | None]] = {
        "fine": None,
        "later": after(1000),
        "waits": Waiting("something", 1000),
        "conflict": errors.Conflict(409, "Conflict", "moved on"),
        "stuck": Terminal("never"),
        "fails": RuntimeError("once"),
    }

    def __init__(self) -> None:
        self.ran: set[str] = set()

    async def __call__(self, request: Request) -> Result | None:
        await asyncio.sleep(0.03)
        if request.name in self.ran:
            return None
        self.ran.add(request.name)
        end = self.ends[request.name]
        if isinstance(end, Exception):
            raise end
        return end


async def test_runs_are_counted_under_the_names_of_controller_runtime() -> None:
    env, plane, registry = SimulatedEnvironment(), FakePlane(), MetricsRegistry()
    fleet = StaticFleet("fleet", {"one": plane}, env)
    controller = Controller("c", fleet, Outcomes(), watches=[Watch(fleet, WIDGETS, itself)])
    manager = Manager("test", env, metrics=registry)
    manager.add(controller)
    for name in Outcomes.ends:
        plane.put(name)
    async with running(manager):
        await asyncio.sleep(10)
        text = render(registry)

    lines = text.splitlines()
    for line in (
        'controller_runtime_reconcile_total{controller="c",result="success"} 3.0',
        'controller_runtime_reconcile_total{controller="c",result="requeue_after"} 2.0',
        'controller_runtime_reconcile_total{controller="c",result="requeue"} 1.0',
        'controller_runtime_reconcile_total{controller="c",result="error"} 2.0',
        'controller_runtime_reconcile_errors_total{controller="c"} 2.0',
        'controller_runtime_terminal_reconcile_errors_total{controller="c"} 1.0',
        'controller_runtime_reconcile_time_seconds_count{controller="c"} 8.0',
        'controller_runtime_reconcile_time_seconds_bucket{controller="c",le="0.025"} 0.0',
        'controller_runtime_reconcile_time_seconds_bucket{controller="c",le="0.05"} 8.0',
        'controller_runtime_max_concurrent_reconciles{controller="c"} 8.0',
        'controller_runtime_active_workers{controller="c"} 0.0',
        'workqueue_depth{controller="c",name="c"} 0.0',
        'workqueue_adds_total{controller="c",name="c"} 8.0',
        'workqueue_retries_total{controller="c",name="c"} 1.0',
        'workqueue_work_duration_seconds_count{controller="c",name="c"} 8.0',
        'workqueue_queue_duration_seconds_count{controller="c",name="c"} 8.0',
        'workqueue_unfinished_work_seconds{controller="c",name="c"} 0.0',
        'compute_runtime_dropped_requests_total{controller="c",reason="empty_cluster"} 0.0',
        'compute_runtime_cache_objects{fleet="fleet",resource="widgets.example.com"} 6.0',
        'compute_runtime_clusters{fleet="fleet"} 1.0',
        'compute_runtime_lists_total{fleet="fleet",resource="widgets.example.com"} 1.0',
        'compute_runtime_watches_total{fleet="fleet",resource="widgets.example.com"} 1.0',
    ):
        assert line in lines, text


async def test_a_reconcile_that_does_not_end_is_counted_as_active() -> None:
    env, plane, registry = SimulatedEnvironment(), FakePlane(), MetricsRegistry()
    plane.put("a")

    async def hang(_: Request) -> None:
        await asyncio.sleep(10_000)

    fleet = StaticFleet("fleet", {"one": plane}, env)
    manager = Manager("test", env, metrics=registry)
    manager.add(Controller("c", fleet, hang, watches=[Watch(fleet, WIDGETS, itself)]))
    async with running(manager):
        await asyncio.sleep(100)

        longest = registry.gauge(
            "workqueue_longest_running_processor_seconds", "", "name", "controller"
        )
        assert 99 < longest.value("c", "c") <= 100
        active = registry.gauge("controller_runtime_active_workers", "", "controller")
        assert active.value("c") == 1


async def test_requests_that_cannot_run_are_counted() -> None:
    env, plane, registry = SimulatedEnvironment(), FakePlane(), MetricsRegistry()

    async def nothing(_: Request) -> None:
        return None

    fleet = StaticFleet("fleet", {"one": plane}, env)
    controller = Controller("c", fleet, nothing, watches=[Watch(fleet, WIDGETS, itself)])
    manager = Manager("test", env, metrics=registry)
    manager.add(controller)
    async with running(manager):
        await manager.wait_ready()
        controller.enqueue(Request("", "default", "a"))
        controller.enqueue(Request("elsewhere", "default", "a"))

        dropped = registry.counter(
            "compute_runtime_dropped_requests_total", "", "controller", "reason"
        )
        assert dropped.value("c", "empty_cluster") == 1
        assert dropped.value("c", "unengaged") == 1


def test_a_counter_that_does_not_end_in_total_is_refused() -> None:
    """Prometheus' client would print it under another name."""
    with pytest.raises(ValueError, match="_total"):
        MetricsRegistry().counter("requests", "Requests.")
