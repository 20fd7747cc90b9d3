"""``start NAME``: run a stopped workload again, one instance after another in each city."""

from __future__ import annotations

import argparse

from datum_compute.cli.arguments import add_rollout_flags, set_examples
from datum_compute.cli.commands.suspension.stop import add_flags
from datum_compute.cli.context import Context
from datum_compute.cli.render.output import RESULT_FIELDS, add_output_flags


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(parser, "start hello", "start hello --city DFW")
    add_flags(parser)
    add_rollout_flags(parser)
    add_output_flags(parser, RESULT_FIELDS)


def run(context: Context) -> int:
    from datum_compute.cli.commands.suspension.change import change

    return change(context, stops=False)
