"""Output formats: tables for people, JSON, YAML and names for programs."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from itertools import pairwise
from typing import Any, NamedTuple

from datum_compute.cli.arguments import OneOf, Parser
from datum_compute.cli.context import Context
from datum_compute.cli.render import printable as marks
from datum_compute.cli.render.printable import printable

FORMATS = ("table", "wide", "json", "yaml", "name")
RESULT_FIELDS = (
    "`name`, `action`, `image`, `revision` (where the command makes one), `url`, `instances`"
    " (`name`, `city`, `address`; where it has waited for them)"
)
"""Of a command that writes; :mod:`.results` builds its view."""

GAP = "   "
LEAST_COLUMN = 6
"""What a column is shortened to before it is left out. A guess: a few letters tell values apart."""
NONE = "—"
"""What a table shows where there is nothing."""


class Colour(Enum):
    """By its mark."""

    GREEN = marks.GREEN
    YELLOW = marks.YELLOW
    RED = marks.RED


class Cell(NamedTuple):
    """A text in a table, in the colour of the state behind it."""

    text: str
    colour: Colour | None = None


def add_output_flags(parser: argparse.ArgumentParser, fields: str) -> None:
    """``fields`` of its view, as the reference lists them."""
    assert isinstance(parser, Parser)
    parser.json_fields = fields
    parser.add_argument(
        "-o",
        "--output",
        type=OneOf("-o", FORMATS),
        default="table",
        metavar="FORMAT",
        help="one of " + ", ".join(FORMATS),
    )
    parser.add_argument("--no-headers", action="store_true", help="print neither header nor footer")


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str | Cell]],
    *,
    width: int | None,
    headers: bool = True,
    colours: bool = False,
    least: Sequence[str] = (),
) -> str:
    """Left-aligned columns three spaces apart, without trailing spaces.

    Within ``width``, if there is one: the columns in ``least``, the least important first, are
    shortened before the others, and left out where that is not enough.
    """
    lines = [[_printable(cell) for cell in line] for line in ([header, *rows] if headers else rows)]
    columns = zip(*lines, strict=True)
    widths = [max(len(cell.text) for cell in column) for column in columns]
    if width is not None:
        named = [header.index(title) for title in least if title in header]
        others = [at for at in reversed(range(1, len(header))) if at not in named]
        widths = _fitted(widths, width, (named, others))
    drawn = []
    for line in lines:
        cells = [(c.colour, _cut(c.text, w)) for c, w in zip(line, widths, strict=True) if w]
        if not colours:
            cells = [(None, text) for _, text in cells]
        cells[-1] = (cells[-1][0], cells[-1][1].rstrip())
        drawn.append(GAP.join(_coloured(text, colour) for colour, text in cells).rstrip())
    return "\n".join(drawn)


def _fitted(widths: Sequence[int], width: int, groups: Sequence[Sequence[int]]) -> list[int]:
    """The widths of columns that fit together; 0 for one that is left out. In each of ``groups``
    the columns shrink in order and are then left out in order; the first column is cut last."""
    found = list(widths)

    def excess() -> int:
        shown = [each for each in found if each]
        return sum(shown) + len(GAP) * (len(shown) - 1) - width

    for group in groups:
        for at in group:
            if excess() > 0:
                found[at] = min(found[at], max(LEAST_COLUMN, found[at] - excess()))
        for at in group:
            if excess() > 0:
                found[at] = 0
    found[0] = max(1, found[0] - max(0, excess()))
    for at in reversed([at for group in groups for at in group]):
        if found[at]:  # what was left out made room
            found[at] = min(widths[at], found[at] + max(0, -excess()))
    return found


def _cut(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"


def cell_text(value: object) -> str:
    """A field of a view in a table, where nothing is a dash."""
    return NONE if value is None else str(value)


def _printable(cell: str | Cell) -> Cell:
    """On one line, before its width is measured."""
    text, colour = cell if isinstance(cell, Cell) else (cell, None)
    return Cell(printable(one_line(text)), colour)


def one_line(text: str) -> str:
    """``text`` with a space for each line break and tab, and what is blank around them."""
    return re.sub(r"\s*[\r\n\t]\s*", " ", text)


def _coloured(text: str, colour: Colour | None) -> str:
    return text if colour is None else f"{colour.value}{text}{marks.PLAIN}"


def show(
    context: Context,
    views: Sequence[Mapping[str, Any]] | Mapping[str, Any],
    *,
    as_table: Callable[[bool], str],
    names: Sequence[str],
) -> None:
    """Print ``views`` (a list, or one) in the requested format.

    ``as_table`` draws the table, wide or not; it is called only when one is wanted.
    """
    text = render(context.args.output, views, as_table=as_table, names=names)
    if text:
        context.show(text)


def render(
    wanted: str,
    views: Sequence[Mapping[str, Any]] | Mapping[str, Any],
    *,
    as_table: Callable[[bool], str],
    names: Sequence[str],
) -> str:
    if wanted in ("json", "yaml"):
        return dump(wanted, views)
    if wanted == "name":
        return "\n".join(names)
    return as_table(wanted == "wide")


def dump(wanted: str, value: object) -> str:
    """As JSON or YAML."""
    if wanted == "json":
        # JSON leaves one control character as it is.
        return json.dumps(value, indent=2).replace("\x7f", "\\u007f")
    import yaml

    dumped: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    return dumped.rstrip()


def age(since: str, now: datetime) -> str:
    """``47s``, ``12m``, ``3h``, ``2d``: the largest whole unit."""
    seconds = seconds_since(since, now)
    return NONE if seconds is None else duration(seconds)


def seconds_since(since: str, now: datetime) -> float | None:
    """None if ``since`` is not a time, or the zero time."""
    try:
        then = datetime.fromisoformat(since)
    except ValueError:
        return None
    if then.tzinfo is None or then.timestamp() <= 0:
        return None
    return (now - then).total_seconds()


def elapsed(seconds: float) -> str:
    """How long something took: tenths matter while it is short."""
    return f"{seconds:.1f}s" if seconds < 10 else duration(seconds)


def duration(seconds: float) -> str:
    """``12m``: the largest unit."""
    return _units_of(seconds)[0]


def precise_duration(seconds: float) -> str:
    """``1m12s``: two units, for how long something has lasted."""
    return "".join(_units_of(seconds))


def _units_of(seconds: float) -> list[str]:
    """The largest unit of a duration, and the next one where that is not 0."""
    whole = max(0, int(seconds))
    units = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
    for (size, unit), (next_size, next_unit) in pairwise(units):
        if whole >= size:
            rest = whole % size // next_size
            return [f"{whole // size}{unit}", *([f"{rest}{next_unit}"] if rest else [])]
    return [f"{whole}s"]


def count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
