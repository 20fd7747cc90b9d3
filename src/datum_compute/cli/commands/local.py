"""``local up|down|status|kubeconfig``: the whole platform on this machine."""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import replace

from datum_compute.assembly.local.state import (
    DEFAULT_GRANT,
    LocalSettings,
    RunningPlatform,
    StateDirectory,
)
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit, usage
from datum_compute.cli.output import add_output_flags, duration, show
from datum_compute.cli.target import PROJECT_PATH, local_state
from datum_compute.client import kubeconfig

RESERVED = frozenset({"HUB"})
_CITY = re.compile(r"^[A-Z][A-Z0-9]{1,15}$")
_PROJECT = re.compile(r"^[a-z]([-a-z0-9]{0,28}[a-z0-9])?$")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "examples:\n"
        "  datumctl-compute local up --detach --cities DFW,LHR\n"
        "  datumctl-compute local kubeconfig --plane hub > hub.kubeconfig\n"
        "  datumctl-compute local down"
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    up = actions.add_parser("up", help="start it")
    up.add_argument("--cities", metavar="DFW,IAD,LHR", help="one cell for each")
    up.add_argument("--grant", metavar="instances=100,…", help="quota in base units")
    up.add_argument("--port", type=int, metavar="N", help="default: the last one, 7443, or any")
    up.add_argument("--detach", action="store_true", help="return when it is ready")
    up.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)
    actions.add_parser("down", help="stop it; the state stays")
    status = actions.add_parser("status", help="whether it runs, and where")
    add_output_flags(status)
    kubeconfig = actions.add_parser("kubeconfig", help="print a kubeconfig for kubectl")
    kubeconfig.add_argument(
        "--plane", metavar="PLANE", help="project/NAME (default), hub, cell/CITY or root"
    )
    for action in (up, status, kubeconfig, actions.choices["down"]):
        action.add_argument("--data-dir", metavar="DIR", help="state directory")
        action.add_argument("--project", help="the project (default: demo)")


def run(context: Context) -> int:
    actions = {"up": _up, "down": _down, "status": _status, "kubeconfig": _kubeconfig}
    return actions[context.args.action](context, local_state(context.env, context.args))


def _up(context: Context, state: StateDirectory) -> int:
    stored = state.settings()
    wanted = _wanted_settings(context.args, stored or LocalSettings())
    running = state.running()
    if running is not None:
        if stored is not None and wanted != stored:
            raise usage(
                "a local platform is running with other settings", "datumctl-compute local down"
            )
        context.say(f"The local platform is already running at {running.address}")
        return 0
    from datum_compute.assembly.local import process

    state.create()
    if context.args.ready_fd is None:
        _say_plan(context, state, wanted)
    started = context.env.now()
    try:
        if context.args.detach:
            process.start_detached(context.env, state, wanted)
            _say_ready(context, state.running(), (context.env.now() - started).total_seconds())
        else:
            process.run_in_foreground(
                context.env,
                state,
                wanted,
                ready_fd=context.args.ready_fd,
                on_ready=lambda found: _say_ready(
                    context, found, (context.env.now() - started).total_seconds()
                ),
            )
            context.say("Stopped.")
    except process.StartFailed as error:
        raise CommandError(str(error), code="StartFailed", hint=f"see {state.log}") from error
    return 0


def _wanted_settings(args: argparse.Namespace, base: LocalSettings) -> LocalSettings:
    changed = base
    if args.cities:
        changed = replace(changed, cities=_cities(args.cities))
    if args.project:
        if not _PROJECT.match(args.project):
            raise usage(f'--project "{args.project}": expected lower-case letters, digits and -')
        changed = replace(changed, project=args.project)
    if args.port is not None and args.port != 0:
        if not 1 <= args.port <= 65535:
            raise usage(f"--port {args.port}: expected a number from 1 to 65535")
        changed = replace(changed, port=args.port)
    if args.grant:
        changed = replace(changed, grant={**DEFAULT_GRANT, **_grant(args.grant)})
    return changed


def _cities(text: str) -> tuple[str, ...]:
    cities = tuple(dict.fromkeys(c.strip().upper() for c in text.split(",") if c.strip()))
    wrong = [city for city in cities if not _CITY.match(city) or city in RESERVED]
    if wrong or not cities:
        raise usage(f'--cities "{text}": expected codes such as DFW,LHR (HUB is reserved)')
    return cities


