"""``cities``: where the project can run instances."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from datum_compute.cli import queries
from datum_compute.cli.arguments import set_examples
from datum_compute.cli.context import Context
from datum_compute.cli.explain import states
from datum_compute.cli.render.output import (
    Cell,
    Colour,
    add_output_flags,
    age,
    cell_text,
    count,
    table,
)
from datum_compute.cli.render.watch import Screen, present, table_lines


class CityStatus(StrEnum):
    AVAILABLE = "Available"
    UNREACHABLE = "Unreachable"
    UNAVAILABLE = "Unavailable"


_COLOURS = {
    CityStatus.AVAILABLE: Colour.GREEN,
    CityStatus.UNREACHABLE: Colour.YELLOW,
    CityStatus.UNAVAILABLE: Colour.RED,
}

COLUMNS = {"CITY": "city", "NAME": "displayName", "STATUS": "status"}
WIDE = {**COLUMNS, "LOCATION": "location", "CLASS": "class"}


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(parser, "cities", "cities -o name")
    add_output_flags(
        parser, "`city`, `displayName`, `status`, `unreachableSince`, `location`, `class`"
    )


def run(context: Context) -> int:
    present(context, lambda: _read_screen(context))
    return 0


def _read_screen(context: Context) -> Screen:
    views = read_views(context)
    names = [f"city/{each['city']}" for each in views]
    if not views:
        project = context.target.project
        return Screen(views, names, footer=queries.nothing_found("cities", project, False))
    columns = WIDE if context.args.output == "wide" else COLUMNS
    rows = [[_cell(context, each, key) for key in columns.values()] for each in views]
    headers = not context.args.no_headers
    colours, width = context.colours(), context.width()
    text = table(
        tuple(columns), rows, headers=headers, colours=colours, width=width, least=("CLASS", "NAME")
    )
    usable = sum(each["status"] == CityStatus.AVAILABLE for each in views)
    footer = f"\n{count(len(views), 'city', 'cities')} — {usable} Available"
    return Screen(views, names, table_lines(text, (), ()), footer)


def read_views(context: Context) -> list[dict[str, Any]]:
    bindings = queries.location_bindings(context)
    unreachable = _unreachable(context) if bindings else {}
    return [_view(binding, unreachable) for binding in bindings]


def _unreachable(context: Context) -> dict[str, str]:
    """Cities whose cell does not answer, as the project's deployments there report, with the time
    since when. A city where the project runs nothing is not known to be unreachable."""
    found: dict[str, str] = {}
    for deployment in queries.deployments(context):
        since = states.unreachable_since(deployment)
        if since:
            city = str((deployment.get("spec") or {}).get("cityCode", "")).upper()
            found[city] = min(since, found.get(city, since))
    return found


def _view(binding: dict[str, Any], unreachable: Mapping[str, str]) -> dict[str, Any]:
    spec = binding.get("spec") or {}
    city = queries.city_of(binding) or None
    status, since = CityStatus.AVAILABLE, unreachable.get((city or "").upper())
    if not states.is_true(binding, "Available"):
        status, since = CityStatus.UNAVAILABLE, None
    elif since:
        status = CityStatus.UNREACHABLE
    return {
        "city": city,
        "displayName": spec.get("displayName") or None,
        "status": status.value,
        "unreachableSince": since,
        "location": (spec.get("locationRef") or {}).get("name") or binding["metadata"]["name"],
        "class": spec.get("locationClassName") or None,
        "object": binding,
    }


def _cell(context: Context, view: dict[str, Any], key: str) -> str | Cell:
    if key != "status":
        return cell_text(view[key])
    since = view["unreachableSince"]
    lasting = f" (for {age(since, context.env.now())})" if since else ""
    return Cell(view[key] + lasting, _COLOURS[CityStatus(view[key])])
