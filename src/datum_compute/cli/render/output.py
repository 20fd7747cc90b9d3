"""Output formats: tables for people, JSON, YAML and names for programs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

from datum_compute.cli.arguments import OneOf
from datum_compute.cli.context import Context

FORMATS = ("table", "wide", "json", "yaml", "name")
GAP = "   "
NONE = "—"
"""What a table shows where there is nothing."""

Paint = Callable[[str, str], str]
"""Colours a cell: given its column's title and its padded text."""

_COLOURED = frozenset({"STATUS", "HEALTH", "PHASE"})
_GREEN, _YELLOW, _RED = "32", "33", "31"
_COLOURS = {
    "Available": _GREEN,
    "Done": _GREEN,
    "Degraded": _YELLOW,
    "Pending": _YELLOW,
    "Starting": _YELLOW,
    "Updating": _YELLOW,
    "Unknown": _YELLOW,
    "Failed": _RED,
    "Blocked": _RED,
    "Unavailable": _RED,
}


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
    rows: Sequence[Sequence[str]],
    *,
    headers: bool = True,
    paint: Paint | None = None,
) -> str:
    """Left-aligned columns three spaces apart, without trailing spaces."""
    lines = [list(header), *rows] if headers else [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)] if lines else []
    drawn = []
    for number, line in enumerate(lines):
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        cells[-1] = cells[-1].rstrip()
        if paint is not None and not (headers and number == 0):
            cells = [paint(title, cell) for title, cell in zip(header, cells, strict=True)]
        drawn.append(GAP.join(cells).rstrip())
    return "\n".join(drawn)


def painter(context: Context) -> Paint | None:
    """Colours for the states in a table; none off a terminal."""
    return colour_cell if context.colours(context.streams.stdout) else None


def colour_cell(title: str, cell: str) -> str:
    words = cell.split()
    colour = _COLOURS.get(words[0]) if title in _COLOURED and words else None
    return f"\x1b[{colour}m{cell}\x1b[0m" if colour else cell


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
        return json.dumps(views, indent=2)
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


def precise_duration(seconds: float) -> str:
    """``1m12s``: two units, for how long something has lasted."""
    whole = max(0, int(seconds))
    units = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
    for (size, unit), (next_size, next_unit) in pairwise(units):
        if whole >= size:
            rest = whole % size // next_size
            return f"{whole // size}{unit}" + (f"{rest}{next_unit}" if rest else "")
    return f"{whole}s"


def duration(seconds: float) -> str:
    whole = max(0, int(seconds))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if whole >= size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
