"""Which conditions a kind carries, and for which reasons.

Each kind's module lists its own, out of documented constants; those of compute come from the
records of its reasons. The reference page and the tests read these lists; no controller does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from datum_compute.api.conditions import FALSE, TRUE, UNKNOWN


@dataclass(frozen=True, slots=True)
class DeclaredCondition:
    """A condition type, with the reasons each of its statuses may have."""

    type: str
    true: tuple[str, ...] = ()
    false: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    inherits_from: str = ""
    """Where further reasons come from, for a condition that repeats another's."""

    def reasons(self) -> Iterator[tuple[str, str]]:
        """Status and reason, True first."""
        for status, reasons in ((TRUE, self.true), (FALSE, self.false), (UNKNOWN, self.unknown)):
            for reason in reasons:
                yield status, reason
