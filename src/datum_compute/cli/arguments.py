"""The parser of the command line, shared flags, and default actions.

``workloads`` alone means ``workloads list`` and ``rollout NAME`` means ``rollout status
NAME``. argparse has no default subcommand, so it is inserted before parsing.
"""

from __future__ import annotations

import argparse
import re
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from datum_compute.cli import errors
from datum_compute.cli.explain.suggestions import Command

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DEFAULT_ACTIONS = {
    "workloads": ("list", frozenset({"list", "describe"})),
    "instances": ("list", frozenset({"list", "describe"})),
    "access": ("status", frozenset({"status", "request"})),
    "projects": ("list", frozenset({"list", "create"})),
    "context": ("list", frozenset({"list", "show", "add", "use", "remove"})),
    "config": ("list", frozenset({"list", "set", "show", "unset"})),
    "secrets": ("list", frozenset({"list", "set", "unset"})),
    "rollout": (
        "status",
        frozenset(
            {
                "status",
                "history",
                "undo",
                "restart",
                "pause",
                "resume",
                "promote",
                "abort",
                "skip",
            }
        ),
    ),
}
"""Command -> its default action and all its actions."""


WIDTH = 78
"""Columns of help without a terminal."""


def help_formatter(
    width: int, program: str = errors.PROGRAM
) -> partial[argparse.RawDescriptionHelpFormatter]:
    """Formats help ``width`` columns wide, with the program as it was typed and examples as they
    are written. Without a width argparse imports ``shutil`` to find the terminal's."""
    return partial(_make_formatter, width, program)


def _make_formatter(width: int, program: str, *, prog: str) -> argparse.RawDescriptionHelpFormatter:
    typed = program + prog.removeprefix(errors.PROGRAM)
    return argparse.RawDescriptionHelpFormatter(typed, width=width)


HELP_FLAGS = ("-h", "--help")
DEFAULT_WINDOW = "10s"
DEFAULT_TIMEOUT = "10m"

LEADING_FLAGS = frozenset(
    {
        "--project",
        "--server",
        "--token",
        "--token-file",
        "--kubeconfig",
        "--context",
        "--certificate-authority",
        "--data-dir",
        "--output",
        "-o",
    }
)
"""Flags with a value that many programs take before the command."""

FLAGS_ELSEWHERE = {
    "--replicas": "--min",
    "--count": "--min",
    "--region": "--city",
    "--regions": "--city",
    "--namespace": "--project",
    "--force": "--yes",
    "--file": "-f",
    "--filename": "-f",
    "--lines": "--tail",
    "--version": "--to-revision",
    "--size": "--instance-type",
    "--vm-size": "--instance-type",
}
"""Flags of Fly, Heroku and kubectl, and what comes nearest here."""


class OneOf:
    """The ``type`` of an argument that takes one of a few values. Shells complete them."""

    def __init__(self, name: str, choices: Sequence[str]) -> None:
        self.name = name
        self.choices = tuple(choices)

    def __call__(self, value: str) -> str:
        if value not in self.choices:
            expected = ", ".join(self.choices)
            raise errors.usage(f'{self.name} "{value}": expected one of {expected}')
        return value


