"""``deploy``: create or update a workload, show what changes, and wait until it runs."""

from __future__ import annotations

import argparse

from datum_compute.cli.arguments import (
    add_confirmation_flag,
    add_message_flag,
    add_rollout_flags,
    set_examples,
)
from datum_compute.cli.commands.deploy.flags import FLAGS
from datum_compute.cli.context import Context
from datum_compute.cli.names import workload_name
from datum_compute.cli.render.output import RESULT_FIELDS, add_output_flags


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(
        parser,
        "deploy hello --image=registry.example/acme/hello:1 --city=DFW,LHR",
        "deploy hello --image=registry.example/acme/hello:2 --env=LOG=debug",
        "deploy -f samples/hello.yaml",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", type=workload_name, help="the workload")
    parser.add_argument(
        "-f",
        "--file",
        action="append",
        metavar="FILE",
        help="manifest in YAML or JSON; - reads stdin; repeatable",
    )
    for flag in FLAGS:
        flag.add_to(parser)
    parser.add_argument(
        "--build",
        metavar="DIR",
        help="build the image from this directory, with the engine of a local platform",
    )
    parser.add_argument(
        "--dockerfile", metavar="FILE", help="with --build: the file instead of DIR/Dockerfile"
    )
    add_message_flag(parser)
    parser.add_argument("--dry-run", action="store_true", help="show the plan and change nothing")
    parser.add_argument(
        "--exit-code",
        action="store_true",
        help="with --dry-run: exit 0 without changes, 1 with changes, 2 or more on an error",
    )
    parser.add_argument("--save", metavar="FILE", help="save the workload as a manifest")
    add_confirmation_flag(parser)
    add_rollout_flags(parser)
    add_output_flags(
        parser,
        f"{RESULT_FIELDS}; with `--dry-run` also `dryRun` (`true`: `action` is what would be done)",
    )


def run(context: Context) -> int:
    from datum_compute.cli.commands.deploy import apply

    return apply.run(context)
