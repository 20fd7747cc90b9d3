"""``deploy``: create or update a workload, show what changes, and wait until it runs."""

from __future__ import annotations

import argparse

from datum_compute.cli.arguments import add_write_flags, set_examples
from datum_compute.cli.context import Context
from datum_compute.cli.names import workload_name
from datum_compute.cli.render.output import add_output_flags


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(
        parser,
        "deploy hello --image=registry.example/acme/hello:1 --city=DFW,LHR",
        "deploy hello --image=registry.example/acme/hello:2 --env=LOG=debug",
        "deploy -f samples/hello.yaml",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", type=workload_name, help="the workload")
    parser.add_argument(
        "-f", "--file", metavar="FILE", help="manifest in YAML or JSON; - reads stdin"
    )
    parser.add_argument("--image", help="container image")
    parser.add_argument(
        "--city", action="append", metavar="CITY", help="city code; repeatable or comma-separated"
    )
    parser.add_argument("--min", type=int, dest="minimum", metavar="N", help="instances per city")
    parser.add_argument(
        "--instance-type", metavar="TYPE", help="size of each instance (default: d1-standard-2)"
    )
    parser.add_argument(
        "--port",
        action="append",
        metavar="[NAME=]N|NAME-",
        help="port of the container; NAME- removes it; repeatable",
    )
    parser.add_argument(
        "--env",
        action="append",
        metavar="K=V|K-",
        help="environment variable; K- removes it; repeatable",
    )
    parser.add_argument(
        "--command",
        action="append",
        metavar="WORD",
        dest="container_command",
        help="entrypoint instead of the image's; repeat for each word; - restores the image's",
    )
    parser.add_argument(
        "--arg",
        action="append",
        metavar="WORD",
        dest="container_args",
        help="argument of the command; repeatable; - restores the image's",
    )
    parser.add_argument("--network", help="network to attach to (default: default)")
    parser.add_argument(
        "--label",
        action="append",
        metavar="K=V|K-",
        help="label of the workload; K- removes it; repeatable",
    )
    parser.add_argument(
        "--message", metavar="TEXT", help="reason for the change, kept in the history"
    )
    parser.add_argument("--dry-run", action="store_true", help="show the plan and change nothing")
    parser.add_argument(
        "--exit-code",
        action="store_true",
        help="with --dry-run: exit 0 without changes, 1 with changes, 2 on an error",
    )
    parser.add_argument("--save", metavar="FILE", help="save the workload as a manifest")
    add_write_flags(parser)
    add_output_flags(parser)


def run(context: Context) -> int:
    from datum_compute.cli.commands.deploy import apply

    return apply.run(context)
