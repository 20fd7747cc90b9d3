"""What a reconcile may return or raise, and what follows from each.

============================  =====================================================
returned ``DONE`` (or None)   wait for the next event
returned ``after(seconds)``   run again then, or at the next event if that is sooner
raised :class:`Waiting`       the same, but something outside is awaited: logged with its
                              reason at debug level, not counted as an error
raised :class:`Terminal`      no retry until the object changes; logged as an error once
raised ``Conflict``           another write came first: retried soon, not logged as an error
raised anything else          logged, counted, and retried with growing delay
============================  =====================================================
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    delay: float | None = None
    """Seconds until the next run even without an event; None for never."""


DONE = Result()


def after(seconds: float) -> Result:
    return Result(seconds)


class Waiting(Exception):
    """Something outside must happen first."""

    def __init__(self, reason: str, delay: float) -> None:
        super().__init__(reason)
        self.reason = reason
        self.delay = delay


class Terminal(Exception):
    """No retry can help until the object changes."""
