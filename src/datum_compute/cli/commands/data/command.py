"""The arguments of ``config`` and ``secrets``, and which function each action runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from datum_compute.cli.arguments import Parser, add_action, add_confirmation_flag
from datum_compute.cli.commands.data.kinds import DataKind
from datum_compute.cli.context import Context
from datum_compute.cli.names import workload_name
from datum_compute.cli.render.output import add_output_flags


def commands_of(
    kind: DataKind,
) -> tuple[Callable[[argparse.ArgumentParser], None], Callable[[Context], int]]:
    """The functions of a command on objects of this kind."""
    return lambda parser: _configure(parser, kind), lambda context: _run(context, kind)


def _configure(parser: argparse.ArgumentParser, kind: DataKind) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = add_action(
        actions,
        "list",
        f"List {kind.resource.kind}s with their keys",
        (kind.verb, f"{kind.verb} list -o name"),
    )
    fields = "`name`, `keys`, `age`, `created`"
    add_output_flags(listing, f"{fields}, `type`" if kind.hidden else fields)
    _configure_set(actions, kind)
    if not kind.hidden:
        showing = add_action(
            actions,
            "show",
            "Show the values of a ConfigMap",
            ("config show settings", "config show settings colour"),
        )
        _add_name(showing, kind)
        showing.add_argument(
            "key", metavar="KEY", nargs="?", help="print only the value of this key"
        )
        add_output_flags(showing, f"{fields}, `data`")
    _configure_unset(actions, kind)


def _configure_set(actions: Any, kind: DataKind) -> None:
    examples = (
        (
            "secrets set keys token=s3cr3t",
            "secrets set keys token",
            "secrets set keys --dry-run a=b",
        )
        if kind.hidden
        else ("config set settings colour=blue", "config set settings size=3 --dry-run")
    )
    parser = add_action(
        actions, "set", f"Create a {kind.resource.kind} or set keys of it", examples
    )
    _add_name(parser, kind)
    parser.add_argument(
        "entries",
        metavar="KEY[=VALUE]" if kind.hidden else "KEY=VALUE",
        nargs="*",
        help="key and value; for KEY alone the value is typed at a prompt, or read from stdin;"
        " - reads lines of KEY=VALUE from stdin"
        if kind.hidden
        else "key and value",
    )
    parser.add_argument(
        "--from-file",
        metavar="[KEY=]FILE",
        action="append",
        default=[],
        help="file with the value; the key is KEY, or else the name of the file; repeatable",
    )
    assert isinstance(parser, Parser)
    parser.last = "entries"
    _add_write_flags(parser)


def _configure_unset(actions: Any, kind: DataKind) -> None:
    name = "keys" if kind.hidden else "settings"
    key = "token" if kind.hidden else "colour"
    parser = add_action(
        actions,
        "unset",
        f"Remove keys from a {kind.resource.kind}, or delete it",
        (f"{kind.verb} unset {name} {key} --dry-run", f"{kind.verb} unset {name} --yes"),
    )
    _add_name(parser, kind)
    parser.add_argument(
        "keys",
        metavar="KEY",
        nargs="*",
        help=f"key to remove (default: delete the {kind.resource.kind})",
    )
    assert isinstance(parser, Parser)
    parser.last = "keys"
    _add_write_flags(parser)


def _add_name(parser: argparse.ArgumentParser, kind: DataKind) -> None:
    parser.add_argument(
        "name", metavar="NAME", type=workload_name, help=f"name of the {kind.resource.kind}"
    )


def _add_write_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="show the plan and change nothing")
    add_confirmation_flag(parser)
    add_output_flags(
        parser,
        "`name`, `action` (`created`, `updated`, `unchanged` or `deleted`), `keys` (that were"
        " changed), `usedBy` (workloads); with `--dry-run` also `dryRun`",
    )


def _run(context: Context, kind: DataKind) -> int:
    if context.args.action == "list":
        from datum_compute.cli.commands.data.show import show_list

        return show_list(context, kind)
    if context.args.action == "show":
        from datum_compute.cli.commands.data.show import show_values

        return show_values(context, kind)
    from datum_compute.cli.commands.data import change

    run = change.run_set if context.args.action == "set" else change.run_unset
    return run(context, kind)
