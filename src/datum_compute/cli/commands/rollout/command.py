"""``rollout``: the changes of a workload, and how they reach its cities."""

from __future__ import annotations

import argparse

from datum_compute.cli.arguments import (
    add_action,
    add_confirmation_flag,
    add_message_flag,
    add_rollout_flags,
)
from datum_compute.cli.context import Context
from datum_compute.cli.names import workload_name
from datum_compute.cli.render.output import RESULT_FIELDS, add_output_flags


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    status = add_action(
        actions,
        "status",
        "Follow a rollout until it is done",
        ("rollout status hello", "rollout hello", "rollout status hello --no-wait -o json"),
    )
    history = add_action(
        actions,
        "history",
        "Show what was changed, when and by whom",
        ("rollout history hello", "rollout history hello --revision 1"),
    )
    undo = add_action(
        actions,
        "undo",
        "Go back to an earlier revision",
        ("rollout undo hello", "rollout undo hello --to-revision 1 --yes"),
    )
    restart = add_action(
        actions,
        "restart",
        "Replace every instance, one by one in each city",
        ("rollout restart hello", "rollout restart hello --city DFW"),
    )
    pause = add_action(
        actions,
        "pause",
        "Pause a rollout in waves",
        ("rollout pause hello", "rollout pause hello -o json"),
    )
    resume = add_action(
        actions,
        "resume",
        "Continue a paused rollout",
        ("rollout resume hello", "rollout resume hello -o json"),
    )
    promote = add_action(
        actions,
        "promote",
        "Open the next wave of a rollout now",
        ("rollout promote hello", "rollout promote hello -o json"),
    )
    abort = add_action(
        actions,
        "abort",
        "Undo what a rollout in waves has changed so far",
        ("rollout abort hello", "rollout abort hello -o json"),
    )
    skip = add_action(
        actions,
        "skip",
        "Skip a city in a rollout in waves, and update it last",
        ("rollout skip hello LHR", "rollout skip hello LHR -o json"),
    )
    steering = (pause, resume, promote, abort, skip)
    for action in (status, history, undo, restart, *steering):
        action.add_argument("name", metavar="NAME", type=workload_name, help="the workload")
    skip.add_argument("city", metavar="CITY", help="the city")
    for action in steering:
        add_confirmation_flag(action)
    history.add_argument(
        "--revision", type=revision, metavar="N", help="show one revision: its spec and its changes"
    )
    history.add_argument(
        "--limit", type=at_least_one, metavar="N", help="only the newest N revisions"
    )
    undo.add_argument(
        "--to-revision",
        type=revision,
        metavar="N",
        help="revision to go back to (default: the one before the active revision)",
    )
    add_message_flag(undo)
    undo.add_argument(
        "--waves",
        metavar="DFW,IAD+LHR|each",
        help="go back in these waves (default: in all cities at once)",
    )
    add_restart_flags(restart)
    add_rollout_flags(status)
    add_confirmation_flag(undo)
    add_rollout_flags(undo)
    add_output_flags(
        status,
        "`name`, `done`, `stage` and `message` (of a rollout in waves that is not complete),"
        " `rows` (`placement`, `city`, `wave`, `ready`, `upToDate`, `desired`, `old`, `phase`,"
        " `reason`, `message`, `staysUntil`)",
    )
    add_output_flags(
        history,
        "`revision`, `when`, `age`, `image`, `changes`, `actor`, `active`, `outcome` (of a"
        " rollout in waves, as far as it is known), `message`; with `--revision` also `diff`"
        " (`field`, `old`, `new`), `comparedWith`, `spec`",
    )
    for action in (undo, *steering):
        add_output_flags(action, RESULT_FIELDS)


def add_restart_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--city", metavar="CITY", help="only in this city")
    add_message_flag(parser)
    add_confirmation_flag(parser)
    add_rollout_flags(parser)
    add_output_flags(parser, RESULT_FIELDS)


def revision(text: str) -> int:
    """A revision's number, as ``4`` or ``#4``."""
    number = text.removeprefix("#")
    if not (number.isascii() and number.isdecimal() and len(number) < 10 and int(number) > 0):
        raise argparse.ArgumentTypeError(f'"{text}" is not a revision number such as 4')
    return int(number)


def at_least_one(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 0):
        raise argparse.ArgumentTypeError(f'"{text}" is not a positive number')
    return int(text)


def run(context: Context) -> int:
    action = context.args.action
    if action == "history":
        from datum_compute.cli.commands.rollout.history import show_history

        return show_history(context)
    if action == "undo":
        from datum_compute.cli.commands.rollout.undo import undo

        return undo(context)
    if action == "restart":
        from datum_compute.cli.commands.rollout.restart import restart

        return restart(context)
    if action != "status":
        from datum_compute.cli.commands.rollout.control import control

        return control(context)
    from datum_compute.cli.commands.rollout import status

    return status.status(context)
