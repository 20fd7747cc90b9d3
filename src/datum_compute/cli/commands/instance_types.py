"""``instance-types``: the sizes an instance can have."""

from __future__ import annotations

import argparse
from typing import Any

from datum_compute.api.compute.instance_types import INSTANCE_TYPES
from datum_compute.cli.arguments import set_examples
from datum_compute.cli.context import Context
from datum_compute.cli.render.output import add_output_flags, table
from datum_compute.cli.render.watch import Screen, present, table_lines

COLUMNS = {"TYPE": "name", "VCPUS": "vcpus", "MEMORY": "memoryMiB"}
WIDE = {**COLUMNS, "FULL NAME": "fullName"}


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(parser, "instance-types", "instance-types -o json")
    add_output_flags(parser, "`name`, `fullName`, `vcpus`, `memoryMiB`")


def run(context: Context) -> int:
    views = [
        {
            "name": each.short_name,
            "fullName": each.name,
            "vcpus": each.millicores / 1000 if each.millicores % 1000 else each.millicores // 1000,
            "memoryMiB": each.mebibytes,
            "object": each._asdict(),
        }
        for each in INSTANCE_TYPES.values()
    ]
    columns = WIDE if context.args.output == "wide" else COLUMNS
    rows = [[_cell(each, key) for key in columns.values()] for each in views]
    headers = not context.args.no_headers
    text = table(tuple(columns), rows, headers=headers, width=context.width())
    names = [f"instance-type/{each['name']}" for each in views]
    present(context, lambda: Screen(views, names, table_lines(text, (), ())))
    return 0


def _cell(view: dict[str, Any], key: str) -> str:
    if key == "memoryMiB":
        return f"{view[key] / 1024:g} GiB"
    return f"{view[key]:g}" if key == "vcpus" else str(view[key])
