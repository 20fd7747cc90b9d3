"""Budgets 4 and 7: ten thousand Instances over fifty cities, and what they occupy.

The run has a process of its own, so that its memory is the platform's. The file is looked at
when the history of the run has been given up, as it is five minutes later on any platform.
"""

from __future__ import annotations

import json
import subprocess
import sys

from bench import budgets
from bench.report import Result
from bench.thousand import run_thousand


def measure() -> list[Result]:
    thousand = run_thousand()
    command = [sys.executable, "-m", "bench.ten_thousand_process"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    found = json.loads(done.stdout)
    details = {
        "seconds for 1,000": thousand.seconds,
        "seconds for 10,000": found["seconds"],
        "CPU seconds for 1,000": thousand.cpu_seconds,
        "CPU seconds for 10,000": found["cpu_seconds"],
    }
    live = found["live_bytes"]
    return [
        Result(budgets.GROWTH, found["seconds"] / thousand.seconds, details),
        Result(
            budgets.MEMORY,
            found["resident_bytes"] / 1e6,
            {"right after the run": found["resident_bytes_at_once"] / 1e6},
        ),
        Result(
            budgets.FILE,
            found["file_bytes"] / live,
            {"live data, MB": live / 1e6, "file, MB": found["file_bytes"] / 1e6},
        ),
    ]
