"""How data is shown: tables for people, JSON, YAML and names for programs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from datum_compute.cli.context import Context

FORMATS = ("table", "wide", "json", "yaml", "name")
GAP = "   "


def add_output_flags(parser: argparse.ArgumentParser, *, default: str = "table") -> None:
    parser.add_argument(
        "-o",
        "--output",
        choices=FORMATS,
        default=default,
        metavar="FORMAT",
        help="one of " + ", ".join(FORMATS),
    )
    parser.add_argument("--no-headers", action="store_true", help="print neither header nor footer")


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, headers: bool = True) -> str:
    """Left-aligned columns three spaces apart; nothing trails a line."""
    lines = [list(header), *rows] if headers else [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)] if lines else []
    return "\n".join(
        GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def show(
    context: Context,
    views: Sequence[Mapping[str, Any]] | Mapping[str, Any],
    *,
    as_table: Callable[[bool], str],
    names: Sequence[str],
) -> None:
    """Print ``views`` (a list, or one) in the format the command line asks for.

    ``as_table`` draws the table, wide or not; it is called only when one is wanted.
    """
    wanted: str = context.args.output
    if wanted == "json":
        context.show(json.dumps(views, indent=2))
    elif wanted == "yaml":
        import yaml

        context.show(yaml.safe_dump(views, sort_keys=False).rstrip())
    elif wanted == "name":
        if names:
            context.show("\n".join(names))
    else:
        text = as_table(wanted == "wide")
        if text:
            context.show(text)


def age(since: str, now: datetime) -> str:
    """``47s``, ``12m``, ``3h``, ``2d``: the largest whole unit."""
    try:
        seconds = int((now - datetime.fromisoformat(since)).total_seconds())
    except ValueError:
        return "—"
    return duration(seconds)


def elapsed(seconds: float) -> str:
    """How long something took: tenths matter while it is short."""
    return f"{seconds:.1f}s" if seconds < 10 else duration(seconds)


def duration(seconds: float) -> str:
    whole = max(0, int(seconds))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if whole >= size:
            return f"{whole // size}{unit}"
    return f"{whole}s"