class _StoreOnce(argparse.Action):
    """Refuses another value for a flag that takes one; argparse would keep the last."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        assert isinstance(parser, Parser)
        if option_string and parser.given.setdefault(self.dest, values) != values:
            raise errors.usage(f"{option_string} takes one value and was given several")
        setattr(namespace, self.dest, values)


class Parser(argparse.ArgumentParser):
    """Raises usage errors as ``CommandError``, and knows the arguments it was given."""

    def __init__(self, **options: Any) -> None:
        self.arguments: list[argparse.Action] = []
        """Flags and positional arguments; not those of subcommands."""
        self.target_flags: list[argparse.Action] = []
        """Those of ``arguments`` that select the platform and the project."""
        self.subcommands: Any = None
        """What ``add_subparsers`` returned, which has no public type."""
        self.examples: tuple[str, ...] = ()
        """Command lines without the program's name."""
        self.json_fields = ""
        """The fields of ``-o json``, in Markdown; empty where it has no such output."""
        self.rest = ""
        """The argument that takes all words after ``--`` as they are. argparse would take another
        ``--`` among them for its own."""
        self.last = ""
        """The last argument, of any number of words, also after flags: argparse would take those
        before the first flag alone."""
        self.given: dict[str, Any] = {}
        """The values of flags that take one, as far as the command line was parsed."""
        self._parsed = argparse.Namespace()
        # No abbreviated flags: a new flag would change what an abbreviation means.
        defaults = {"allow_abbrev": False, "exit_on_error": False}
        super().__init__(**{"formatter_class": help_formatter(WIDTH), **defaults, **options})
        self.register("action", None, _StoreOnce)
        self.register("action", "store", _StoreOnce)

    def add_argument(self, *names: str, **options: Any) -> argparse.Action:
        action = super().add_argument(*names, **options)
        self.arguments.append(action)
        return action

    def add_subparsers(self, **options: Any) -> Any:
        self.subcommands = super().add_subparsers(**options)
        return self.subcommands

    def add_target_flag(self, group: Any, *names: str, **options: Any) -> None:
        action = group.add_argument(*names, **options)
        self.arguments.append(action)
        self.target_flags.append(action)

    @property
    def subparsers(self) -> dict[str, Parser]:
        """The parsers of subcommands, by name."""
        return {} if self.subcommands is None else dict(self.subcommands.choices)

    @property
    def flags(self) -> list[str]:
        return [flag for action in self.arguments for flag in action.option_strings]

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Arguments that are left over are errors, raised by the innermost parser."""
        words, rest = list(args or ()), []
        if self.rest and "--" in words:
            position = words.index("--")
            words, rest = words[:position], words[position + 1 :]
        if self.subcommands is None:
            words = self._join_values(words)
            self._refuse_unknown_flags(words)  # before an argument is reported missing
        else:
            self._refuse_unknown_subcommand(words)
        self._parsed = argparse.Namespace() if namespace is None else namespace
        self.given.clear()
        try:
            found, left = super().parse_known_args(words, self._parsed)
        except argparse.ArgumentError as error:
            if not error.argument_name:  # so Python 3.13 reports arguments that are missing
                self.error(error.message)
            raise errors.usage(f"{error.argument_name}: {error.message}", self._help()) from None
        if rest:
            setattr(found, self.rest, [*getattr(found, self.rest), *rest])
        self._refuse_unknown_flags(left)
        short = next((word for word in left if _is_flag(word)), None)
        if short is not None and not (self.rest or self.last):
            raise errors.usage(f'unknown flag "{short}"', self._help())
        if left and self.last:
            setattr(found, self.last, [*getattr(found, self.last), *left])
        elif left:
            raise errors.usage(
                f"unexpected argument{'s' if len(left) > 1 else ''}: {' '.join(left)}",
                *(self._one_of_list(left) or [self._help()]),
            )
        return found, []

    def _one_of_list(self, left: Sequence[str]) -> list[Command]:
        """The action that shows one of what this one lists, where a single name is left over, and
        the list of those of the workload with this name."""
        *words, action = self.prog.split()[1:]
        if action != "list" or len(left) != 1:
            return []
        _, actions = DEFAULT_ACTIONS[words[-1]]
        shows = [each for each in ("describe", "show") if each in actions]
        ways = [*shows[:1], *(["--workload"] if "--workload" in self.flags else [])]
        return [Command((*words, way, left[0])) for way in ways]

    def _join_values(self, words: Sequence[str]) -> list[str]:
        """``--arg -c`` as ``--arg=-c``: argparse would take ``-c`` for a flag. A word that is a
        flag of this command stays one."""
        valued = {
            flag
            for action in self.arguments
            if action.nargs is None
            for flag in action.option_strings
        }
        joined: list[str] = []
        for at, word in enumerate(words):
            if word == "--":
                return [*joined, *words[at:]]
            flag = joined[-1] if joined else ""
            if flag not in valued or not word.startswith("-"):
                joined.append(word)
            elif word.partition("=")[0] not in self.flags:
                joined[-1] = f"{flag}={word}"
            else:
                raise errors.usage(
                    f"{flag}: expected a value, found the flag {word}; to pass it as a value, write"
                    f" {flag}={word}",
                    self._help(),
                )
        return joined

    def _refuse_unknown_flags(self, words: Sequence[str]) -> None:
        for word in words:
            flag = word.partition("=")[0]
            if flag == "--":
                return
            if flag.startswith("--") and " " not in flag and flag not in self.flags:
                elsewhere = FLAGS_ELSEWHERE.get(flag, "")
                nearest = elsewhere if elsewhere in self.flags else _nearest(flag, self.flags)
                meant = f"; did you mean {nearest}?" if nearest else ""
                raise errors.usage(f'unknown flag "{flag}"{meant}', self._help())

    def _refuse_unknown_subcommand(self, words: Sequence[str]) -> None:
        """A parser with subcommands has no flags that take a value; what follows ``--help`` may
        be such flags of its subcommands."""
        word = next((word for word in words if word in HELP_FLAGS or not _is_flag(word)), None)
        known = list(self.subparsers)
        if word is not None and word not in (*known, *HELP_FLAGS):
            raise errors.usage(
                f'unknown {self.subcommands.dest} "{word}"; expected one of {", ".join(known)}',
                Command((*self.prog.split()[1:], _nearest(word, known) or "--help")),
            )

    def _help(self) -> Command:
        return Command((*self.prog.split()[1:], "--help"))

    def error(self, message: str) -> NoReturn:
        """argparse calls this for required arguments that are missing, and for little else."""
        wanted = [*self.arguments, *([self.subcommands] if self.subcommands else [])]
        missing = [
            "/".join(action.option_strings) or str(action.metavar or action.dest)
            for action in wanted
            if action.required and getattr(self._parsed, action.dest, None) is None
        ]
        if missing:
            plural = "s" if len(missing) > 1 else ""
            message = f"missing argument{plural}: {', '.join(missing)}"
        raise errors.usage(message, self._help())


def _is_flag(word: str) -> bool:
    return word.startswith("-") and word.lstrip("-")[:1].isalpha()


def _nearest(value: str, choices: Sequence[str]) -> str:
    """What was probably meant, or nothing."""
    import difflib

    begun = [choice for choice in choices if len(value) > 3 and choice.startswith(value)]
    # Without the dashes, in which all flags are alike.
    by_name = {choice.lstrip("-"): choice for choice in choices}
    close = difflib.get_close_matches(value.lstrip("-"), by_name, n=1)
    return next(iter(begun or map(by_name.__getitem__, close)), "")


def move_leading_flags(argv: Sequence[str]) -> list[str]:
    """``argv`` with the command first: target and output flags may precede it."""
    words, ahead = list(argv), []
    while words and words[0].partition("=")[0] in LEADING_FLAGS:
        count = 1 if "=" in words[0] else 2
        ahead += words[:count]
        del words[:count]
    if not words:
        return ahead
    end = words.index("--") if "--" in words else len(words)
    return [*words[:end], *ahead, *words[end:]]


def insert_default_action(argv: Sequence[str], command: str | None) -> list[str]:
    """``argv`` with the default action where none was typed."""
    words = list(argv)
    if command not in DEFAULT_ACTIONS:
        return words
    default, actions = DEFAULT_ACTIONS[command]
    position = words.index(command) + 1
    following = words[position] if position < len(words) else ""
    if following not in actions and following not in HELP_FLAGS:
        words.insert(position, default)
    return words


def leaf_parsers(parser: Parser) -> Iterator[Parser]:
    """The parsers that end a command: the parser itself, or those of its actions."""
    if not parser.subparsers:
        yield parser
    for each in parser.subparsers.values():
        yield from leaf_parsers(each)


def add_action(
    actions: Any, name: str, summary: str, examples: Sequence[str]
) -> argparse.ArgumentParser:
    """A parser for ``name`` below ``actions``, which is what ``add_subparsers`` returned and
    has no public type."""
    parser: argparse.ArgumentParser = actions.add_parser(
        name,
        help=summary[0].lower() + summary[1:],
        description=summary + ".",
    )
    set_examples(parser, *examples)
    return parser


def adapt_help(parser: Parser, width: int, program: str) -> None:
    """Make help this wide and name the program as it was typed, here and below."""
    parser.formatter_class = help_formatter(width, program)
    if parser.examples:
        parser.epilog = _examples(parser, program)
    for each in parser.subparsers.values():
        adapt_help(each, width, program)


def _examples(parser: Parser, program: str) -> str:
    return "\n".join(["examples:", *(f"  {program} {each}" for each in parser.examples)])


def set_examples(parser: argparse.ArgumentParser, *examples: str) -> None:
    """Examples below a command's help; a test runs each of them."""
    assert isinstance(parser, Parser)
    parser.examples = examples
    parser.epilog = _examples(parser, errors.PROGRAM)


