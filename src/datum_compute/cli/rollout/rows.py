"""The rows of a rollout as a table shows them: one per placement and city."""

from __future__ import annotations

from typing import NamedTuple

from datum_compute.cli.explain import states
from datum_compute.cli.explain.reasons import explain
from datum_compute.cli.render.output import GAP, Cell, Colour
from datum_compute.cli.rollout.state import BLOCKED_AFTER_SECONDS, Phase, Row

HEADER = ("PLACEMENT", "CITY", "UPDATED", "READY", "OLD", "PHASE")
PHASE_WIDTH = max(len(phase) for phase in Phase)
PHASE_COLOURS = {
    Phase.PENDING: Colour.YELLOW,
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

    def cells(self) -> tuple[str, ...]:
        row = self.row
        text = f"{self.phase.ljust(PHASE_WIDTH)}{GAP}{self.reason_text}".rstrip()
        if row.removing:
            return (row.placement, row.city, "—", str(row.ready), str(row.replicas), text)
        counts = (f"{row.updated}/{row.target}", f"{row.ready}/{row.target}", str(row.old))
        return (row.placement, row.city, *counts, text)

    def coloured_cells(self) -> tuple[str | Cell, ...]:
        *cells, text = self.cells()
        phase = self.row.phase(stalled=self.stalled)
        return (*cells, Cell(text, None if self.row.removing else PHASE_COLOURS[phase]))
