"""``cities``: where the project can run instances."""

from __future__ import annotations

import argparse
from typing import Any

from datum_compute.cli import queries
from datum_compute.cli.arguments import set_examples
from datum_compute.cli.context import Context
from datum_compute.cli.explain import states
from datum_compute.cli.render.output import NONE, Cell, Colour, add_output_flags, count, table
from datum_compute.cli.render.watch import Screen, present, table_lines

COLUMNS = {"CITY": "city", "NAME": "displayName", "STATUS": "status"}
WIDE = {**COLUMNS, "LOCATION": "location", "CLASS": "class"}


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(parser, "cities", "cities -o name")
    add_output_flags(parser)


def run(context: Context) -> int:
    present(context, lambda: _read_screen(context))
    return 0


def _read_screen(context: Context) -> Screen:
    views = [_view(binding) for binding in queries.location_bindings(context)]
    names = [f"city/{each['city']}" for each in views]
    if not views:
        project = context.target.project
        return Screen(views, names, footer=queries.nothing_found("cities", project, False))
    columns = WIDE if context.args.output == "wide" else COLUMNS
    rows = [[_cell(each, key) for key in columns.values()] for each in views]
    headers = not context.args.no_headers
    text = table(tuple(columns), rows, headers=headers, colours=context.colours())
    usable = sum(_is_available(each["object"]) for each in views)
    footer = f"\n{count(len(views), 'city', 'cities')} — {usable} Available"
    return Screen(views, names, table_lines(text, (), ()), footer)


def _view(binding: dict[str, Any]) -> dict[str, Any]:
    spec = binding.get("spec") or {}
    return {
        "city": queries.city_of(binding) or NONE,
        "displayName": spec.get("displayName") or NONE,
        "status": "Available" if _is_available(binding) else "Unavailable",
        "location": (spec.get("locationRef") or {}).get("name") or binding["metadata"]["name"],
        "class": spec.get("locationClassName") or NONE,
        "object": binding,
    }


def _cell(view: dict[str, Any], key: str) -> str | Cell:
    if key != "status":
        return str(view[key])
    return Cell(view[key], Colour.GREEN if _is_available(view["object"]) else Colour.RED)


def _is_available(binding: dict[str, Any]) -> bool:
    return states.is_true(binding, "Available")
