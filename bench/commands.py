"""Budget 6: how long a person waits for the command line itself.

Whole processes, started one after the other as a shell starts them; ours and kubectl take
turns, so that a slow minute of the machine is slow for both.
"""

from __future__ import annotations

import statistics

from bench import budgets
from bench.local import PROGRAM, local_platform, run, seconds_of
from bench.report import Result

RUNS = 20
WARM_UP = 2


def measure() -> list[Result]:
    helps = _helps()
    ours, theirs = _listings()
    milliseconds = {"ours, ms": 1000 * ours, "kubectl, ms": 1000 * theirs}
    return [
        Result(budgets.HELP, 1000 * statistics.median(helps)),
        Result(budgets.LISTING, ours / theirs, milliseconds),
    ]


def _helps() -> list[float]:
    command = [PROGRAM, "--help"]
    return [seconds_of(command) for _ in range(WARM_UP + RUNS)][WARM_UP:]


def _listings() -> tuple[float, float]:
    with local_platform() as local:
        image = "registry.example/bench:1"
        run(local.compute("deploy", "bench", "--image", image, "--city", "DFW,LHR", "--min", "10"))
        ours, theirs = local.compute("instances"), local.kubectl("get", "instances")
        pairs = [(seconds_of(ours), seconds_of(theirs)) for _ in range(WARM_UP + RUNS)][WARM_UP:]
    return statistics.median(pair[0] for pair in pairs), statistics.median(p[1] for p in pairs)
