"""``--watch``: reads and shows a screen again and again.

On a terminal the screen is redrawn in place. Elsewhere it is printed once, and then each line that
changes; programs get each changed view in the requested format.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, from_client
from datum_compute.cli.render.output import render
from datum_compute.client import errors

INTERVAL_SECONDS = 1.0
"""Between two reads. A guess: often enough for users, rare enough for servers."""
MAX_FAILURES = 10
"""How many reads may fail in a row before the watch ends."""

TRANSIENT_ERRORS = (errors.TransportFailure, errors.ServerError, errors.Throttled)
"""Failures that a retry may resolve."""


class ScreenLine(NamedTuple):
    """A line of a screen: what it is about, and what counts as a change of it."""

    key: str
    text: str
    compare: object = None
    """None means the text itself; ages and the like are left out of it."""
    is_row: bool = False
    """A row of a table: it is about an object, and its end is reported."""


class Screen(NamedTuple):
    """What a command shows, in every format."""

    views: Sequence[Mapping[str, Any]] | Mapping[str, Any]
    names: Sequence[str]
    lines: Sequence[ScreenLine] = ()
    footer: str = ""

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.lines)


ReadScreen = Callable[[], Screen]


def add_watch_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-w", "--watch", action="store_true", help="watch for changes")


def present(context: Context, read: ReadScreen) -> None:
    """Show the screen, once or until the user ends the watch."""
    if getattr(context.args, "watch", False):
        _follow(context, read)
        return
    screen = read()
    text = _drawn(context, screen)
    if text:
        context.show(text)
    if screen.footer and context.tables and not context.args.no_headers:
        context.say(screen.footer)


def _drawn(context: Context, screen: Screen) -> str:
    return render(
        context.args.output,
        screen.views,
        as_table=lambda _: screen.text,
        names=screen.names,
    )


def _follow(context: Context, read: ReadScreen) -> None:
    stdout = context.streams.stdout
    if context.tables and stdout.isatty():
        from datum_compute.cli.render.display import Display

        display = Display(context, stdout)
        try:
            _repeat(context, read, lambda screen: display.draw(_with_footer(context, screen)))
        finally:
            display.close()
    else:
        printer = _Printer(context)
        _repeat(context, read, printer.show)


def _with_footer(context: Context, screen: Screen) -> str:
    footer = "" if context.args.no_headers else screen.footer
    return "\n".join(part for part in (screen.text, footer) if part)


def _repeat(context: Context, read: ReadScreen, show: Callable[[Screen], None]) -> None:
    failures = 0
    while True:
        try:
            screen = read()
        except TRANSIENT_ERRORS as error:
            failures += 1
            if failures >= MAX_FAILURES:
                lost = from_client(error)
                raise CommandError(
                    f"lost contact with the platform: {lost.message}",
                    *lost.suggestions,
                    code="Unreachable",
                    retryable=True,
                ) from error
        else:
            failures = 0
            show(screen)
        context.reach.sleep(INTERVAL_SECONDS)


class _Printer:
    """Prints a screen once, and then what changes."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._lines: dict[str, object] = {}
        self._rows: list[str] = []
        self._views: dict[str, object] = {}
        self._begun = False

    def show(self, screen: Screen) -> None:
        if self.context.tables:
            self._show_lines(screen)
        else:
            self._show_views(screen)
        self._begun = True

    def _show_lines(self, screen: Screen) -> None:
        current = {
            line.key: line.text if line.compare is None else line.compare for line in screen.lines
        }
        if not self._begun:
            changed = [line.text for line in screen.lines]
        else:
            changed = [
                line.text
                for line in screen.lines
                if line.text and self._lines.get(line.key, _NOTHING) != current[line.key]
            ]
            changed += [f"{key} is gone" for key in self._rows if key not in current]
        self._lines = current
        self._rows = [line.key for line in screen.lines if line.is_row]
        if changed:
            self.context.show("\n".join(changed))

    def _show_views(self, screen: Screen) -> None:
        views = screen.views if isinstance(screen.views, Sequence) else [screen.views]
        for name, view in zip(screen.names, views, strict=True):
            compared = {key: value for key, value in view.items() if key not in ("age", "object")}
            if self.context.args.output == "name":
                compared = {}  # a name is all that is shown, so nothing else counts as a change
            if self._views.get(name, _NOTHING) != compared:
                self._views[name] = compared
                self.context.show(
                    render(self.context.args.output, view, as_table=lambda _: "", names=[name])
                )


_NOTHING = object()


def table_lines(text: str, keys: Sequence[str], compare: Sequence[object]) -> list[ScreenLine]:
    """The lines of a drawn table; rows have ``keys``, a header has none."""
    drawn_lines = text.split("\n") if text else []
    header = drawn_lines[: len(drawn_lines) - len(keys)]
    rows = drawn_lines[len(header) :]
    return [ScreenLine(f"header {i}", line) for i, line in enumerate(header)] + [
        ScreenLine(key, line, value, is_row=True)
        for key, line, value in zip(keys, rows, compare, strict=True)
    ]
