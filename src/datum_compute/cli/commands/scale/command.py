"""``scale NAME --min N``: how many instances run in each city."""

from __future__ import annotations

import argparse

from datum_compute.cli.arguments import add_write_flags, set_examples
from datum_compute.cli.context import Context
from datum_compute.cli.names import workload_name
from datum_compute.cli.render.output import add_output_flags


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(
        parser,
        "scale hello --min 3",
        "scale hello --min 1 --placement default --no-wait",
    )
    parser.add_argument("name", metavar="NAME", type=workload_name, help="the workload")
    parser.add_argument(
        "--min", type=int, required=True, dest="minimum", metavar="N", help="instances per city"
    )
    parser.add_argument("--placement", help="only this placement (default: every one)")
    parser.add_argument("--message", metavar="TEXT", help="why, for the history")
    add_write_flags(parser)
    add_output_flags(parser)


def run(context: Context) -> int:
    from datum_compute.cli.commands.scale import resize

    return resize.run(context)