def add_target_flags(parser: Parser) -> None:
    """Flags that select the platform; a parser that has its own keeps them."""
    if "--data-dir" in parser.flags:
        return
    add = partial(parser.add_target_flag, parser.add_argument_group("where"))
    add("--project", help="the project (default: that of the server or context)")
    add("--server", help="API server address, e.g. https://127.0.0.1:7443")
    add("--token", help="bearer token, in place of any other credential")
    add("--token-file", metavar="FILE", help="file with the bearer token")
    add("--kubeconfig", metavar="FILE", help="kubeconfig with the server and credentials")
    add("--context", help="context in --kubeconfig; without it a stored one, or one in KUBECONFIG")
    add("--certificate-authority", metavar="FILE", help="CA certificate of the server")
    add("--data-dir", metavar="DIR", help="state directory of a local platform")


def parse_duration(text: str) -> float:
    """``45s``, ``10m``, ``1h30m``."""
    # Nine digits of seconds are decades; without a limit a number could be too large for a float.
    found = re.fullmatch(r"(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", text, re.ASCII)
    if not text or not found:
        raise argparse.ArgumentTypeError(f'"{text}" is not a duration such as 45s, 10m or 1h30m')
    hours, minutes, rest = (int(part or 0) for part in found.groups())
    return float(hours * 3600 + minutes * 60 + rest)


