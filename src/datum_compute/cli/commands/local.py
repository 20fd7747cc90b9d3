"""``local up|down|status|reset|cell|kubeconfig``: the whole platform on this machine."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from datum_compute.assembly.local.state import (
    DEFAULT_GRANT,
    AlreadyRunning,
    LocalSettings,
    RunningPlatform,
    StateDirectory,
    Unusable,
)
from datum_compute.cli.arguments import add_action
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit, usage
from datum_compute.cli.names import is_project
from datum_compute.cli.output import add_output_flags, duration, show
from datum_compute.cli.target import PROJECT_PATH, local_state
from datum_compute.client import errors, kubeconfig
from datum_compute.env import Environment

RUNTIMES = ("auto", "simulated")
RESERVED = frozenset({"HUB"})
_CITY = re.compile(r"[A-Z][A-Z0-9]{1,15}")


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    up = add_action(
        actions, "up", "Start it", ("local up --detach", "local up --detach --cities DFW,LHR")
    )
    up.add_argument("--cities", metavar="DFW,IAD,LHR", help="one cell for each")
    up.add_argument("--grant", metavar="instances=100,…", help="quota in base units")
    up.add_argument("--port", type=int, metavar="N", help="default: the last one, 7443, or any")
    up.add_argument(
        "--runtime",
        type=_runtime,
        metavar="|".join(RUNTIMES),
        help="what instances run as (default: auto, which is simulated here)",
    )
    up.add_argument("--detach", action="store_true", help="return when it is ready")
    up.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)
    down = add_action(
        actions, "down", "Stop it; the state stays", ("local down", "local down --data-dir ./state")
    )
    status = add_action(
        actions, "status", "Whether it runs, and where", ("local status", "local status -o json")
    )
    add_output_flags(status)
    reset = add_action(
        actions,
        "reset",
        "Stop it and forget everything it holds",
        ("local reset", "local reset --yes"),
    )
    reset.add_argument("-y", "--yes", action="store_true", help="do not ask")
    cell = add_action(
        actions,
        "cell",
        "Cut a cell off from the centre, or bring it back",
        ("local cell disconnect LHR", "local cell connect LHR"),
    )
    cell.add_argument(
        "verb",
        choices=("disconnect", "connect"),
        metavar="disconnect|connect",
        help="which of the two",
    )
    cell.add_argument("city", metavar="CITY", help="the cell of this city")
    kubeconfig = add_action(
        actions,
        "kubeconfig",
        "Print a kubeconfig for kubectl",
        ("local kubeconfig > kubeconfig", "local kubeconfig --plane hub > hub.kubeconfig"),
    )
    kubeconfig.add_argument(
        "--plane", metavar="PLANE", help="project/NAME (default), hub, cell/CITY or root"
    )
    for action in (up, down, status, reset, cell, kubeconfig):
        action.add_argument("--data-dir", metavar="DIR", help="state directory")
        action.add_argument("--project", help="the project (default: demo)")


def _runtime(text: str) -> str:
    if text not in RUNTIMES:
        known = " and ".join(RUNTIMES)
        raise argparse.ArgumentTypeError(f'there is no runtime "{text}"; there are {known}')
    return text


def run(context: Context) -> int:
    actions = {
        "up": _up,
        "down": _down,
        "status": _status,
        "reset": _reset,
        "cell": _cell,
        "kubeconfig": _kubeconfig,
    }
    try:
        return actions[context.args.action](context, local_state(context.env, context.args))
    except Unusable as error:
        raise CommandError(str(error), code="StateUnusable", hint="--data-dir DIR") from error


def _up(context: Context, state: StateDirectory) -> int:
    stored = state.settings()
    wanted = _wanted_settings(context.args, stored or LocalSettings())
    if context.args.ready_fd is not None:
        return _start(context, state, wanted)
    if not state.is_held():
        state.create()
        _say_plan(context, state, wanted)
        try:
            return _start(context, state, wanted)
        except AlreadyRunning:
            pass  # another `up` was faster
    return _join(context, state, wanted)


def _join(context: Context, state: StateDirectory, wanted: LocalSettings) -> int:
    """There is one already, or there will be in a moment."""
    from datum_compute.assembly.local import process

    running = process.wait_announced(state)
    if running is None:
        raise CommandError(
            f"another process holds {state.path} and did not become ready",
            code="StartFailed",
            hint="datumctl-compute local down",
        )
    stored = state.settings()
    if stored is not None and _wanted_settings(context.args, stored) != stored:
        raise usage(
            "a local platform is running with other settings", "datumctl-compute local down"
        )
    context.say(f"The local platform is already running at {running.address}")
    return 0


def _start(context: Context, state: StateDirectory, wanted: LocalSettings) -> int:
    from datum_compute.assembly.local import process

    started = context.env.now()

    def ready(found: RunningPlatform | None) -> None:
        _say_ready(context, found, wanted, (context.env.now() - started).total_seconds())

    try:
        if context.args.detach:
            process.start_detached(context.env, state, wanted)
            ready(state.running())
        else:
            process.run_in_foreground(
                context.env, state, wanted, ready_fd=context.args.ready_fd, on_ready=ready
            )
            context.say("Stopped.")
    except process.StartFailed as error:
        taken = "is taken by" in str(error)
        hint = "datumctl-compute local up --port N" if taken else f"see {state.log}"
        raise CommandError(
            f"the platform did not start: {error}", code="StartFailed", hint=hint
        ) from error
    return 0


def _wanted_settings(args: argparse.Namespace, base: LocalSettings) -> LocalSettings:
    changed = base
    if args.cities is not None:
        changed = replace(changed, cities=_cities(args.cities))
    if args.project is not None:
        if not is_project(args.project):
            raise usage(f'--project "{args.project}": expected lower-case letters, digits and -')
        changed = replace(changed, project=args.project)
    if args.port is not None and args.port != 0:
        if not 1 <= args.port <= 65535:
            raise usage(f"--port {args.port}: expected a number from 1 to 65535")
        changed = replace(changed, port=args.port)
    if args.grant is not None:
        changed = replace(changed, grant={**DEFAULT_GRANT, **_grant(args.grant)})
    return changed


def _cities(text: str) -> tuple[str, ...]:
    cities = tuple(dict.fromkeys(c.strip().upper() for c in text.split(",") if c.strip()))
    wrong = [city for city in cities if not _CITY.fullmatch(city) or city in RESERVED]
    if wrong or not cities:
        raise usage(f'--cities "{text}": expected codes such as DFW,LHR (HUB is reserved)')
    return cities


def _grant(text: str) -> dict[str, int]:
    grant: dict[str, int] = {}
    for entry in text.split(","):
        name, _, amount = entry.strip().partition("=")
        if name not in DEFAULT_GRANT or not _is_amount(amount):
            known = ", ".join(f"{key}=N" for key in DEFAULT_GRANT)
            raise usage(f'--grant "{entry}": expected some of {known}')
        grant[name] = int(amount)
    return grant


def _is_amount(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) < 2**63


def _from_home(path: Path, env: Environment) -> str:
    """The path as people write it, from their home where it lies there."""
    home = env.variable("HOME")
    if home and path.is_relative_to(home):
        return f"~/{path.relative_to(home)}"
    return str(path)


def _say_plan(context: Context, state: StateDirectory, settings: LocalSettings) -> None:
    context.say("Starting the local platform")
    context.say(f"  state      {_from_home(state.path, context.env)}")
    context.say(f"  cities     {'  '.join(settings.cities)}   one cell each")
    context.say("  runtime    simulated   instances are simulated: no container runs")
    quota = settings.grant["instances"]
    context.say(f"  project    {settings.project}   quota: {quota} instances")


def _say_ready(
    context: Context, running: RunningPlatform | None, settings: LocalSettings, seconds: float
) -> None:
    where = f" at {running.address}" if running else ""
    context.say(f"Ready in {seconds:.1f}s{where}\n")
    cities = ",".join(settings.cities[:2])
    there = f" --data-dir {shlex.quote(context.args.data_dir)}" if context.args.data_dir else ""
    context.say(
        "Try:  datumctl-compute deploy hello --image=registry.example/acme/hello:1 "
        f"--city={cities}{there}\n"
        f"      datumctl-compute status hello{there}\n"
        # A file, not a pipe: some builds of kubectl read it twice.
        f"      datumctl-compute local kubeconfig{there} > kubeconfig && "
        "kubectl --kubeconfig kubeconfig get instances"
    )


def _down(context: Context, state: StateDirectory) -> int:
    from datum_compute.assembly.local import process

    pid = state.holder()
    if pid is None:
        context.say("No local platform is running.")
        return 0
    if not process.stop(state, pid):
        raise CommandError(
            f"process {pid} does not stop", code="StopFailed", hint=f"see {state.log}"
        )
    context.say("The local platform is stopped; its state stays.")
    return 0


def _reset(context: Context, state: StateDirectory) -> int:
    from datum_compute.assembly.local import process

    where = _from_home(state.path, context.env)
    if not state.is_held() and not state.has_state():
        context.say(f"There is nothing to reset in {where}.")
        return 0
    settings = state.settings() or LocalSettings()
    running = " It is running, and will be stopped." if state.is_held() else ""
    context.say(
        f"This will forget everything the local platform in {where} holds: project "
        f"{settings.project}, cities {', '.join(settings.cities)}, its certificates and its "
        f"token.{running}\n"
    )
    context.confirm("Reset the local platform?")
    pid = state.holder()
    if pid is not None and not process.stop(state, pid):
        raise CommandError(
            f"process {pid} does not stop", code="StopFailed", hint=f"see {state.log}"
        )
    try:
        state.reset()
    except AlreadyRunning:
        raise CommandError(
            "another local platform was started meanwhile",
            exit_code=Exit.CONFLICT,
            code="Conflict",
            hint="datumctl-compute local reset --yes",
        ) from None
    context.say("The local platform is reset.")
    return 0


def _running(state: StateDirectory) -> tuple[RunningPlatform, LocalSettings]:
    running, settings = state.running(), state.settings()
    if running is None or settings is None:
        raise CommandError(
            "no local platform is running",
            exit_code=Exit.NOT_FOUND,
            code="NotRunning",
            hint="datumctl-compute local up --detach",
        )
    return running, settings


def _cell(context: Context, state: StateDirectory) -> int:
    import asyncio

    running, settings = _running(state)
    city, verb = context.args.city.upper(), context.args.verb
    if city not in settings.cities:
        raise usage(f'CITY "{context.args.city}": expected one of {", ".join(settings.cities)}')
    path = f"/local/v1/cells/{city.lower()}/{verb}"
    asyncio.run(_post(_connection(state, running), path, state.token() or ""))
    if verb == "disconnect":
        context.say(f"{city} is disconnected from the centre; what runs there keeps running.\n")
        context.say(f"Try:  datumctl-compute local cell connect {city}")
    else:
        context.say(f"{city} is connected.")
    return 0


async def _post(connection: kubeconfig.Connection, path: str, token: str) -> None:
    from datum_compute.client.transport import Request

    transport = kubeconfig.transport_for(connection)
    headers = {"authorization": f"Bearer {token}", "accept": "application/json"}
    try:
        response = await transport.send(Request("POST", path, headers=headers), timeout=30)
    finally:
        await transport.close()
    if response.status != 200:
        raise errors.error_for(response.status, response.body, what=f"post {path}")


def _status(context: Context, state: StateDirectory) -> int:
    running, _ = _running(state)
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
                f"Cities    {', '.join(_city(view, city) for city in view['cities'])}",
                f"Planes    {', '.join(view['planes'])}",
            ]
        ),
        names=[view["address"]],
    )
    return 0


def _city(view: dict[str, Any], city: str) -> str:
    return f"{city} (disconnected)" if city in view["disconnected"] else city


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
    if kind == "project" and is_project(name):
        return PROJECT_PATH.format(name)
    if kind == "cell" and name.lower() in settings.cells:
        return f"/clusters/{name.lower()}"
    cells = ", ".join(f"cell/{cell}" for cell in settings.cells)
    raise usage(f'--plane "{plane}": expected root, hub, project/NAME or one of {cells}')
