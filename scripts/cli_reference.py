"""The reference of the command line, from its parser.

The meaning of a flag is in its help only; this arranges it as a page. It does not
use argparse's own layout, which differs between versions of Python and with the width of
the terminal.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from datum_compute.cli import errors
from datum_compute.cli.arguments import DEFAULT_ACTIONS, Parser, leaf_parsers
from datum_compute.cli.main import COMMANDS, build_parser
from datum_compute.cli.render.output import FORMATS

SHARED = ("-h", "-o", "--no-headers")
"""Flags that are described once for all commands, as those of the target are."""

HEAD = """\
# The command line

Generated from the program's own help by `make generate`; do not edit.

`datumctl-compute COMMAND --help` prints the same.
Data goes to stdout and messages go to stderr, so output can be piped.

"""


def rendered() -> str:
    commands = {name: build_parser(name).subparsers[name] for name in COMMANDS}
    parts = [
        HEAD,
        "".join(_contents()),
        "\n## Shared flags\n\n",
        "".join(_shared(commands)),
        "\n## Exit codes\n\n",
        "".join(_exit_codes()),
    ]
    for name, parser in commands.items():
        parts.append(f"\n## {name}\n\n{parser.description}\n")
        parts += _default(name)
        for leaf in leaf_parsers(parser):
            parts += _command(leaf, nested=leaf is not parser)
    return "".join(parts)


def _contents() -> Iterator[str]:
    yield "| Command | What it does |\n|---|---|\n"
    for name, summary in COMMANDS.items():
        yield f"| [{name}](#{name}) | {summary} |\n"


def _shared(commands: dict[str, Parser]) -> Iterator[str]:
    example = commands["status"]
    yield "| Flag | Meaning |\n|---|---|\n"
    for action in example.arguments:
        if action.option_strings and _is_shared(action, example):
            yield _row(action)
    leaves = [leaf for parser in commands.values() for leaf in leaf_parsers(parser)]
    without_target = [leaf for leaf in leaves if not leaf.target_flags]
    without_format = [leaf for leaf in leaves if "-o" not in leaf.flags]
    yield f"\n`-o` and `--no-headers` are for all commands but {_names(without_format)}.\n"
    yield f"{_names(without_target)} have their own flags instead of those from `--project` on.\n"
    yield f"Formats are {', '.join(f'`{each}`' for each in FORMATS)}.\n"
    yield "`json` and `yaml` show the same [fields](json.md).\n"


def _names(leaves: list[Parser]) -> str:
    names = [f"`{leaf.prog.removeprefix(f'{errors.PROGRAM} ')}`" for leaf in leaves]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _is_shared(action: argparse.Action, parser: Parser) -> bool:
    return action.option_strings[0] in SHARED or action in parser.target_flags


def _exit_codes() -> Iterator[str]:
    """The table in the module that declares the codes."""
    yield "| Code | Meaning |\n|---|---|\n"
    for code, meaning in re.findall(r"^(\d+) {2,}(.+)$", errors.__doc__ or "", re.MULTILINE):
        yield f"| {code} | {meaning} |\n"


def _default(name: str) -> list[str]:
    if name not in DEFAULT_ACTIONS:
        return []
    return [f"\nWithout an action, `{name}` means `{name} {DEFAULT_ACTIONS[name][0]}`.\n"]


def _command(parser: Parser, *, nested: bool) -> Iterator[str]:
    if nested:
        title = parser.prog.removeprefix(f"{errors.PROGRAM} ")
        yield f"\n### {title}\n\n"
        if parser.description:
            yield f"{parser.description}\n\n"
    else:
        yield "\n"
    yield f"```\n{_usage(parser)}\n```\n"
    own = [action for action in parser.arguments if _is_own(action, parser)]
    if own:
        yield "\n| | Meaning |\n|---|---|\n"
        yield from map(_row, own)
    if parser.json_fields:
        yield f"\n`-o json` shows {parser.json_fields}.\n"
    examples = re.findall(rf"^  ({errors.PROGRAM} .+)$", parser.epilog or "", re.MULTILINE)
    if examples:
        yield "\n```sh\n" + "\n".join(examples) + "\n```\n"


def _is_own(action: argparse.Action, parser: Parser) -> bool:
    if action.help == argparse.SUPPRESS:
        return False
    return not action.option_strings or not _is_shared(action, parser)


def _usage(parser: Parser) -> str:
    names = [_placeholder(action) for action in parser.arguments if not action.option_strings]
    return " ".join([parser.prog, *names, "[flags]"])


def _placeholder(action: argparse.Action) -> str:
    name = str(action.metavar or action.dest.upper())
    return f"[{name}]" if action.nargs == "?" else name


def _row(action: argparse.Action) -> str:
    shown = ", ".join(f"`{option}`" for option in action.option_strings)
    if not action.option_strings:
        shown = f"`{action.metavar or action.dest.upper()}`"
    elif action.nargs != 0:
        shown += f" `{action.metavar or action.dest.upper()}`"
    meaning = (action.help or "").replace("|", "\\|").replace("%%", "%")
    return f"| {shown.replace('|', chr(92) + '|')} | {meaning} |\n"
