"""The command tree, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

from datum_compute.cli import errors, plugin
from datum_compute.cli.arguments import (
    LEADING_FLAGS,
    WIDTH,
    Parser,
    adapt_help,
    add_target_flags,
    insert_default_action,
    leaf_parsers,
    move_leading_flags,
)
from datum_compute.cli.context import Context, Reach, Streams
from datum_compute.cli.errors import CommandError, Exit
from datum_compute.cli.explain.suggestions import Command, Invocation, Remark
from datum_compute.env import SystemEnvironment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    from datum_compute.env import Environment

COMMANDS = {
    "deploy": "Create or update a workload and wait until it runs",
    "status": "Show one workload: health, cities, and what is wrong",
    "why": "Explain what is wrong with a workload or instance, and who can act",
    "workloads": "List workloads, or describe one",
    "instances": "List instances, or describe one",
    "open": "Open a workload in the browser, or print its URL",
    "logs": "Show the logs of instances",
    "exec": "Run a command in an instance",
    "ssh": "Open a shell in an instance of a workload",
    "console": "Open the web console of the project, which shows what needs attention",
    "rollout": "Follow a rollout, show its history, or roll it back",
    "restart": "Replace every instance, one by one in each city",
    "scale": "Change how many instances run in each city",
    "stop": "Stop a workload; it keeps its quota",
    "start": "Start a stopped workload",
    "destroy": "Delete a workload and everything it runs",
    "config": "List, show and change ConfigMaps of the project",
    "secrets": "List and change Secrets of the project; values are never shown",
    "quota": "Show the project's quota and how much is used",
    "cities": "List the cities the project can use",
    "instance-types": "List the sizes an instance can have",
    "access": "Show whether the project may use compute, or request access",
    "projects": "List projects, or create one",
    "context": "Show or choose the server and project that commands use",
    "local": "Start, stop and inspect a local platform",
    "completion": "Print a shell completion script",
    "version": "Print the version",
}
"""Verb -> summary. The verb's module has the same name, with _ for -."""

FOLDERS = {
    "open": "browser",
    "console": "browser",
    "config": "data",
    "secrets": "data",
    "ssh": "exec",
    "stop": "suspension",
    "start": "suspension",
}
"""Verbs whose module is in a folder that they share."""

WITHOUT_ACCESS = frozenset({"access", "context", "projects", "local", "completion", "version"})
"""Commands that a project may run before compute is enabled for it."""

COMPLETE = "__complete"
"""The hidden command by which shells request candidates."""

HELP = "help"
"""``help COMMAND`` is ``COMMAND --help``."""

LEAST_WIDTH, MOST_WIDTH = 40, 100
"""The bounds of help's columns on a terminal."""

TRACEBACK = "DATUM_COMPUTE_TRACEBACK"
"""The environment variable that makes an unexpected error print its stack trace."""


