"""Text that is drawn again in place, on a terminal.

Rich does the drawing, so that lines are cut at the terminal's width, a resize does no harm
and what was there is removed cleanly. It is imported only here, and only when a
terminal is really there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from datum_compute.cli.context import Context

if TYPE_CHECKING:
    from rich.live import Live


class Display:
    """One block of lines on a terminal; the last state of it stays when it is closed."""

    def __init__(self, context: Context, stream: TextIO) -> None:
        self._colours = context.colours(stream)
        self._stream = stream
        self._live: Live | None = None

    def draw(self, text: str) -> None:
        from rich.text import Text

        live = self._live or self._begin()
        shown = Text.from_ansi(text) if self._colours else Text(text)
        shown.no_wrap, shown.overflow = True, "ellipsis"
        live.update(shown, refresh=True)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _begin(self) -> Live:
        from rich.console import Console
        from rich.live import Live

        console = Console(
            file=self._stream,
            force_terminal=True,
            no_color=not self._colours,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )
        # Drawn when there is something new; a thread would draw between lines.
        live = Live(
            console=console,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="ellipsis",
        )
        live.start()
        self._live = live
        return live
