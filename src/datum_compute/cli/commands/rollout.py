"""``rollout status NAME``: follow a rollout until it is done."""

from __future__ import annotations

import argparse

from datum_compute.cli.arguments import add_action
from datum_compute.cli.context import Context
from datum_compute.cli.names import workload_name
from datum_compute.cli.output import add_output_flags
from datum_compute.cli.waiting import add_wait_flags


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    status = add_action(
        actions,
        "status",
        "Follow a rollout until it is done",
        ("rollout status hello", "rollout hello", "rollout status hello --no-wait -o json"),
    )
    status.add_argument("name", metavar="NAME", type=workload_name, help="the workload")
    add_wait_flags(status)
    add_output_flags(status)


def run(context: Context) -> int:
    from datum_compute.cli import rolling

    return rolling.status(context)
