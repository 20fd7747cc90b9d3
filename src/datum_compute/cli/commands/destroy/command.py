"""``destroy NAME``: delete a workload and wait until nothing of it is left."""

from __future__ import annotations

import argparse

from datum_compute.cli.arguments import add_write_flags, set_examples
from datum_compute.cli.context import Context
from datum_compute.cli.names import workload_name
from datum_compute.cli.render.output import add_output_flags


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(parser, "destroy hello", "destroy hello --yes")
    parser.add_argument("name", metavar="NAME", type=workload_name, help="the workload")
    add_write_flags(parser)
    add_output_flags(parser)


def run(context: Context) -> int:
    from datum_compute.cli.commands.destroy import delete

    return delete.run(context)
