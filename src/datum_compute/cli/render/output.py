"""Output formats: tables for people, JSON, YAML and names for programs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from itertools import pairwise
from typing import Any, NamedTuple

from datum_compute.cli import printable as marks
from datum_compute.cli.arguments import OneOf
from datum_compute.cli.context import Context
from datum_compute.cli.printable import printable

FORMATS = ("table", "wide", "json", "yaml", "name")
GAP = "   "
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


def add_output_flags(parser: argparse.ArgumentParser, *, default: str = "table") -> None:
    parser.add_argument(
        "-o",
        "--output",
        type=OneOf("-o", FORMATS),
        default=default,
        metavar="FORMAT",
        help="one of " + ", ".join(FORMATS),
    )
    parser.add_argument("--no-headers", action="store_true", help="print neither header nor footer")


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str | Cell]],
    *,
    headers: bool = True,
    colours: bool = False,
) -> str:
    """Left-aligned columns three spaces apart, without trailing spaces."""
    lines = [[_printable(cell) for cell in line] for line in ([header, *rows] if headers else rows)]
    columns = zip(*lines, strict=True)
    widths = [max(len(cell.text) for cell in column) for column in columns]
    drawn = []
    for line in lines:
        texts = [cell.text.ljust(width) for cell, width in zip(line, widths, strict=True)]
        texts[-1] = texts[-1].rstrip()
        if colours:
            texts = [_coloured(text, c.colour) for text, c in zip(texts, line, strict=True)]
        drawn.append(GAP.join(texts).rstrip())
    return "\n".join(drawn)


def cell_text(value: object) -> str:
    """A field of a view in a table, where nothing is a dash."""
    return NONE if value is None else str(value)


def _printable(cell: str | Cell) -> Cell:
    """Before its width is measured."""
    text, colour = cell if isinstance(cell, Cell) else (cell, None)
    return Cell(printable(text), colour)


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
    if wanted == "json":
        # JSON leaves one control character as it is.
        return json.dumps(views, indent=2).replace("\x7f", "\\u007f")
    if wanted == "yaml":
        import yaml

        dumped: str = yaml.safe_dump(views, sort_keys=False, allow_unicode=True)
        return dumped.rstrip()
    if wanted == "name":
        return "\n".join(names)
    return as_table(wanted == "wide")


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
    return (now - then).total_seconds() if then.timestamp() > 0 else None


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
