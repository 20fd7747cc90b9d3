"""People who use a local platform: given a role in a project, listed, removed."""

from __future__ import annotations

import asyncio
from typing import Any

from datum_compute.api.planes import PROJECT
from datum_compute.assembly.local.state import LocalSettings, RunningPlatform, StateDirectory
from datum_compute.cli.commands.local.control import (
    call,
    connection_to,
    plane_path,
    running_platform,
)
from datum_compute.cli.context import Context
from datum_compute.cli.errors import usage
from datum_compute.cli.explain.suggestions import AddFlag, command
from datum_compute.cli.render.output import show, table
from datum_compute.client import kubeconfig

USERS = "/local/v1/users"
HEADER = ("USER", "PROJECT", "ROLE")


def user(context: Context, state: StateDirectory) -> int:
    running, settings = running_platform(state)
    connection = connection_to(state, running)
    if context.args.verb == "list":
        return _list(context, connection)
    name = context.args.name
    if not name:
        raise usage(f"local user {context.args.verb}: missing argument: NAME")
    if context.args.verb == "remove":
        asyncio.run(call(connection, "DELETE", f"{USERS}/{name}"))
        context.say(f'User "{name}" was removed; its token is not accepted any more.')
        return _show_one(context, {"user": name, "action": "removed"}, "")
    return _add(context, connection, running, settings)


def _list(context: Context, connection: kubeconfig.Connection) -> int:
    views = asyncio.run(call(connection, "GET", USERS))["users"]
    if not views and context.tables:
        context.say("No user has a role in a project.")
        context.suggest(command("local", "user", "add", "NAME", "--role", "viewer"))
        return 0
    rows = [(each["user"], each["project"], each["role"]) for each in views]
    show(
        context,
        views,
        as_table=lambda _: table(
            HEADER, rows, headers=not context.args.no_headers, width=context.width()
        ),
        names=[f"user/{each['user']}" for each in views],
    )
    return 0


def _add(
    context: Context,
    connection: kubeconfig.Connection,
    running: RunningPlatform,
    settings: LocalSettings,
) -> int:
    args = context.args
    if not args.role:
        raise usage("local user add: missing argument: --role", AddFlag("--role", "viewer"))
    project = args.project or settings.project
    body = {"name": args.name, "project": project, "role": args.role}
    made: dict[str, Any] = asyncio.run(call(connection, "POST", USERS, body))
    context.say(f'User "{args.name}" has the role compute-{args.role} in project {project}.')
    view = {"user": args.name, "action": "added", "project": project, "role": args.role}
    token = made["token"]
    if token is None:
        context.say("Its token stays the same.")
        return _show_one(context, view, "")
    context.say("The token is shown once; the platform keeps only its hash.")
    if args.credential == "token":
        return _show_one(context, {**view, "token": token}, token)
    text = kubeconfig.render(
        server=running.address + plane_path(PROJECT.plane(project), settings),
        ca_pem=connection.ca_pem,
        token=token,
        name=f"datum-project-{project}",
        user=args.name,
    )
    return _show_one(context, {**view, "kubeconfig": text}, text.rstrip())


def _show_one(context: Context, view: dict[str, Any], text: str) -> int:
    """``text`` is the credential alone, for a file."""
    show(context, view, as_table=lambda _: text, names=[f"user/{view['user']}"])
    return 0
