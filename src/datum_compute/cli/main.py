"""The command tree, and the one place where errors become words and exit codes."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, TextIO

from datum_compute.cli import errors, plugin
from datum_compute.cli.context import Context, Streams
from datum_compute.cli.errors import CommandError, Exit
from datum_compute.client.errors import ClientError
from datum_compute.env import Environment, SystemEnvironment

COMMANDS = {
    "deploy": "Create or update a workload and wait until it runs",
    "status": "Show one workload: health, cities, and why it is not right",
    "instances": "List instances",
    "scale": "Change how many instances run in each city",
    "destroy": "Delete a workload and everything it runs",
    "local": "Start, stop and look at a local platform",
    "version": "Print the version",
}
"""What each verb does; its module of the same name says how."""

TRACEBACK = "DATUM_COMPUTE_TRACEBACK"
"""The variable that lets an unforeseen error through as it is."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise errors.usage(message, f"{self.prog} --help")


def build_parser(command: str | None) -> argparse.ArgumentParser:
    """The whole tree by name, with the arguments of only the command that is asked for."""
    parser = _Parser(
        prog="datumctl-compute",
        description="Run images in many cities, and see how they are.",
        epilog="Start here:  datumctl-compute local up --detach",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=16),
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, summary in COMMANDS.items():
        sub = subparsers.add_parser(
            name,
            help=summary,
            description=summary + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name == command:
            _add_target_flags(sub)
            importlib.import_module(f"datum_compute.cli.commands.{name}").configure(sub)
    return parser


def _add_target_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where")
    group.add_argument("--project", help="the project (default: the platform's own)")
    group.add_argument("--server", help="address of the API, e.g. https://127.0.0.1:7443")
    group.add_argument("--token", help="bearer token for --server")
    group.add_argument("--kubeconfig", metavar="FILE", help="take server and credential from it")
    group.add_argument("--context", help="context of --kubeconfig (default: its current one)")
    group.add_argument("--certificate-authority", metavar="FILE", help="CA of --server")
    group.add_argument("--data-dir", metavar="DIR", help="state directory of a local platform")


def main(
    argv: Sequence[str], env: Environment, streams: Streams, program: str = errors.PROGRAM
) -> int:
    if plugin.MANIFEST_FLAG in argv:  # wherever it stands, and whatever else does not parse
        print(plugin.manifest(), file=streams.stdout)
        return int(Exit.DONE)
    try:
        return _dispatch(argv, env, streams, program)
    except KeyboardInterrupt:
        print("Interrupted.", file=streams.stderr)
        return int(Exit.INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has had enough (`| head`); that is not an error.
        _discard(streams.stdout)
        return int(Exit.DONE)
    except Exception as failure:  # the last one to see it: nobody is shown a stack trace
        if env.variable(TRACEBACK):
            raise
        error = _as_command_error(failure)
        as_json = _output_format(argv) == "json"
        errors.render(error, streams.stderr, as_json=as_json, program=program)
        return int(error.exit_code)


def _as_command_error(failure: Exception) -> CommandError:
    if isinstance(failure, CommandError):
        return failure
    if isinstance(failure, ClientError):
        return errors.from_client(failure)
    if isinstance(failure, OSError):
        where = f"{failure.filename}: " if failure.filename else ""
        return CommandError(f"{where}{failure.strerror or failure}", code="System")
    return CommandError(
        f"this is a fault of the program: {type(failure).__name__}: {failure}",
        code="Internal",
        hint=f"set {TRACEBACK}=1 to see where, and report it",
    )


def _discard(stream: TextIO) -> None:
    """Let what is still buffered go nowhere: the interpreter would complain at its end."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # not a file of the system's
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _dispatch(argv: Sequence[str], env: Environment, streams: Streams, program: str) -> int:
    command = next((word for word in argv if word in COMMANDS), None)
    parser = build_parser(command)
    args = parser.parse_args(argv)
    if args.version:
        args.command = "version"
    if args.command is None:
        parser.print_help(streams.stderr)
        return int(Exit.USAGE)
    module = importlib.import_module(f"datum_compute.cli.commands.{args.command}")
    return int(module.run(Context(env, streams, args, program)))


def _output_format(argv: Sequence[str]) -> str | None:
    """The wanted format even where the command line does not parse, for the error's form."""
    for position, word in enumerate(argv):
        if word in ("-o", "--output") and position + 1 < len(argv):
            return argv[position + 1]
        if word.startswith(("-o=", "--output=")):
            return word.split("=", 1)[1]
        if word.startswith("-o") and len(word) > 2:
            return word[2:]
    return None


def run() -> int:
    """The console script."""
    streams = Streams(_usable(sys.stdin, "r"), _usable(sys.stdout, "w"), _usable(sys.stderr, "w"))
    env = SystemEnvironment()
    return main(sys.argv[1:], env, streams, program_name(env, sys.argv[0]))


def _usable(stream: TextIO | None, mode: str) -> TextIO:
    """A standard stream as it is, save that no letter is too much for it; closed ones
    (``<&-``) are as good as /dev/null."""
    if stream is None:
        return io.TextIOWrapper(open(os.devnull, mode + "b"), encoding="utf-8")
    if mode == "w" and isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")
    return stream


def program_name(env: Environment, started_as: str) -> str:
    """What to type to run this program again: its name only where a shell would find it."""
    if env.variable("DATUM_API_HOST"):
        return "datumctl compute"
    started = Path(started_as)
    if started.name == "__main__.py":
        return f"{Path(sys.executable).name} -m datum_compute.cli"
    import shlex
    import shutil

    found = shutil.which(started.name, path=env.variable("PATH"))
    if found and Path(found).resolve() == started.resolve():
        return started.name
    return shlex.quote(started_as)
