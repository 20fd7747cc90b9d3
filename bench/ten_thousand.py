"""Budgets 4 and 7: ten thousand Instances over fifty cities, and what they occupy.

The run has its own process, so that its memory is the platform's. The file is measured when the
history of the run has been compacted, five minutes later as on any platform. A thousand are
started before and right after it, as the host's speed is not steady.
"""

from __future__ import annotations

import json
import subprocess
import sys

from bench import budgets
from bench.report import Result
from bench.thousand import run_thousand


def measure() -> list[Result]:
    before = run_thousand()
    command = [sys.executable, "-m", "bench.ten_thousand_process"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        found = json.loads(process.stdout.readline() or "{}")
        after = run_thousand()  # while the other process only waits
        found |= json.loads(process.stdout.readline() or "{}")
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    details = {
        "seconds for 1,000 before": before.seconds,
        "seconds for 1,000 after": after.seconds,
        "seconds for 10,000": found["seconds"],
        "CPU seconds for 1,000 before": before.cpu_seconds,
        "CPU seconds for 1,000 after": after.cpu_seconds,
        "CPU seconds for 10,000": found["cpu_seconds"],
    }
    growth = found["seconds"] / ((before.seconds + after.seconds) / 2)
    live = found["live_bytes"]
    return [
        Result(budgets.GROWTH, growth, details),
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
