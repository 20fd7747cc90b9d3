"""The goals and floors of the product, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    GOAL = "goal met"
    FLOOR = "floor met"
    MISSED = "FLOOR MISSED"
    FAILED = "NOT MEASURED"


@dataclass(frozen=True)
class Budget:
    number: int
    what: str
    unit: str
    floor: float
    """What must hold."""
    goal: float
    """What we want."""

    @property
    def more_is_better(self) -> bool:
        return self.goal > self.floor

    def verdict(self, value: float | None) -> Verdict:
        if value is None:
            return Verdict.FAILED
        if self._reaches(value, self.goal):
            return Verdict.GOAL
        return Verdict.FLOOR if self._reaches(value, self.floor) else Verdict.MISSED

    def _reaches(self, value: float, mark: float) -> bool:
        return value >= mark if self.more_is_better else value <= mark


CREATES = Budget(
    1,
    "durable creates of a 1 KB custom resource, 16 HTTPS clients, against kube-apiserver",
    "x",
    4,
    8,
)
GETS = Budget(1, "gets of the same", "x", 5, 10)
PATCHES = Budget(1, "merge patches of the same", "x", 4, 8)
APPLIES = Budget(1, "server-side applies of the same", "x", 4, 8)
WATCH = Budget(2, "watch delivery, 99th percentile, 100 watchers, 200 writes/s", "ms", 50, 8)
WATCH_BESIDE = Budget(2, "the same, against kube-apiserver", "x", 1.2, 1.0)
THOUSAND = Budget(3, "1,000 Instances over 10 cities, from deploy to all Available", "s", 20, 5)
GROWTH = Budget(4, "10,000 Instances over 50 cities, against the time of 1,000", "x", 12, 10)
REPORT = Budget(5, "cell status to project Instance and counters, 99th percentile", "ms", 250, 50)
HELP = Budget(6, "the command line's `--help`", "ms", 60, 35)
LISTING = Budget(6, "`instances` against `kubectl get instances`", "x", 1.0, 0.5)
MEMORY = Budget(7, "resident memory of a local platform with 10,000 Instances", "MB", 2000, 700)
FILE = Budget(7, "size of its file against its live data", "x", 3, 2)
STARTUP = Budget(8, "`local up` to ready, empty", "s", 5, 1.5)
WRITES = Budget(9, "writes per Instance from create to Available, all planes", "", 28, 18)
KUBECTL = Budget(10, "`kubectl get` while number 3 runs, 99th percentile", "ms", 500, 100)
ORDERED = Budget(11, "100 ordered Instances in one cell", "s", 3, 0.7)
WORKLOADS = Budget(
    12, "5,000 Workloads in one namespace, against the time of 500, on one core", "x", 12, 10
)
STARTED = Budget(13, "50 Workloads as containers until started, against the engine", "x", 1.3, 1.1)
RESTING = Budget(13, "an idle platform with 50 containers, of one core", "%", 1, 0.2)
HOSTILE = Budget(14, "longest wait for another client's single request", "ms", 100, 20)
ROUTED = Budget(15, "added by the router at 100 requests/s, median", "ms", 5, 2)
RECONCILES = Budget(20, "reconciles with a status write, over HTTPS, against kopf", "x", 10, 20)
IDLE = Budget(21, "a manager with 50 clusters of 10 kinds each, idle, of one core", "%", 2, 1)
CACHED = Budget(22, "memory per cached object of 1 KB, in the manager", "KB", 6, 3)
