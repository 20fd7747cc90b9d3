"""``ssh``: a shell in one of a workload's instances."""

from __future__ import annotations

import argparse
from typing import Any

from datum_compute.cli import queries
from datum_compute.cli.arguments import set_examples
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError
from datum_compute.cli.explain import states
from datum_compute.cli.explain.suggestions import command
from datum_compute.cli.names import workload_name

SHELL = "/bin/sh"


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(parser, "ssh hello", "ssh hello --city DFW")
    parser.add_argument("name", metavar="NAME", type=workload_name, help="name of a workload")
    parser.add_argument("--city", help="an instance in this city")
    parser.add_argument("--container", help="the container (default: the first one)")


def run(context: Context) -> int:
    from datum_compute.cli.commands.exec.session import run_command
    from datum_compute.client.remote_command import CommandRequest

    args = context.args
    context.open_session()
    chosen = _choose(context, args.name, args.city)
    has_terminal = context.streams.stdin.isatty()
    if has_terminal:
        context.say(f"{SHELL} in {chosen['metadata']['name']}; Ctrl-D ends it.")
    else:
        context.say(f"{SHELL} in {chosen['metadata']['name']}")
    request = CommandRequest((SHELL,), args.container or "", tty=has_terminal, stdin=True)
    return run_command(context, chosen, request)


def _choose(context: Context, name: str, city: str | None) -> dict[str, Any]:
    """The first instance that is available, by city and ordinal."""
    found = queries.instances_of(context, name)
    if not found:
        queries.workload(context, name)
    if city:
        known = states.instance_identities(found, lambda: queries.deployments(context))
        found = [
            each for each in found if known[each["metadata"]["name"]].city.upper() == city.upper()
        ]
        if not found:
            queries.require_city(context, city)
    for each in found:
        if states.is_true(each, "Ready"):
            return each
    where = f" in {city.upper()}" if city else ""
    raise CommandError(
        f'no instance of workload "{name}" is available{where}',
        command("why", name),
        code="NotAvailable",
        retryable=True,
    )
