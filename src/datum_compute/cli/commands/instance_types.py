"""``instance-types``: the sizes an instance can have."""

from __future__ import annotations

import argparse

from datum_compute.cli.arguments import set_examples
from datum_compute.cli.context import Context
from datum_compute.cli.render.output import add_output_flags, table
from datum_compute.cli.render.watch import Screen, present, table_lines
from datum_compute.cli.tables import INSTANCE_TYPES

COLUMNS = {"TYPE": "name", "VCPUS": "vcpus", "MEMORY": "memory"}
WIDE = {**COLUMNS, "FULL NAME": "fullName"}


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(parser, "instance-types", "instance-types -o json")
    add_output_flags(parser)


def run(context: Context) -> int:
    views = [
        {
            "name": full.partition("/")[2],
            "fullName": full,
            "vcpus": f"{millicores / 1000:g}",
            "memory": f"{mebibytes / 1024:g} GiB",
            "object": {"name": full, "millicores": millicores, "mebibytes": mebibytes},
        }
        for full, (millicores, mebibytes) in INSTANCE_TYPES.items()
    ]
    columns = WIDE if context.args.output == "wide" else COLUMNS
    rows = [[str(each[key]) for key in columns.values()] for each in views]
    text = table(tuple(columns), rows, headers=not context.args.no_headers)
    names = [f"instance-type/{each['name']}" for each in views]
    present(context, lambda: Screen(views, names, table_lines(text, (), ())))
    return 0
