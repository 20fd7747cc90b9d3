"""Progress of a rollout: a row per placement and city.

On a terminal the rows are redrawn in place, with the time that has passed below them.
Elsewhere a row is printed as a line when it changes, in columns of fixed width.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import ceil

from datum_compute.cli.context import Context
from datum_compute.cli.render.display import Display
from datum_compute.cli.render.output import GAP, duration
from datum_compute.cli.render.printable import printable
from datum_compute.cli.rollout.rows import RowProgress, header, rollout_table
from datum_compute.runtime.tasks import TaskGroup

TICK_SECONDS = 0.5
"""How often a terminal is redrawn while nothing changes, for the elapsed time."""

NOTED_SECONDS = 1.0
"""How long a note must hold to be printed as a line: what a command has just changed is in the
condition a moment later. A guess."""


class Progress:
    """Prints rows as they change; ``as_data`` where they are the output of the command."""

    def __init__(self, context: Context, *, as_data: bool = False) -> None:
        self._context = context
        self._stream = context.streams.stdout if as_data else context.streams.stderr
        self._indent = "" if as_data else "  "
        self._headers = not (as_data and context.args.no_headers)
        self._display = Display(context, self._stream) if self._stream.isatty() else None
        self._colours = context.colours(self._stream)
        self._current: tuple[RowProgress, ...] = ()
        self._started: float | None = None
        self._watched_until: float | None = None
        self._note = ""
        self._noted: float | None = None
        """Since when there is a note that is not printed yet."""
        self._printed: dict[tuple[str, str, str], tuple[str, ...]] = {}
        self._columns: tuple[bool, bool] | None = None
        """Whether the printed lines have the columns OLD and WAVE; None before the first."""
        self._widths: list[int] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Inside, a terminal is redrawn as time passes; after it, the last state stays."""
        self._started = asyncio.get_running_loop().time()
        if self._display is None:
            yield
            return
        try:
            async with TaskGroup("progress") as tasks:
                ticking = tasks.start(self._tick(), name="tick")
                try:
                    yield
                finally:
                    await tasks.stop(ticking)
        finally:
            self._started = None  # the caller reports how long it took
            if self._current:
                self._redraw()
            self._display.close()

    def show(
        self,
        current: Sequence[RowProgress],
        *,
        watched_until: float | None = None,
        note: str = "",
    ) -> None:
        """``watched_until``: everything is done, and is watched to that time. ``note`` is about the
        rows as a whole. When no rows are left, the last ones stay."""
        if not current:
            return
        self._current = tuple(current)
        opened = watched_until is not None and watched_until != self._watched_until
        self._watched_until = watched_until
        if note != self._note:
            self._note = note
            self._noted = asyncio.get_running_loop().time() if note else None
        if self._display is not None:
            self._redraw()
            return
        self._print_changed(current)
        if self._noted is not None:
            held = asyncio.get_running_loop().time() - self._noted
            if held >= NOTED_SECONDS:
                self._noted = None
                self._context.say(self._indent + note)
        if opened and (left := self._left()):
            self._context.say(f"{self._indent}{left}")

    def _left(self) -> str:
        """How long it is still watched; empty if it is not."""
        if self._watched_until is None:
            return ""
        left = self._watched_until - asyncio.get_running_loop().time()
        seconds = ceil(round(left, 3))  # the sum of two times may be a little more than 10
        return f"healthy, watching for {duration(seconds)}" if seconds > 0 else ""

    def _print_changed(self, current: Sequence[RowProgress]) -> None:
        with_old = any(each.has_old for each in current)
        with_wave = any(each.has_wave for each in current)
        if self._columns is not None:  # a column that was there stays
            with_old, with_wave = with_old or self._columns[0], with_wave or self._columns[1]
        for each in current:
            cells = each.cells(with_old=each.has_old)
            if self._printed.get(each.key) == cells:
                continue
            if self._columns != (with_old, with_wave):
                self._begin(current, with_old, with_wave)
            self._printed[each.key] = cells
            self._line(each.cells(with_old=with_old, with_wave=with_wave))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if self._current:
                self._redraw()

    def _redraw(self) -> None:
        if self._display is None:
            return
        width = self._context.width(self._stream)
        text = rollout_table(
            self._current,
            headers=self._headers,
            colours=self._colours,
            width=width and width - len(self._indent),
            now=self._context.env.now(),
        )
        lines = [self._indent + line for line in text.split("\n")]
        if self._note:
            lines.append(self._indent + self._note)
        if self._started is not None:
            passed = asyncio.get_running_loop().time() - self._started
            lines.append(f"{self._indent}{self._left() or duration(passed)}")
        self._display.draw("\n".join(lines))

    def _begin(self, current: Sequence[RowProgress], with_old: bool, with_wave: bool) -> None:
        """Print the header, with columns wide enough for all later values."""
        titles = header(with_old=with_old, with_wave=with_wave)
        self._columns = with_old, with_wave
        self._widths = [len(title) for title in titles]
        for each in current:
            row = each.row
            count = f"{row.target}/{row.target}"
            old = [str(row.replicas)] if with_old else []
            wave = [""] if with_wave else []
            most = (*wave, row.placement, row.city, count, count, *old, "")
            self._widths = [max(w, len(c)) for w, c in zip(self._widths, most, strict=True)]
        if self._headers:
            self._line(titles)

    def _line(self, cells: tuple[str, ...]) -> None:
        self._widths = [max(w, len(c)) for w, c in zip(self._widths, cells, strict=True)]
        line = GAP.join(c.ljust(w) for c, w in zip(cells, self._widths, strict=True))
        print(printable(self._indent + line.rstrip()), file=self._stream, flush=True)
