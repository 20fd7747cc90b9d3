"""``console``: a link to the page that shows the project live."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from datum_compute.cli.arguments import set_examples
from datum_compute.cli.commands.browser.display import open_in_browser
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit
from datum_compute.cli.explain.suggestions import command
from datum_compute.client import errors

if TYPE_CHECKING:
    from datum_compute.client.client import ApiClient

PATH = "/local/v1/console"


def configure(parser: argparse.ArgumentParser) -> None:
    set_examples(parser, "console", "console --allow-writes", "console --print")
    parser.add_argument(
        "--allow-writes",
        action="store_true",
        help="let the page change workloads (default: read-only)",
    )
    parser.add_argument(
        "--print", action="store_true", dest="only_print", help="do not open a browser"
    )


def run(context: Context) -> int:
    project, invocation = context.target.project, context.invocation
    body = {
        "project": project,
        "allowWrites": context.args.allow_writes,
        "program": invocation.program,
        "flags": [list(each) for each in invocation.flags],
    }
    found = context.open_session().run(lambda _: _ask(context, body))
    rights = "It can change workloads" if context.args.allow_writes else "It is read-only"
    context.show(found["url"])
    context.say(f"The link opens the console of project {project} once, within a minute. {rights}.")
    open_in_browser(context, found["url"])
    return 0


async def _ask(context: Context, body: dict[str, Any]) -> dict[str, Any]:
    client: ApiClient | None = context.target.root_client()
    if client is None:
        raise _not_served(context)
    try:
        answer: dict[str, Any] = json.loads(await client.post_raw(PATH, body))
    except (errors.NotServed, errors.Unsupported) as error:
        raise _not_served(context) from error
    finally:
        await client.close()
    return answer


def _not_served(context: Context) -> CommandError:
    project = context.target.project
    return CommandError(
        f"the platform of project {project} serves no console; a local platform does",
        command("local", "up", "--detach"),
        exit_code=Exit.UNAVAILABLE,
        code="NotServed",
    )
