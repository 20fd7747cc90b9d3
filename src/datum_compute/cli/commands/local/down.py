"""Stops a local platform, and resets its state."""

from __future__ import annotations

from datum_compute.assembly.local.state import (
    AlreadyRunning,
    LocalSettings,
    StateDirectory,
    StateUnusable,
)
from datum_compute.cli.commands.local.paths import abbreviate_home
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit
from datum_compute.cli.explain.suggestions import Remark, command


def down(context: Context, state: StateDirectory) -> int:
    if not _stopped(state):
        context.say("No local platform is running.")
        return 0
    context.say("The local platform was stopped; its state is kept.")
    return 0


def _stopped(state: StateDirectory) -> bool:
    """Stop the running platform; False if none is running."""
    from datum_compute.assembly.local import process

    pid = state.holder()
    if pid is None:
        return False
    if not process.stop(state, pid):
        raise CommandError(
            f"process {pid} did not stop", Remark(f"see {state.log}"), code="StopFailed"
        )
    return True


def reset(context: Context, state: StateDirectory) -> int:
    where = abbreviate_home(state.path, context.env)
    if not state.is_held() and not state.has_state():
        context.say(f"Nothing to reset in {where}.")
        return 0
    try:
        settings = state.settings() or LocalSettings()
        what = f"project {settings.project}, cities {', '.join(settings.cities)}, "
    except StateUnusable as error:
        what = f"its settings ({error}), "
    running = " It is running and will be stopped." if state.is_held() else ""
    context.say(
        f"This will delete the local platform in {where}: {what}its certificates and its "
        f"token.{running}\n"
    )
    context.confirm("Reset the local platform?")
    _stopped(state)
    try:
        state.reset()
    except AlreadyRunning:
        raise CommandError(
            "another local platform was started meanwhile",
            command("local", "reset", "--yes"),
            exit_code=Exit.CONFLICT,
            code="Conflict",
        ) from None
    context.say("The local platform was reset.")
    return 0