def parse_integer(text: str) -> int:
    # Python reads 1_0 and the digits of every script too.
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError(f'"{text}" is not a whole number')
    return int(text)


def parse_text(text: str) -> str:
    """Refuses what no object could keep, before anything is written."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError("not UTF-8 text") from None
    return text


def add_message_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--message",
        type=parse_text,
        metavar="TEXT",
        help="reason for the change, kept in the history",
    )


def add_confirmation_flag(parser: argparse.ArgumentParser) -> None:
    """Every command that writes accepts it, whether or not it asks."""
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")


def add_rollout_flags(parser: argparse.ArgumentParser) -> None:
    """For a command that waits for a rollout, which may go in waves."""
    _add_wait_flags(parser, f"{DEFAULT_TIMEOUT}, longer for a rollout in waves")
    parser.add_argument(
        "--window",
        type=parse_duration,
        default=parse_duration(DEFAULT_WINDOW),
        metavar="DURATION",
        help="how long all instances must stay ready after the rollout; 0s skips this check "
        f"(default {DEFAULT_WINDOW})",
    )
    parser.set_defaults(timeout=None)  # as long as its waves may take


def add_wait_flags(parser: argparse.ArgumentParser) -> None:
    _add_wait_flags(parser, DEFAULT_TIMEOUT)


def _add_wait_flags(parser: argparse.ArgumentParser, timeout: str) -> None:
    """``timeout`` is how help describes the default."""
    parser.add_argument(
        "--wait",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="wait until it is done (default)",
    )
    parser.add_argument(
        "--timeout",
        type=parse_duration,
        default=parse_duration(DEFAULT_TIMEOUT),
        metavar="DURATION",
        help=f"how long to wait, e.g. 45s, 10m, 1h30m (default {timeout})",
    )
