"""Commands on a running local platform: its status, its cells, and a kubeconfig."""

from __future__ import annotations

import json
from typing import Any

from datum_compute.api import planes
from datum_compute.api.planes import PROJECT
from datum_compute.assembly.local.state import LocalSettings, RunningPlatform, StateDirectory
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit, unknown, usage
from datum_compute.cli.explain.suggestions import command
from datum_compute.cli.names import is_project
from datum_compute.cli.quick.connect import reader_for
from datum_compute.cli.render.output import duration, show
from datum_compute.cli.tables import PROJECTS
from datum_compute.client import errors, kubeconfig
from datum_compute.client.call import RawCall


def running_platform(state: StateDirectory) -> tuple[RunningPlatform, LocalSettings]:
    running, settings = state.running(), state.settings()
    if running is None or settings is None:
        raise CommandError(
            "no local platform is running",
            command("local", "up", "--detach"),
            exit_code=Exit.NOT_FOUND,
            code="NotRunning",
        )
    return running, settings


def cell(context: Context, state: StateDirectory) -> int:
    import asyncio

    running, settings = running_platform(state)
    city, verb = context.args.city.upper(), context.args.verb
    if city not in settings.cities:
        raise usage(f'CITY "{context.args.city}": expected one of {", ".join(settings.cities)}')
    path = f"/local/v1/cells/{city.lower()}/{verb}"
    asyncio.run(call(connection_to(state, running), "POST", path))
    if verb == "disconnect":
        context.say(f"{city} is disconnected from the control plane; its instances keep running.\n")
        context.say("Try:  " + context.command("local", "cell", "connect", city))
    else:
        context.say(f"{city} is connected.")
    return 0


async def call(
    connection: kubeconfig.Connection, method: str, path: str, body: Any = None
) -> dict[str, Any]:
    """One of the platform's own verbs."""
    from datum_compute.client.connect import transport_for
    from datum_compute.client.transport import HttpRequest

    transport = transport_for(connection)
    headers = {"authorization": f"Bearer {connection.token}", "accept": "application/json"}
    content = b"" if body is None else json.dumps(body).encode()
    request = HttpRequest(method, path, headers=headers, body=content)
    try:
        response = await transport.send(request, timeout=30)
    finally:
        await transport.close()
    if response.status not in (200, 201):
        failed = RawCall(method.lower(), path)
        raise errors.error_for(response.status, response.body, call=failed)
    answer: dict[str, Any] = json.loads(response.body)
    return answer


def status(context: Context, state: StateDirectory) -> int:
    running, _ = running_platform(state)
    reader = reader_for(connection_to(state, running), cluster="local platform")
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
                *(f"URL       {url}" for url in view["urls"]),
            ]
        ),
        names=[view["address"]],
    )
    return 0


def _city(view: dict[str, Any], city: str) -> str:
    return f"{city} (disconnected)" if city in view["disconnected"] else city


def connection_to(state: StateDirectory, running: RunningPlatform) -> kubeconfig.Connection:
    return kubeconfig.Connection(
        name="local platform",
        origin=running.address,
        ca_pem=state.certificate_authority.read_bytes(),
        token=state.token() or "",
    )


def print_kubeconfig(context: Context, state: StateDirectory) -> int:
    running, settings = running_platform(state)
    plane = context.args.plane or PROJECT.plane(context.args.project or settings.project)
    text = _kubeconfig(state, running, settings, plane)
    if planes.plane_type(plane) is PROJECT:
        _require_project(state, running, planes.cluster_name(plane))
    context.show(text.rstrip())
    return 0


def _require_project(state: StateDirectory, running: RunningPlatform, name: str) -> None:
    root = reader_for(connection_to(state, running), cluster="local platform")
    known = sorted(each["metadata"]["name"] for each in root.list(PROJECTS))
    if name not in known:
        raise unknown("project", name, known, command("projects", "create", name))


def store_kubeconfig(state: StateDirectory, running: RunningPlatform) -> None:
    """Keep one for the project in the state directory, where only its owner can read it."""
    settings = state.settings()
    if settings is not None:
        plane = PROJECT.plane(settings.project)
        state.store_kubeconfig(_kubeconfig(state, running, settings, plane))


def _kubeconfig(
    state: StateDirectory, running: RunningPlatform, settings: LocalSettings, plane: str
) -> str:
    return kubeconfig.render(
        server=running.address + plane_path(plane, settings),
        ca_pem=connection_to(state, running).ca_pem,
        token=state.token() or "",
        name=f"datum-{plane.replace('/', '-')}",
        user="local-admin",
    )


def plane_path(plane: str, settings: LocalSettings) -> str:
    if planes.plane_type(plane) is PROJECT and is_project(planes.cluster_name(plane)):
        return planes.plane_prefix(plane)
    type_name, slash, name = plane.partition("/")
    if (found := f"{type_name}{slash}{name.lower()}") in settings.planes:
        return planes.plane_prefix(found)
    single = [each for each in settings.planes if "/" not in each]
    named = [each for each in settings.planes if "/" in each]
    raise usage(
        f'--plane "{plane}": expected {", ".join(single)}, {PROJECT.form}'
        f" or one of {', '.join(named)}"
    )
