"""``exec``: run a command in an instance."""

from __future__ import annotations

import argparse

from datum_compute.cli import queries
from datum_compute.cli.arguments import Parser, set_examples
from datum_compute.cli.context import Context
from datum_compute.cli.errors import usage
from datum_compute.cli.explain.suggestions import Remark, command
from datum_compute.cli.names import workload_name


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(
        parser, "exec hello-default-dfw-0 -- ls /", "exec -it hello-default-dfw-0 -- /bin/sh"
    )
    parser.add_argument("name", metavar="INSTANCE", type=workload_name, help="name of an instance")
    parser.add_argument("words", metavar="-- COMMAND", nargs="*", help="what to run")
    assert isinstance(parser, Parser)
    parser.rest = "words"
    parser.add_argument("-i", "--stdin", action="store_true", help="pass stdin to the command")
    parser.add_argument("-t", "--tty", action="store_true", help="give it a terminal")
    parser.add_argument("--container", help="the container (default: the first one)")


def run(context: Context) -> int:
    from datum_compute.cli.commands.exec.session import run_command
    from datum_compute.client.remote_command import CommandRequest

    args = context.args
    if not args.words:
        raise usage("missing argument: COMMAND, after --", command("exec", "--help"))
    if args.tty and not context.streams.stdin.isatty():
        raise usage("-t needs a terminal, and stdin is not one", Remark("leave out -t"))
    context.open_session()
    instance = queries.instance(context, args.name)
    request = CommandRequest(
        tuple(args.words), args.container or "", tty=args.tty, stdin=args.stdin
    )
    return run_command(context, instance, request)
