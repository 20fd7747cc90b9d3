"""``open``: a workload in the browser."""

from __future__ import annotations

import argparse

from datum_compute.api.compute.constants import ANNOTATION_HTTP_PORT
from datum_compute.cli import queries
from datum_compute.cli.arguments import set_examples
from datum_compute.cli.commands.browser.display import open_in_browser
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit
from datum_compute.cli.explain import states
from datum_compute.cli.explain.suggestions import command
from datum_compute.cli.names import workload_name


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(parser, "open hello", "open hello --city DFW", "open hello --print")
    parser.add_argument("name", metavar="NAME", type=workload_name, help="the workload")
    parser.add_argument("--city", help="the URL of this city alone")
    parser.add_argument(
        "--print", action="store_true", dest="only_print", help="print the URL, and open nothing"
    )


def run(context: Context) -> int:
    url = _url(context, context.args.name, context.args.city)
    context.show(url)
    if why := _unserved(context, url):
        context.say(f"It answers 503 to every request: {why}.")
    open_in_browser(context, url)
    return 0


def _unserved(context: Context, url: str) -> str:
    """Why the local platform serves no URL; empty where it does, or the URL is another's."""
    from pathlib import Path
    from urllib.parse import urlsplit

    from datum_compute.assembly.local.state import StateDirectory
    from datum_compute.decisions.routing import parse_host
    from datum_compute.providers import registry

    if not context.target.local_directory or parse_host(urlsplit(url).netloc) is None:
        return ""

    settings = StateDirectory(Path(context.target.local_directory)).settings()
    return "" if settings is None else registry.find(settings.runtime).unserved


def _url(context: Context, name: str, city: str | None) -> str:
    workload = queries.workload(context, name)
    found = states.url(workload)
    if city:
        of_city = [
            each
            for each in queries.deployments_of(context, workload)
            if str(each["spec"]["cityCode"]).upper() == city.upper()
        ]
        if not of_city:
            queries.require_city(context, city)
            raise CommandError(
                f'workload "{name}" does not run in {city.upper()}',
                command("status", name),
                exit_code=Exit.NOT_FOUND,
                code="NotFound",
            )
        found = next((url for each in of_city if (url := states.url(each))), None)
    if found:
        return found
    where = f" in {city.upper()}" if city else ""
    if not (workload["metadata"].get("annotations") or {}).get(ANNOTATION_HTTP_PORT):
        raise CommandError(
            f'workload "{name}" has no URL, because it has no HTTP port',
            command("deploy", name, "--http-port", "N"),
            code="NoUrl",
        )
    raise CommandError(
        f'the platform has not given workload "{name}" a URL{where}',
        command("open", name) if states.url(workload) else command("status", name),
        command("instances", "--workload", name),
        code="NoUrl",
    )