def build_parser(command: str | None, width: int = WIDTH, program: str = errors.PROGRAM) -> Parser:
    """All commands by name, or one with its arguments, because building them all is slow. Help is
    ``width`` columns wide and names ``program``."""
    parser = Parser(
        prog=errors.PROGRAM,
        description="Run workloads in many cities.",
        epilog=f"Start here:  {program} local up --detach",
        formatter_class=lambda *, prog: argparse.HelpFormatter(program, 2, 18, width),
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    # Without prog it would be taken from the formatter, which adds the typed program again.
    subparsers = parser.add_subparsers(
        prog=errors.PROGRAM, dest="command", metavar="COMMAND", title="commands"
    )
    for name, summary in COMMANDS.items():
        if command not in (None, name):
            continue
        sub = subparsers.add_parser(
            name,
            help=summary,
            description=summary + ".",
        )
        if name == command:
            command_module(name).configure(sub)
            for leaf in leaf_parsers(sub):
                add_target_flags(leaf)
            adapt_help(sub, width, program)
    return parser


def command_module(command: str) -> ModuleType:
    folder = f"{FOLDERS[command]}." if command in FOLDERS else ""
    name = command.replace("-", "_")
    return importlib.import_module(f"datum_compute.cli.commands.{folder}{name}")


def main(
    argv: Sequence[str],
    env: Environment,
    streams: Streams,
    program: str = errors.PROGRAM,
    reach: Reach | None = None,
) -> int:
    """Run one command. ``reach`` is how it connects to a platform; tests replace it."""
    if plugin.MANIFEST_FLAG in argv:  # at any position, even if the rest does not parse
        print(plugin.manifest(), file=streams.stdout)
        return int(Exit.DONE)
    invocation = Invocation.of(program, argv)
    if "local" not in move_leading_flags(argv)[:1]:
        flags = dict(invocation.flags)
        invocation = invocation._replace(local_directory=lambda: _local_directory(env, flags))
    try:
        return _dispatch(argv, env, streams, invocation, reach or Reach())
    except KeyboardInterrupt:
        print("Interrupted.", file=streams.stderr)
        return int(Exit.INTERRUPTED)
    except BrokenPipeError:
        # The reader of what is only printed has closed it (`| head`); that is not an error.
        _discard(streams.stdout)
        return int(Exit.DONE)
    except Exception as failure:  # users see no stack trace
        if env.variable(TRACEBACK):
            raise
        error = as_command_error(failure)
        output = _output_format(argv)
        errors.render(error, streams.stderr, output=output, invocation=invocation)
        return int(error.exit_code)


def as_command_error(failure: Exception) -> CommandError:
    """The error that a user sees for a failure."""
    if isinstance(failure, CommandError):
        return failure
    from datum_compute.client.errors import ClientError

    if isinstance(failure, ClientError):
        return errors.from_client(failure)
    if isinstance(failure, OSError):
        where = f"{failure.filename}: " if failure.filename else ""
        return CommandError(f"{where}{failure.strerror or failure}", code="System")
    if isinstance(failure, UnicodeEncodeError):
        # Words of the command line that are not UTF-8 are kept, since paths may be so.
        return errors.usage("a value that was given is not UTF-8 text")
    return CommandError(
        f"internal error: {type(failure).__name__}: {failure}",
        Remark(f"set {TRACEBACK}=1 for a stack trace, and report it"),
        code="Internal",
    )


def _discard(stream: TextIO) -> None:
    """Discard what is still buffered: the interpreter would report it at exit."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # not a file of the system's
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _dispatch(
    argv: Sequence[str], env: Environment, streams: Streams, invocation: Invocation, reach: Reach
) -> int:
    if argv and argv[0] == COMPLETE:
        from datum_compute.cli.commands.completion.candidates import complete

        return complete(argv[1:], env, streams, reach)
    argv = move_leading_flags(argv)
    flag = argv[0].partition("=")[0] if argv else ""
    if flag in LEADING_FLAGS:  # there is no command to follow it
        message = f"{flag}: expected a value and a command after it"
        raise errors.usage(message, Command(("--help",)))
    argv = translate(argv)
    first = next((word for word in argv if not word.startswith("-")), None)
    command = first if first in COMMANDS else None
    parser = build_parser(command, _columns(env, streams.stdout), invocation.program)
    args = parser.parse_args(insert_default_action(argv, command))
    if args.version:
        args = build_parser("version").parse_args(["version"])
    if args.command is None:
        parser.print_help(streams.stderr)
        return int(Exit.USAGE)
    if "yes" in args or "wait" in args:  # its exit code says what it has changed, or waited for
        streams.outlive_reader()
    context = Context(env, streams, args, invocation, reach)
    if args.command not in WITHOUT_ACCESS:
        context.access_check = _check_access
    try:
        done = int(command_module(args.command).run(context))
    except KeyboardInterrupt:
        if context.session is None or not context.session.written:
            raise
        context.session.say_detached()
        return int(Exit.INTERRUPTED)
    except Exception as failure:
        if env.variable(TRACEBACK) or not getattr(args, "exit_code", False):
            raise
        error = as_command_error(failure)
        if error.exit_code is Exit.FAILED:
            error.exit_code = Exit.USAGE  # with --exit-code, 1 means that there are changes
        raise error from failure
    finally:
        context.close()
    for words in context.following if done == Exit.DONE else ():
        done = done or main(words, env, streams, invocation.program, reach)
    return done


def translate(argv: Sequence[str]) -> list[str]:
    """``argv`` with a command of ours in place of a word of other programs. Raises for a word that
    has no exact counterpart."""
    words = list(argv)
    position = next((at for at, word in enumerate(words) if not word.startswith("-")), None)
    if position is None or words[position] in COMMANDS:
        return words
    if words[position] == HELP:
        return translate([*words[:position], *words[position + 1 :], "--help"])
    from datum_compute.cli.explain import synonyms

    error = synonyms.unknown_word(words[position], words[position + 1 :])
    if error is not None:
        raise error
    return synonyms.expand_alias(words, position)


def _local_directory(env: Environment, flags: Mapping[str, str]) -> str:
    from datum_compute.cli.targets import stored_contexts  # rarely needed

    return stored_contexts.local_directory(env, flags)


def _check_access(context: Context) -> None:
    from datum_compute.cli.access import check_access

    check_access(context)


def _columns(env: Environment, stream: TextIO) -> int:
    """The width of help: the terminal's, within bounds."""
    columns = env.variable("COLUMNS") or ""
    if columns.isdecimal():
        return min(MOST_WIDTH, max(LEAST_WIDTH, int(columns)))
    try:
        return min(MOST_WIDTH, max(LEAST_WIDTH, os.get_terminal_size(stream.fileno()).columns - 2))
    except (OSError, ValueError, AttributeError):  # no terminal
        return WIDTH


def _output_format(argv: Sequence[str]) -> str | None:
    """The output format even if the command line does not parse, for the error's form."""
    for position, word in enumerate(argv):
        if word == "--":  # what follows is for another program
            break
        if word in ("-o", "--output") and position + 1 < len(argv):
            return argv[position + 1]
        if word.startswith(("-o=", "--output=")):
            return word.split("=", 1)[1]
        if word.startswith("-o") and len(word) > 2:
            return word[2:]
    return None


def run() -> int:
    """The program with the streams and arguments of its process."""
    streams = Streams(_usable(sys.stdin, "r"), _usable(sys.stdout, "w"), _usable(sys.stderr, "w"))
    env = SystemEnvironment()
    return main(sys.argv[1:], env, streams, program_name(env, sys.argv[0]))


def _usable(stream: TextIO | None, mode: str) -> TextIO:
    """A standard stream that replaces characters it cannot encode; /dev/null for a closed one
    (``<&-``)."""
    if stream is None:
        return io.TextIOWrapper(open(os.devnull, mode + "b"), encoding="utf-8")
    if mode == "w" and isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")
    return stream


def program_name(env: Environment, started_as: str) -> str:
    """What to type to run this program again: its name only where a shell would find it."""
    if env.variable("DATUM_API_HOST"):
        return "datumctl compute"
    name = os.path.basename(started_as)
    if name == "__main__.py":
        return f"{os.path.basename(sys.executable)} -m datum_compute.cli"
    for directory in (env.variable("PATH") or "").split(os.pathsep):
        found = os.path.join(directory, name)
        if os.access(found, os.X_OK) and os.path.isfile(found):
            if os.path.realpath(found) == os.path.realpath(started_as):
                return name
            break
    if all(letter.isascii() and (letter.isalnum() or letter in "/._-") for letter in started_as):
        return started_as
    import shlex

    return shlex.quote(started_as)
