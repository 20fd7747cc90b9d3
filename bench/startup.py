"""Budget 8: from ``local up --detach`` to ready, with an empty state directory."""

from __future__ import annotations

import statistics
import tempfile

from bench import budgets
from bench.local import PROGRAM, run, seconds_of
from bench.report import Result

STARTS = 3


def measure() -> list[Result]:
    seconds = [_start() for _ in range(STARTS)]
    return [Result(budgets.STARTUP, statistics.median(seconds))]


def _start() -> float:
    with tempfile.TemporaryDirectory(prefix="datum-compute-bench-") as directory:
        try:
            return seconds_of(
                [
                    PROGRAM,
                    "local",
                    "up",
                    "--detach",
                    "--runtime",
                    "simulated",
                    "--data-dir",
                    directory,
                ]
            )
        finally:
            run([PROGRAM, "local", "down", "--data-dir", directory])
