"""The rows of a rollout as a table shows them: one per placement and city."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from datum_compute.cli.explain import states
from datum_compute.cli.explain.reasons import explain
from datum_compute.cli.render.output import GAP, Cell, Colour, table
from datum_compute.cli.rollout.state import BLOCKED_AFTER_SECONDS, Phase, Row

HEADER = ("PLACEMENT", "CITY", "UPDATED", "READY", "PHASE")
OLD_COLUMN, OLD_TITLE = 4, "OLD"
"""Where the column goes that is there only while a row has something old."""
PHASE_WIDTH = max(len(phase) for phase in Phase)
PHASE_COLOURS = {
    Phase.PENDING: Colour.YELLOW,
    Phase.CREATING: Colour.YELLOW,
    Phase.UPDATING: Colour.YELLOW,
    Phase.BLOCKED: Colour.RED,
    Phase.DONE: Colour.GREEN,
}


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
        """The blocking reason, preceded by its summary if the user or the platform must act."""
        blocking = self.row.blocking_reason
        if self.row.stays_until:
            return states.stays_until(self.row.stays_until)
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

    def cells(self, *, with_old: bool) -> tuple[str, ...]:
        row = self.row
        text = f"{self.phase.ljust(PHASE_WIDTH)}{GAP}{self.reason_text}".rstrip()
        updated, ready, old = f"{row.updated}/{row.target}", f"{row.ready}/{row.target}", row.old
        if row.removing:
            updated, ready, old = "—", str(row.ready), row.replicas
        return (row.placement, row.city, updated, ready, *([str(old)] if with_old else []), text)

    def coloured_cells(self, *, with_old: bool) -> tuple[str | Cell, ...]:
        *cells, text = self.cells(with_old=with_old)
        phase = self.row.phase(stalled=self.stalled)
        return (*cells, Cell(text, None if self.row.removing else PHASE_COLOURS[phase]))


def header(*, with_old: bool) -> tuple[str, ...]:
    old = (OLD_TITLE,) if with_old else ()
    return (*HEADER[:OLD_COLUMN], *old, *HEADER[OLD_COLUMN:])


def rollout_table(
    rows: Sequence[RowProgress], *, headers: bool, colours: bool, width: int | None
) -> str:
    with_old = any(each.has_old for each in rows)
    cells = [each.coloured_cells(with_old=with_old) for each in rows]
    titles = header(with_old=with_old)
    return table(titles, cells, headers=headers, colours=colours, width=width)
