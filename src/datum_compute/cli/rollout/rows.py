"""The rows of a rollout as a table shows them: one per placement and city."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from datum_compute.cli.explain import states
from datum_compute.cli.explain.reasons import explain
from datum_compute.cli.render.output import GAP, NONE, Cell, Colour, table
from datum_compute.cli.rollout.state import BLOCKED_AFTER_SECONDS, Phase, Row

HEADER = ("PLACEMENT", "CITY", "UPDATED", "READY", "PHASE")
OLD_COLUMN, OLD_TITLE = 4, "OLD"
"""Where the column goes that is there only while a row has something old."""
WAVE_TITLE = "WAVE"
"""The first column of a rollout in waves."""
PHASE_WIDTH = max(len(phase) for phase in Phase)
PHASE_COLOURS = {
    Phase.PENDING: Colour.YELLOW,
    Phase.CREATING: Colour.YELLOW,
    Phase.UPDATING: Colour.YELLOW,
    Phase.STARTING: Colour.YELLOW,
    Phase.STOPPING: Colour.YELLOW,
    Phase.STOPPED: Colour.YELLOW,
    Phase.BLOCKED: Colour.RED,
    Phase.DONE: Colour.GREEN,
    Phase.WAITING: Colour.YELLOW,
    Phase.SOAKING: Colour.GREEN,
    Phase.FAILED: Colour.RED,
    Phase.UNDONE: Colour.RED,
    Phase.SKIPPED: Colour.YELLOW,
}
DONE_MARK = " ✓"
"""Behind a row whose wave is complete."""


class RowProgress(NamedTuple):
    """A row, and whether it has made no progress for too long."""

    row: Row
    stalled: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        return self.row.placement, self.row.city, self.row.deployment if self.row.removing else ""

    @property
    def phase(self) -> str:
        if self.row.stays_until:
            return "Waiting"
        return "Removing" if self.row.removing else self.row.phase(stalled=self.stalled).value

    @property
    def reason_text(self) -> str:
        return self.text_at(None)

    def text_at(self, now: datetime | None) -> str:
        """What a rollout in waves waits for, or else the blocking reason, preceded by its summary
        if the user or the platform must act. ``now`` is for a text that is redrawn."""
        blocking, wave = self.row.blocking_reason, self.row.wave
        if self.row.stays_until:
            return states.stays_until(self.row.stays_until)
        explained = blocking is not None and self.row.phase() is Phase.FAILED
        if wave is not None and not explained and (text := wave.text(now)):
            return states.clean_message(text)
        if blocking is None or self.row.done:
            return f"no progress for {BLOCKED_AFTER_SECONDS:.0f}s" if self.stalled else ""
        text = states.one_line_reason(blocking)
        return (
            f"{explain(blocking.reason).summary}: {text}" if blocking.record.needs_action else text
        )

    @property
    def has_old(self) -> bool:
        """Whether Instances of an older template are known to be left: a cell that has not
        observed the newest spec may have nothing to replace."""
        return self.row.removing or (self.row.reported and self.row.old > 0)

    @property
    def has_wave(self) -> bool:
        return self.row.wave is not None

    def cells(
        self, *, with_old: bool, with_wave: bool = False, now: datetime | None = None
    ) -> tuple[str, ...]:
        row = self.row
        completed = row.wave is not None and row.wave.phase is Phase.DONE and row.done
        phase = self.phase + DONE_MARK if completed else self.phase
        text = f"{phase.ljust(PHASE_WIDTH)}{GAP}{self.text_at(now)}".rstrip()
        wave = [str(row.wave.number) if row.wave else NONE] if with_wave else []
        updated, ready, old = f"{row.updated}/{row.target}", f"{row.ready}/{row.target}", row.old
        if row.removing:
            updated, ready, old = "—", str(row.ready), row.replicas
        counts = (updated, ready, *([str(old)] if with_old else []))
        return (*wave, row.placement, row.city, *counts, text)

    def coloured_cells(
        self, *, with_old: bool, with_wave: bool, now: datetime | None
    ) -> tuple[str | Cell, ...]:
        *cells, text = self.cells(with_old=with_old, with_wave=with_wave, now=now)
        phase = self.row.phase(stalled=self.stalled)
        return (*cells, Cell(text, None if self.row.removing else PHASE_COLOURS[phase]))


def header(*, with_old: bool, with_wave: bool) -> tuple[str, ...]:
    old = (OLD_TITLE,) if with_old else ()
    wave = (WAVE_TITLE,) if with_wave else ()
    return (*wave, *HEADER[:OLD_COLUMN], *old, *HEADER[OLD_COLUMN:])


def rollout_table(
    rows: Sequence[RowProgress],
    *,
    headers: bool,
    colours: bool,
    width: int | None,
    now: datetime,
) -> str:
    with_old = any(each.has_old for each in rows)
    with_wave = any(each.has_wave for each in rows)
    cells = [each.coloured_cells(with_old=with_old, with_wave=with_wave, now=now) for each in rows]
    titles = header(with_old=with_old, with_wave=with_wave)
    return table(titles, cells, headers=headers, colours=colours, width=width)
