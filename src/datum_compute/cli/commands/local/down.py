"""Stops a local platform, and resets its state."""

from __future__ import annotations

from datum_compute.assembly.local.state import (
    AlreadyRunning,
    LocalSettings,
    StateDirectory,
    StateUnusable,
    platform_mark,
)
from datum_compute.cli.commands.local.paths import abbreviate_home
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit
from datum_compute.cli.explain.suggestions import Remark, command
from datum_compute.providers import registry


def down(context: Context, state: StateDirectory) -> int:
    stopped = _stopped(state)
    containers = _end_containers(context, state, remove=False)
    if not stopped and not containers:
        context.say("No local platform is running.")
        return 0
    context.say("The local platform was stopped; its state is kept.")
    if containers:
        context.say(f"{containers} of its containers were stopped; the next start runs them again.")
    return 0


def _end_containers(context: Context, state: StateDirectory, *, remove: bool) -> int:
    """What the runtime keeps running without a platform is stopped, or removed; how many."""
    import asyncio

    try:
        settings = state.settings()
    except StateUnusable as error:
        context.say(f"Containers may still be there: {error}")
        return 0
    end = registry.find(settings.runtime).end if settings is not None else None
    if end is None:
        return 0
    try:
        return asyncio.run(end(context.env, platform_mark(state.database), remove))
    except registry.RuntimeAway as error:
        context.say(f"Containers may still be there: {error}")
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
    _end_containers(context, state, remove=True)
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
