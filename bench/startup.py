"""Budget 8: from ``local up --detach`` to ready, with an empty state directory."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time

from bench import budgets
from bench.report import Result

STARTS = 3
LIMIT_SECONDS = 90.0


def measure() -> list[Result]:
    seconds = [_start() for _ in range(STARTS)]
    return [Result(budgets.STARTUP, statistics.median(seconds))]


def _start() -> float:
    with tempfile.TemporaryDirectory(prefix="datum-compute-bench-") as directory:
        try:
            start = time.perf_counter()
            _local("up", "--detach", "--data-dir", directory)
            return time.perf_counter() - start
        finally:
            _local("down", "--data-dir", directory)


def _local(*arguments: str) -> None:
    command = [sys.executable, "-m", "datum_compute.cli", "local", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"local {arguments[0]} ended with {done.returncode}: {done.stderr}")
