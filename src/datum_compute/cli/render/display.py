"""Text that is drawn again in place, on a terminal.

Rich draws, so that lines are cut at the terminal's width, and a resize or a shorter text leaves
nothing behind. It is imported only here, and only on a terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from datum_compute.cli.context import Context
from datum_compute.cli.render.printable import printable, printable_with_colours

if TYPE_CHECKING:
    from rich.live import Live


class Display:
    """A block of lines on a terminal; its last state stays after it is closed."""

    def __init__(self, context: Context, stream: TextIO) -> None:
        self._colours = context.colours(stream)
        self._stream = stream
        self._live: Live | None = None

    def draw(self, text: str) -> None:
        from rich.text import Text

        live = self._live or self._begin()
        if self._colours:
            shown = Text.from_ansi(printable_with_colours(text))
        else:
            shown = Text(printable(text))
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
