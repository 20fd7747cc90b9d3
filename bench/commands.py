"""Budget 6: how long a user waits for the command line itself.

Whole processes, started one after the other as a shell starts them; ours and kubectl take
turns, so that a slow minute of the machine is slow for both. Besides the elapsed time, which a
user waits for, the details have the CPU time of each process: on a busy machine that is the
steadier of the two.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple

from bench import budgets
from bench.local import PROGRAM, Local, local_platform, run
from bench.report import Result

RUNS = 20
WARM_UP = 2
LEFT_OUT = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
"""What a shell of a person does not set: compiled modules are kept, as an installation does."""

OTHERS = {
    "workloads": ("get", "workloads"),
    "cities": ("get", "locationbindings"),
    "quota": ("get", "allowancebuckets", "--namespace", "milo-system"),
    "rollout history bench": ("get", "configmaps"),
}
"""Our other reads, and the arguments of kubectl for the same objects."""


class Taken(NamedTuple):
    """By one process, in milliseconds."""

    wall: float
    cpu: float


def measure() -> list[Result]:
    helps = [taken([PROGRAM, "--help"]) for _ in range(WARM_UP + RUNS)][WARM_UP:]
    ours, theirs, others = _listings()
    details = {
        "ours, ms": ours.wall,
        "kubectl, ms": theirs.wall,
        "ours, CPU ms": ours.cpu,
        "kubectl, CPU ms": theirs.cpu,
        **{f"{name} against kubectl": ratio for name, ratio in others.items()},
    }
    return [
        Result(budgets.HELP, median(helps).wall, {"CPU ms": median(helps).cpu}),
        Result(budgets.LISTING, ours.wall / theirs.wall, details),
    ]


def _listings() -> tuple[Taken, Taken, dict[str, float]]:
    with local_platform() as local:
        image = "registry.example/bench:1"
        run(
            local.compute(
                "deploy",
                "bench",
                "--image",
                image,
                "--city",
                "DFW,LHR",
                "--min",
                "10",
                "--window",
                "0s",
            )
        )
        ours, theirs = in_turn(local, ("instances",), ("get", "instances"))
        others = {}
        for name, words in OTHERS.items():
            mine, kubectls = in_turn(local, name.split(), words)
            others[name] = mine.wall / kubectls.wall
    return ours, theirs, others


def in_turn(local: Local, ours: Sequence[str], theirs: Sequence[str]) -> tuple[Taken, Taken]:
    commands = local.compute(*ours), local.kubectl(*theirs)
    pairs = [tuple(map(taken, commands)) for _ in range(WARM_UP + RUNS)][WARM_UP:]
    return median([pair[0] for pair in pairs]), median([pair[1] for pair in pairs])


def median(found: Sequence[Taken]) -> Taken:
    return Taken(statistics.median(t.wall for t in found), statistics.median(t.cpu for t in found))


def taken(command: Sequence[str]) -> Taken:
    """Run it without input, and discard its output."""
    variables = {key: value for key, value in os.environ.items() if key not in LEFT_OUT}
    nowhere = os.open(os.devnull, os.O_RDWR)
    redirections = [(os.POSIX_SPAWN_DUP2, nowhere, descriptor) for descriptor in range(3)]
    try:
        start = time.perf_counter()
        child = os.posix_spawn(command[0], tuple(command), variables, file_actions=redirections)
        _, status, used = os.wait4(child, 0)
        wall = time.perf_counter() - start
    finally:
        os.close(nowhere)
    if status != 0:
        raise RuntimeError(f"`{' '.join(command)}` ended with {os.waitstatus_to_exitcode(status)}")
    return Taken(1000 * wall, 1000 * (used.ru_utime + used.ru_stime))
