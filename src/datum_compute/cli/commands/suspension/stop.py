"""``stop NAME``: run nothing of a workload, everywhere or in one city, until it is started."""

from __future__ import annotations

import argparse

from datum_compute.cli.arguments import add_confirmation_flag, add_wait_flags, set_examples
from datum_compute.cli.context import Context
from datum_compute.cli.names import workload_name
from datum_compute.cli.render.output import RESULT_FIELDS, add_output_flags


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(parser, "stop hello", "stop hello --city DFW")
    add_flags(parser)
    add_wait_flags(parser)
    add_output_flags(parser, RESULT_FIELDS)


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", type=workload_name, help="the workload")
    parser.add_argument("--city", metavar="CITY", help="only in this city")
    add_confirmation_flag(parser)


def run(context: Context) -> int:
    from datum_compute.cli.commands.suspension.change import change

    return change(context, stops=True)
