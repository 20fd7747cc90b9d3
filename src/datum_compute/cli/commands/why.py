"""``why NAME``: what is wrong with a workload or an instance."""

from __future__ import annotations

import argparse

from datum_compute.cli.arguments import set_examples
from datum_compute.cli.context import Context
from datum_compute.cli.names import workload_name
from datum_compute.cli.render.output import add_output_flags


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(parser, "why hello", "why hello-default-dfw-0", "why hello -o json")
    parser.add_argument("name", metavar="NAME", type=workload_name, help="a workload or instance")
    add_output_flags(
        parser,
        "`name`, `kind`, `state`, `chain` (`kind`, `name`, `state`, `note`), `condition`,"
        " `reason`, `message`, `sinceSeconds`, `usuallyUnderSeconds`, `whoCanAct`, `advice`,"
        " `next`, `missing` (`kind`, `name`, `key`, `neededBy`, `message`), `meanwhile`,"
        " `events`",
    )


def run(context: Context) -> int:
    from datum_compute.cli.explain.why import explain_name

    return explain_name(context)
