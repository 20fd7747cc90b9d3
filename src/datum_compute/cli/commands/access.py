"""``access``: whether the project may use compute; ``access request`` requests it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from datum_compute.cli.access import (
    EXITS,
    Access,
    AccessState,
    access_error,
    read_access,
    request_access,
    wait_decided,
)
from datum_compute.cli.arguments import (
    DEFAULT_TIMEOUT,
    add_action,
    add_confirmation_flag,
    parse_duration,
    parse_text,
)
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit, usage
from datum_compute.cli.explain.suggestions import command
from datum_compute.cli.render.output import add_output_flags, age, duration, show

if TYPE_CHECKING:
    from datum_compute.client.client import ApiClient

LONGEST_MESSAGE = 1024


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    status = add_action(
        actions,
        "status",
        "Show whether the project may use compute",
        ("access", "access status -o json"),
    )
    asking = add_action(
        actions,
        "request",
        "Request access to compute for the project",
        ("access request", 'access request --message "for the shop" --wait'),
    )
    asking.add_argument(
        "--message", type=parse_text, metavar="TEXT", help="message for the approver"
    )
    asking.add_argument("--wait", action="store_true", help="wait until it is active")
    asking.add_argument(
        "--timeout",
        type=parse_duration,
        default=parse_duration(DEFAULT_TIMEOUT),
        metavar="DURATION",
        help=f"how long to wait (default {DEFAULT_TIMEOUT})",
    )
    add_confirmation_flag(asking)
    for action in (status, asking):
        add_output_flags(action, "`project`, `state`, `requested`, `active`, `message`")


def run(context: Context) -> int:
    if context.args.action == "request":
        return _request(context)
    access = read_access(context)
    _show(context, access)
    return int(EXITS[access.state])


def _show(context: Context, access: Access) -> None:
    now = context.env.now()
    status = (access.entitlement or {}).get("status") or {}
    view = {
        "project": context.target.project,
        "state": access.state.value,
        "requested": access.requested or None,
        "active": status.get("entitledAt") if access.state is AccessState.ACTIVE else None,
        "message": access.message,
        "object": access.entitlement,
    }
    text = access.state.value
    if view["active"]:
        text += f" for {age(str(view['active']), now)}"
    elif access.requested:
        text += f", requested {age(access.requested, now)} ago"
    lines = [f"Project   {view['project']}", f"Access    {text}"]
    name = f"access/{access.state.value.replace(' ', '-')}"
    show(context, view, as_table=lambda _: "\n".join(lines), names=[name])


def _request(context: Context) -> int:
    args = context.args
    if args.message and len(args.message) > LONGEST_MESSAGE:
        raise usage(f"--message: expected at most {LONGEST_MESSAGE} characters")
    session = context.open_session()
    before = read_access(context)
    if before.state is AccessState.UNGOVERNED:
        context.say("This platform needs no access requests.")
        return 0
    if before.state not in (AccessState.NOT_REQUESTED, AccessState.PENDING, AccessState.ACTIVE):
        raise access_error(context, before)

    async def ask(client: ApiClient) -> Access:
        if before.state is AccessState.NOT_REQUESTED:
            await request_access(client, args.message or "")
        return await wait_decided(client, args.timeout if args.wait else 1.0)

    access = session.run(ask)
    return _report(context, before, access)


def _report(context: Context, before: Access, access: Access) -> int:
    project = context.target.project
    if access.state is AccessState.PENDING and not context.args.wait:
        if before.state is AccessState.PENDING:
            since = age(access.requested, context.env.now())
            context.say(f"Access was requested {since} ago and is being activated.")
        else:
            context.say("Requested. Activation usually takes a few minutes.")
    elif access.state is AccessState.PENDING:
        raise CommandError(
            f"access to compute is not active after {duration(context.args.timeout)}",
            command("access"),
            exit_code=Exit.TIMED_OUT,
            code="TimedOut",
            retryable=True,
        )
    elif access.state is AccessState.ACTIVE:
        context.say(f'Compute is enabled for project "{project}".')
    else:
        raise access_error(context, access)
    if not context.tables:
        _show(context, access)
    return 0
