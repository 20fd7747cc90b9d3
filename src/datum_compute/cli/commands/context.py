"""``context list|show|use|add|remove``: where commands act, and named targets."""

from __future__ import annotations

import argparse
import os
from typing import Any

from datum_compute.api.planes import split_project_path
from datum_compute.cli.arguments import add_action
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit, usage
from datum_compute.cli.explain.suggestions import AddFlag, command
from datum_compute.cli.names import is_name, is_project
from datum_compute.cli.render.output import NONE, add_output_flags, show, table
from datum_compute.cli.targets import stored_contexts
from datum_compute.cli.targets.stored_contexts import ContextFile, StoredContext

HEADER = ("CURRENT", "NAME", "PROJECT", "TARGET", "CREDENTIAL")


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = add_action(
        actions, "list", "List the stored contexts", ("context list", "context list -o json")
    )
    showing = add_action(
        actions,
        "show",
        "Show the server and project that commands use, and what selected them",
        ("context show", "context show --project shop"),
    )
    using = add_action(
        actions,
        "use",
        "Make a stored context the current one; - selects none",
        ("context use shop", "context use -"),
    )
    adding = add_action(
        actions,
        "add",
        "Store the server and project that the flags name as a context",
        (
            "context add shop --server https://127.0.0.1:7443 --project shop --token-file t",
            "context add home --data-dir ~/.local/state/datum-compute --project demo",
        ),
    )
    removing = add_action(
        actions,
        "remove",
        "Remove a stored context",
        ("context remove shop", "context remove home"),
    )
    for each in (using, adding, removing):
        each.add_argument("name", metavar="NAME", help="name of the context")
    add_output_flags(listing, "`name`, `current`, `project`, `target`, `credential`")
    add_output_flags(showing, "`project`, `server`, `selectedBy`, `credential`")


def run(context: Context) -> int:
    actions = {"list": _list, "show": _show, "use": _use, "add": _add, "remove": _remove}
    return actions[context.args.action](context)


def _list(context: Context) -> int:
    found = stored_contexts.read(context.env)
    views = [
        {
            "name": each.name,
            "current": each.name == found.current,
            "project": each.project or None,
            "target": each.place,
            "credential": each.credential,
        }
        for each in found.contexts.values()
    ]
    if not views and context.tables:
        context.say("No contexts are stored.")
        context.suggest(command("context", "add", "NAME", "--server", "URL", "--project", "NAME"))
        return 0
    rows = [
        (
            "*" if each.name == found.current else "",
            each.name,
            each.project or NONE,
            each.place,
            each.credential,
        )
        for each in found.contexts.values()
    ]
    headers = not context.args.no_headers
    show(
        context,
        views,
        as_table=lambda _: table(HEADER, rows, headers=headers, width=context.width()),
        names=[f"context/{view['name']}" for view in views],
    )
    return 0


def _show(context: Context) -> int:
    from datum_compute.cli.target import find_target

    target = find_target(context.env, context.args)
    connection = target.connection
    view = {
        "project": target.project,
        "server": connection.origin + connection.prefix,
        "selectedBy": target.source,
        "credential": target.credential,
    }
    show(
        context,
        view,
        as_table=lambda _: "\n".join(
            [
                f"Project       {view['project']}",
                f"Server        {view['server']}",
                f"Selected by   {view['selectedBy']}",
                f"Credential    {view['credential']}",
            ]
        ),
        names=[f"project/{view['project']}"],
    )
    return 0


def _use(context: Context) -> int:
    name = "" if context.args.name == "-" else context.args.name

    def select(found: ContextFile) -> ContextFile:
        if name:
            _require(found, name)
        return found._replace(current=name)

    stored_contexts.change(context.env, select)
    context.say(f'Commands now use context "{name}".' if name else "No context is selected.")
    return 0


def _add(context: Context) -> int:
    added = _described(context.args)

    def add(found: ContextFile) -> ContextFile:
        if added.name in found.contexts:
            raise CommandError(
                f'context "{added.name}" already exists',
                command("context", "remove", added.name),
                exit_code=Exit.CONFLICT,
                code="Conflict",
            )
        return found._replace(contexts={**found.contexts, added.name: added})

    stored_contexts.change(context.env, add)
    context.say(f'Context "{added.name}" was stored.')
    if added.server and not added.project and not split_project_path(added.server)[1]:
        context.say("It names no project, so commands in it need --project.")
    return 0


def _described(args: Any) -> StoredContext:
    """The context that the flags describe. Raises where they describe none, or a token, which a
    file should hold."""
    if not is_name(args.name):
        raise usage(f'context "{args.name}": expected lower-case letters, digits, "-" and "."')
    if args.token is not None:
        raise usage(
            "--token: a context stores the path of a token file, not a token",
            AddFlag("--token-file", "F"),
        )
    if args.project is not None and not is_project(args.project):
        raise usage(f'--project "{args.project}": expected lower-case letters, digits and -')
    if bool(args.server) + bool(args.kubeconfig) + bool(args.data_dir) != 1:
        raise usage("context add needs one of --server, --kubeconfig and --data-dir")
    if args.kubeconfig and args.token_file:
        raise usage(
            "--token-file cannot be combined with --kubeconfig, which has its own credential"
        )
    if args.context and not args.kubeconfig:
        raise usage("--context needs --kubeconfig")
    return StoredContext(
        args.name,
        server=args.server or "",
        certificate_authority=_absolute(args.certificate_authority),
        token_file=_absolute(args.token_file),
        kubeconfig=_absolute(args.kubeconfig),
        kubeconfig_context=args.context or "",
        data_dir=_absolute(args.data_dir),
        project=args.project or "",
    )


def _absolute(path: str | None) -> str:
    return os.path.abspath(path) if path else ""


def _remove(context: Context) -> int:
    name = context.args.name

    def remove(found: ContextFile) -> ContextFile:
        _require(found, name)
        left = {key: each for key, each in found.contexts.items() if key != name}
        return ContextFile("" if found.current == name else found.current, left)

    stored_contexts.change(context.env, remove)
    context.say(f'Context "{name}" was removed.')
    return 0


def _require(found: ContextFile, name: str) -> None:
    if name not in found.contexts:
        known = ", ".join(found.contexts) or "none"
        raise CommandError(
            f'context "{name}" not found; contexts: {known}',
            command("context", "list"),
            exit_code=Exit.NOT_FOUND,
            code="NotFound",
        )
