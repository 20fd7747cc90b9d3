"""Budgets 3, 9 and 11: a thousand Instances over ten cities, and a hundred in one."""

from __future__ import annotations

from collections.abc import Callable

from bench import budgets
from bench.deployment import Run, run_deployment
from bench.report import Result

CITIES = ("AMS", "ATL", "CDG", "DFW", "FRA", "IAD", "LHR", "NRT", "ORD", "SYD")
PER_CITY = 100


def measure() -> list[Result]:
    run = run_thousand()
    hundred = run_deployment(CITIES[:1], PER_CITY)
    return [
        Result(budgets.THOUSAND, run.seconds, {"CPU time of the platform": run.cpu_seconds}),
        Result(budgets.WRITES, run.writes.total() / run.instances, run.per_instance()),
        Result(budgets.ORDERED, hundred.seconds, {"CPU time of the platform": hundred.cpu_seconds}),
    ]


def run_thousand(
    *,
    on_start: Callable[[], object] = lambda: None,
    on_end: Callable[[], object] = lambda: None,
) -> Run:
    return run_deployment(CITIES, PER_CITY, on_start=on_start, on_end=on_end)
