"""The shape of the command line: one parser class, shared flags, and default actions.

``workloads`` alone means ``workloads list`` and ``rollout NAME`` means ``rollout status
NAME``. argparse cannot say that, so the missing word is put in before it looks.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NoReturn

from datum_compute.cli import errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# argparse looks for a translation of every text, file by file, though none is ever shipped and
# ours are English. That is half the time it takes.
argparse._ = str  # type: ignore[attr-defined]

DEFAULT_ACTIONS = {
    "workloads": ("list", frozenset({"list", "describe"})),
    "instances": ("list", frozenset({"list", "describe"})),
    "access": ("status", frozenset({"status", "request"})),
    "rollout": ("status", frozenset({"status", "history", "undo", "restart"})),
}
"""Command -> what it does when no action is named, and the actions it has."""


WIDTH = 78
"""Columns of help where nothing else is known."""


class _Formatter(argparse.HelpFormatter):
    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap_text(text, width)


class FilledHelpFormatter(_Formatter):
    """Help in which all texts are filled."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(indent + line for line in wrap_text(text, width - len(indent)))


class Formatter(_Formatter, argparse.RawDescriptionHelpFormatter):
    """Help of a given width, with examples left as they are written.

    Without one, argparse loads what can ask the terminal, for every parser it makes, shown
    or not; that costs a quarter of the time until help is there."""

    def __init__(
        self,
        prog: str,
        indent_increment: int = 2,
        max_help_position: int = 24,
        width: int | None = None,
    ) -> None:
        super().__init__(prog, indent_increment, max_help_position, width or WIDTH)


def wrap_text(text: str, width: int) -> list[str]:
    """As textwrap does it; that is loaded only for what takes more than counting."""
    words = text.split()
    line = " ".join(words)
    if len(line) <= width:
        return [line] if line else []
    if "-" in line or max(map(len, words)) > width:  # may be broken within words
        import textwrap

        return textwrap.wrap(line, width)
    lines = words[:1]
    for word in words[1:]:
        if len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


LEADING_FLAGS = frozenset(
    {
        "--project",
        "--server",
        "--token",
        "--kubeconfig",
        "--context",
        "--certificate-authority",
        "--data-dir",
        "--output",
        "-o",
    }
)
"""Flags with a value that many programs take before the command."""


class Parser(argparse.ArgumentParser):
    """Faults are raised as ours, so that they are told and counted like any other."""

    def __init__(self, **options: Any) -> None:
        # A flag is what help calls it: half of one would mean another when a new one comes.
        super().__init__(**{"formatter_class": Formatter, "allow_abbrev": False, **options})

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Nothing may be left over; whoever is asked last knows best what was meant."""
        if args is not None and not subparsers_of(self):
            self._refuse_unknown_flags(args)  # before anything is missed that it stands for
        found, left = super().parse_known_args(args, namespace)
        self._refuse_unknown_flags(left)
        if left:
            raise errors.usage(f"not understood: {' '.join(left)}", f"{self.prog} --help")
        return found, left

    def _refuse_unknown_flags(self, words: Sequence[str]) -> None:
        for word in words:
            flag = word.partition("=")[0]
            if flag == "--":
                return
            if flag.startswith("--") and " " not in flag and flag not in self._options():
                nearest = _nearest(flag, self._options())
                meant = f"; did you mean {nearest}?" if nearest else ""
                raise errors.usage(f'unknown flag "{flag}"{meant}', f"{self.prog} --help")

    def _options(self) -> list[str]:
        return list(self._option_string_actions)

    def error(self, message: str) -> NoReturn:
        raise errors.usage(_in_words(message), f"{self.prog} --help")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        if isinstance(action, argparse._SubParsersAction):
            kind = "command" if action.dest == "command" else "action"
            raise errors.usage(
                f'unknown {kind} "{value}"; there are {", ".join(choices)}',
                f"{self.prog} {_nearest(str(value), choices) or '--help'}",
            )
        name = action.option_strings[0] if action.option_strings else action.metavar
        raise errors.usage(f'{name} "{value}": expected one of {", ".join(choices)}')


def _nearest(value: str, choices: Sequence[str]) -> str:
    """What was probably meant, or nothing."""
    import difflib

    begun = [choice for choice in choices if len(value) > 3 and choice.startswith(value)]
    return next(iter(begun or difflib.get_close_matches(value, choices, n=1)), "")


def _in_words(message: str) -> str:
    """What argparse says, as the rest of the program would say it."""
    missing = message.removeprefix("the following arguments are required: ")
    if missing != message:
        return f"{missing} is missing"
    return message.removeprefix("argument ")


def move_leading_flags(argv: Sequence[str]) -> list[str]:
    """The words with the command first: flags of where and how may also stand before it."""
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
    """The words with the action put in that a person may leave out."""
    words = list(argv)
    if command not in DEFAULT_ACTIONS:
        return words
    default, actions = DEFAULT_ACTIONS[command]
    position = words.index(command) + 1
    following = words[position] if position < len(words) else ""
    if following not in actions and following not in ("-h", "--help"):
        words.insert(position, default)
    return words


def leaf_parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers that end a command: the parser itself, or those of its actions."""
    nested = subparsers_of(parser)
    if not nested:
        yield parser
    for each in nested.values():
        yield from leaf_parsers(each)


def subparsers_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The actions of a parser by name; argparse offers no public way to ask."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


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


def set_width(parser: argparse.ArgumentParser, width: int) -> None:
    """Make help so wide, here and below, and leave examples as they are written."""
    parser.formatter_class = lambda prog: Formatter(prog, width=width)
    for each in subparsers_of(parser).values():
        set_width(each, width)


def set_examples(parser: argparse.ArgumentParser, *examples: str) -> None:
    """Examples below a command's help; a test runs each of them."""
    parser.epilog = "\n".join(["examples:", *(f"  {errors.PROGRAM} {each}" for each in examples)])


def add_target_flags(parser: argparse.ArgumentParser) -> None:
    """Where a command talks to; a parser that has flags of its own for that keeps them."""
    if any("--data-dir" in action.option_strings for action in parser._actions):
        return
    group = parser.add_argument_group("where")
    group.add_argument("--project", help="the project (default: the platform's own)")
    group.add_argument("--server", help="address of the API, e.g. https://127.0.0.1:7443")
    group.add_argument("--token", help="bearer token for --server")
    group.add_argument("--kubeconfig", metavar="FILE", help="take server and credential from it")
    group.add_argument("--context", help="context of --kubeconfig (default: its current one)")
    group.add_argument("--certificate-authority", metavar="FILE", help="CA of --server")
    group.add_argument("--data-dir", metavar="DIR", help="state directory of a local platform")
