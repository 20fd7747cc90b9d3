"""Budget 10: the latency of kubectl while a thousand Instances start.

The platform runs as a user starts it; kubectl lists the Instances repeatedly, as a new process
each time, until the workload counts all of them as ready.
"""

from __future__ import annotations

import json
import time

from bench import budgets
from bench.local import Local, local_platform, run
from bench.report import Result
from bench.samples import percentile, spread
from bench.thousand import CITIES, PER_CITY

LIMIT_SECONDS = 180.0
GRANT = "instances=100000,vcpus=100000000,memory=100000000"


def measure() -> list[Result]:
    with local_platform("--cities", ",".join(CITIES), "--grant", GRANT) as local:
        milliseconds = [1000 * seconds for seconds in _lists_during_deploy(local)]
    return [Result(budgets.KUBECTL, percentile(milliseconds, 0.99), spread(milliseconds, "ms"))]


def _lists_during_deploy(local: Local) -> list[float]:
    flags = ["--image", "registry.example/bench:1", "--city", ",".join(CITIES)]
    run(local.compute("deploy", "bench", *flags, "--min", str(PER_CITY), "--no-wait", "--yes"))
    taken: list[float] = []
    deadline = time.perf_counter() + LIMIT_SECONDS
    while _ready(local) < PER_CITY * len(CITIES):
        if time.perf_counter() > deadline:
            raise RuntimeError(f"{_ready(local)} Instances were ready after {LIMIT_SECONDS:g} s")
        for _ in range(5):
            start = time.perf_counter()
            run(local.kubectl("get", "instances"))
            taken.append(time.perf_counter() - start)
    return taken


def _ready(local: Local) -> int:
    status = json.loads(run(local.kubectl("get", "workload", "bench", "-o", "json")))["status"]
    return int(status.get("readyReplicas", 0))
