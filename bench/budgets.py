"""What is wanted of the product, in numbers."""

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


CREATES = Budget(1, "durable creates of a 1 KB custom resource, 16 HTTPS clients", "/s", 1800, 4300)
GETS = Budget(1, "gets of the same", "/s", 4000, 10_000)
THOUSAND = Budget(3, "1,000 Instances over 10 cities, from deploy to all Available", "s", 20, 5)
STARTUP = Budget(8, "`local up` to ready, empty", "s", 5, 1.5)
WRITES = Budget(9, "writes per Instance from create to Available, all planes", "", 28, 18)
