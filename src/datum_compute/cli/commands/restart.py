"""``restart NAME``: the short form of ``rollout restart NAME``."""

from __future__ import annotations

import argparse

from datum_compute.cli.arguments import set_examples
from datum_compute.cli.commands.rollout.command import add_restart_flags
from datum_compute.cli.context import Context
from datum_compute.cli.names import workload_name


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(parser, "restart hello", "restart hello --city DFW")
    parser.add_argument("name", metavar="NAME", type=workload_name, help="the workload")
    add_restart_flags(parser)


def run(context: Context) -> int:
    from datum_compute.cli.commands.rollout.restart import restart

    return restart(context)
