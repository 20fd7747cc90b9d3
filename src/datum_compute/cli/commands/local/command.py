"""``local``: the whole platform on this machine."""

from __future__ import annotations

import argparse

from datum_compute.api.planes import PLANE_TYPES
from datum_compute.assembly.local.state import SettingsDamaged, StateUnusable
from datum_compute.assembly.local.state_reader import USER_ROLES
from datum_compute.cli.arguments import OneOf, add_action, add_confirmation_flag, parse_integer
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError
from datum_compute.cli.explain.suggestions import AddFlag, Remark, command
from datum_compute.cli.render.output import add_output_flags
from datum_compute.cli.target import local_state
from datum_compute.providers.registry import AUTO, providers_of

RUNTIMES = (AUTO, *(provider.name for provider in providers_of("local")))


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    up = add_action(
        actions,
        "up",
        "Start a local platform",
        ("local up --detach", "local up --detach --cities DFW,LHR"),
    )
    up.add_argument("--cities", metavar="DFW,IAD,LHR", help="cities to serve, one cell each")
    up.add_argument(
        "--grant", metavar="instances=100,…", help="quota of the project, in base units"
    )
    up.add_argument(
        "--port",
        type=parse_integer,
        metavar="N",
        help="port of the API (0, the default: that of the last start, else 7443, else a free one)",
    )
    up.add_argument(
        "--router-port",
        type=parse_integer,
        metavar="N",
        help="port of workload URLs (0, the default: that of the last start, else 7480, else a free"
        " one)",
    )
    up.add_argument(
        "--runtime",
        type=_runtime,
        metavar="|".join(RUNTIMES),
        help="how instances run (default: DATUM_RUNTIME, or auto: the first that can run here)",
    )
    up.add_argument(
        "--sample", action="store_true", help="deploy a web server to every city, once ready"
    )
    up.add_argument(
        "--detach", action="store_true", help="run in the background; return when ready"
    )
    up.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)
    down = add_action(
        actions,
        "down",
        "Stop the local platform and keep its state",
        ("local down", "local down --data-dir ./state"),
    )
    status = add_action(
        actions,
        "status",
        "Show whether a local platform is running, and where",
        ("local status", "local status -o json"),
    )
    add_output_flags(
        status,
        "`address`, `pid`, `uptimeSeconds`, `runtime`, `project`, `cities`, `disconnected`,"
        " `urls`, `planes`",
    )
    reset = add_action(
        actions,
        "reset",
        "Stop the local platform and delete its state",
        ("local reset", "local reset --yes"),
    )
    add_confirmation_flag(reset)
    cell = add_action(
        actions,
        "cell",
        "Disconnect a cell from the control plane, or reconnect it",
        ("local cell disconnect LHR", "local cell connect LHR"),
    )
    cell.add_argument(
        "verb",
        type=OneOf("disconnect|connect", ("disconnect", "connect")),
        metavar="disconnect|connect",
        help="the action",
    )
    cell.add_argument("city", metavar="CITY", help="city of the cell")
    kubeconfig = add_action(
        actions,
        "kubeconfig",
        "Print a kubeconfig for kubectl",
        ("local kubeconfig > kubeconfig", "local kubeconfig --plane hub > hub.kubeconfig"),
    )
    default, *others, last = (each.form for each in PLANE_TYPES)
    kubeconfig.add_argument(
        "--plane",
        metavar="PLANE",
        help=f"{default} (default), {', '.join(others)} or {last}",
    )
    user = add_action(
        actions,
        "user",
        "Give a user a role in a project, list the users, or remove one",
        (
            "local user add ana --project demo --role editor",
            "local user list",
            "local user remove ana",
        ),
    )
    user.add_argument(
        "verb",
        type=OneOf("add|list|remove", ("add", "list", "remove")),
        metavar="add|list|remove",
        help="the action",
    )
    user.add_argument("name", metavar="NAME", nargs="?", help="name of the user")
    user.add_argument(
        "--role",
        type=OneOf("--role", USER_ROLES),
        metavar="|".join(USER_ROLES),
        help="what the user may do in the project: read, also change workloads, or also its access"
        " and quota",
    )
    user.add_argument(
        "--credential",
        type=OneOf("--credential", ("token", "kubeconfig")),
        default="token",
        metavar="token|kubeconfig",
        help="what add prints for a new user (default: token)",
    )
    add_output_flags(
        user,
        "`user`, `project`, `role`; of `add` and `remove` also `action` (`added` or"
        " `removed`), and of a new user `token` or `kubeconfig`",
    )
    check = add_action(
        actions,
        "check",
        "Check the stored state for damage, and change nothing",
        ("local check", "local check -o json"),
    )
    add_output_flags(check, "`plane`, `resource`, `namespace`, `name`, `problem`, `remedy`")
    repair = add_action(
        actions,
        "repair",
        "Copy the state, then roll back or delete what is damaged",
        ("local repair", "local repair --yes"),
    )
    backup = add_action(
        actions,
        "backup",
        "Back up every object to a new file, also while the platform runs",
        ("local backup monday.backup", "local backup ./state.backup --data-dir ./state"),
    )
    backup.add_argument("file", metavar="FILE", help="the file to write")
    restore = add_action(
        actions,
        "restore",
        "Replace every object with those of a backup",
        ("local restore monday.backup", "local restore monday.backup --yes"),
    )
    restore.add_argument("file", metavar="FILE", help="a file that local backup wrote")
    for action in (repair, restore):
        add_confirmation_flag(action)
    every = (up, down, status, reset, cell, kubeconfig, user, check, repair, backup, restore)
    for action in every:
        action.add_argument("--data-dir", metavar="DIR", help="state directory")
    for action in (up, kubeconfig, user):
        action.add_argument("--project", help="the project (default: demo)")


def _runtime(text: str) -> str:
    if text not in RUNTIMES:
        known = ", ".join(RUNTIMES)
        raise argparse.ArgumentTypeError(f'unknown runtime "{text}"; expected one of {known}')
    return text


def run(context: Context) -> int:
    from datum_compute.cli.commands.local import control, down, storage, up, user

    actions = {
        "up": up.up,
        "down": down.down,
        "status": control.status,
        "reset": down.reset,
        "cell": control.cell,
        "kubeconfig": control.print_kubeconfig,
        "user": user.user,
        "check": storage.check,
        "repair": storage.repair,
        "backup": storage.back_up,
        "restore": storage.restore,
    }
    try:
        return actions[context.args.action](context, local_state(context.env, context.args))
    except SettingsDamaged as error:
        raise CommandError(
            str(error),
            Remark("put back an earlier copy of the file, or delete the platform with its state:"),
            command("local", "reset"),
            code="StateUnusable",
        ) from error
    except StateUnusable as error:
        raise CommandError(
            str(error), AddFlag("--data-dir", "DIR"), code="StateUnusable"
        ) from error
