"""How the rows of a rollout move: when each last made progress, and whether they stay done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from datum_compute.cli.rollout.rows import RowProgress
from datum_compute.cli.rollout.state import BLOCKED_AFTER_SECONDS, Row


@dataclass
class Movement:
    """When each row last made progress, and since when quota or placement refuse it."""

    _seen: dict[tuple[str, str, str], tuple[tuple[object, ...], float]] = field(
        default_factory=dict
    )
    _refused: dict[tuple[str, str, str], float] = field(default_factory=dict)

    def update(self, rows: Sequence[Row], now: float) -> list[RowProgress]:
        """The rows, each with whether it has stalled."""
        current = [RowProgress(row) for row in rows]
        for progress in current:
            row = progress.row
            state = _state(row)
            if progress.key not in self._seen or self._seen[progress.key][0] != state:
                self._seen[progress.key] = (state, now)
            blocking = row.blocking_reason
            if blocking is None or not blocking.record.fails_after_grace or row.done:
                self._refused.pop(progress.key, None)
            else:
                self._refused.setdefault(progress.key, now)
        return [
            RowProgress(progress.row, stalled=self._idle(progress, now)) for progress in current
        ]

    def _idle(self, progress: RowProgress, now: float) -> bool:
        row = progress.row
        if row.done or row.removing or (row.wave is not None and row.wave.phase is not None):
            return False
        return now - self._seen[progress.key][1] >= BLOCKED_AFTER_SECONDS

    def given_up(self, progress: RowProgress, now: float) -> bool:
        """Whether quota or placement have refused a row for longer than the grace period."""
        since = self._refused.get(progress.key)
        return since is not None and now - since >= BLOCKED_AFTER_SECONDS

    def left(self, now: float) -> float:
        """Seconds until a row stalls or a grace period ends."""
        moments = [since for _, since in self._seen.values()] + list(self._refused.values())
        ahead = [since + BLOCKED_AFTER_SECONDS - now for since in moments]
        return min((left for left in ahead if left > 0), default=inf)


def _state(row: Row) -> tuple[object, ...]:
    """What counts as progress: numbers and the reason, not the text of a message."""
    reason = row.blocking_reason.reason if row.blocking_reason else ""
    counters = (row.target, row.replicas, row.updated, row.ready)
    return (row.deployment, row.reported, *counters, reason)


class Window:
    """The time after a rollout is done in which it must stay so."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.end: float | None = None
        """None while the rollout is not done."""
        self._versions: frozenset[tuple[str, int]] = frozenset()

    def update(
        self,
        current: Sequence[RowProgress],
        done: bool,
        versions: frozenset[tuple[str, int]],
        now: float,
    ) -> tuple[RowProgress, float] | None:
        """Open it when the rollout is done. A row of which an instance stops being ready in it, and
        after how many seconds.

        A deployment that was changed since, as by a restart in one city, is no failure: it rolls
        once more, and the window opens anew after that."""
        if done:
            if self.end is None or versions != self._versions:
                self.end = now + self._seconds
            self._versions = versions
            return None
        opened = self.end is not None and versions == self._versions
        seconds = now + self._seconds - self.end if self.end is not None else 0
        self.end = None
        sick = [each for each in current if opened and each.row.ready < each.row.target]
        return (sick[0], seconds) if sick else None

    def is_over(self, now: float) -> bool:
        return self.end is not None and now >= self.end

    def left(self, now: float) -> float:
        return inf if self.end is None else max(0.0, self.end - now)
