"""``logs``: what instances print, merged by time."""

from __future__ import annotations

import argparse

from datum_compute.cli.arguments import parse_duration, set_examples
from datum_compute.cli.context import Context
from datum_compute.cli.names import workload_name


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(
        parser, "logs hello", "logs hello-default-dfw-0 --tail 20", "logs --since 10m --city DFW"
    )
    parser.add_argument(
        "name",
        metavar="WORKLOAD|INSTANCE",
        nargs="?",
        type=workload_name,
        help="whose (default: every instance of the project)",
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on as lines come")
    parser.add_argument("--tail", type=_lines, metavar="N", help="only the last N lines of each")
    parser.add_argument(
        "--since", type=parse_duration, metavar="T", help="only lines of the last 45s, 10m, 1h30m"
    )
    parser.add_argument("--city", help="only of instances in this city")


def _lines(text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise argparse.ArgumentTypeError(f'"{text}" is not a number of lines')
    return int(text)


def run(context: Context) -> int:
    from datum_compute.cli.commands.logs.tail import show_logs

    return show_logs(context)