def _grant(text: str) -> dict[str, int]:
    grant: dict[str, int] = {}
    for entry in text.split(","):
        name, _, amount = entry.strip().partition("=")
        if name not in DEFAULT_GRANT or not amount.isdecimal():
            known = ", ".join(f"{key}=N" for key in DEFAULT_GRANT)
            raise usage(f'--grant "{entry}": expected some of {known}')
        grant[name] = int(amount)
    return grant


def _say_plan(context: Context, state: StateDirectory, settings: LocalSettings) -> None:
    context.say("Starting the local platform")
    context.say(f"  state      {state.path}")
    context.say(f"  cities     {'  '.join(settings.cities)}   one cell each")
    context.say("  runtime    simulated   instances are simulated: no container runs")
    quota = settings.grant["instances"]
    context.say(f"  project    {settings.project}   quota: {quota} instances")


def _say_ready(context: Context, running: RunningPlatform | None, seconds: float) -> None:
    where = f" at {running.address}" if running else ""
    context.say(f"Ready in {seconds:.1f}s{where}\n")
    context.say(
        "Try:  datumctl-compute deploy hello --image=registry.example/acme/hello:1 --city=DFW,LHR\n"
        "      datumctl-compute status hello\n"
        "      kubectl --kubeconfig <(datumctl-compute local kubeconfig) get instances"
    )


def _down(context: Context, state: StateDirectory) -> int:
    from datum_compute.assembly.local import process

    running = state.running()
    if running is None:
        context.say("No local platform is running.")
        return 0
    if not process.stop(state, running):
        raise CommandError(
            f"process {running.pid} does not stop", code="StopFailed", hint=f"see {state.log}"
        )
    context.say("The local platform is stopped; its state stays.")
    return 0


def _status(context: Context, state: StateDirectory) -> int:
    running = state.running()
    settings = state.settings()
    if running is None or settings is None:
        context.say("No local platform is running.")
        context.say("Try:  datumctl-compute local up --detach")
        return int(Exit.NOT_FOUND)
    reader = kubeconfig.reader_for(_connection(state, running), cluster="local platform")
    view = json.loads(reader.raw("/local/v1/status"))
    view["pid"], view["address"] = running.pid, running.address
    show(
        context,
        view,
        as_table=lambda _: "\n".join(
            [
                f"Address   {view['address']}",
                f"Process   {view['pid']}, up {duration(view['uptimeSeconds'])}",
                f"Runtime   {view['runtime']}",
                f"Cities    {', '.join(view['cities'])}",
                f"Planes    {', '.join(view['planes'])}",
            ]
        ),
        names=[view["address"]],
    )
    return 0


def _connection(state: StateDirectory, running: RunningPlatform) -> kubeconfig.Connection:
    return kubeconfig.Connection(
        name="local platform",
        origin=running.address,
        ca_pem=state.certificate_authority.read_bytes(),
        token=state.token() or "",
    )


def _kubeconfig(context: Context, state: StateDirectory) -> int:
    settings, running = state.settings(), state.running()
    if settings is None or running is None:
        raise CommandError(
            "no local platform is running", code="NoTarget", hint="datumctl-compute local up"
        )
    plane = context.args.plane or f"project/{context.args.project or settings.project}"
    connection = _connection(state, running)
    text = kubeconfig.render(
        server=running.address + _plane_path(plane, settings),
        ca_pem=connection.ca_pem,
        token=state.token() or "",
        name=f"datum-{plane.replace('/', '-')}",
        user="local-admin",
    )
    context.show(text.rstrip())
    return 0


def _plane_path(plane: str, settings: LocalSettings) -> str:
    kind, _, name = plane.partition("/")
    if plane == "root":
        return ""
    if plane == "hub":
        return "/clusters/hub"
    if kind == "project" and name:
        return PROJECT_PATH.format(name)
    if kind == "cell" and name.lower() in settings.cells:
        return f"/clusters/{name.lower()}"
    cells = ", ".join(f"cell/{cell}" for cell in settings.cells)
    raise usage(f'--plane "{plane}": expected root, hub, project/NAME or one of {cells}')
