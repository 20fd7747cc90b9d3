"""How a wait fails: the error for each way, with what to run next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit
from datum_compute.cli.explain import states
from datum_compute.cli.explain.missing_data import Missing, read_missing
from datum_compute.cli.explain.reasons import explain
from datum_compute.cli.explain.suggestions import Command, command
from datum_compute.cli.history.config_map import ConfigMapHistory
from datum_compute.cli.history.entries import append_entries, missing_entry
from datum_compute.cli.render.output import age, count, precise_duration
from datum_compute.cli.rollout.movement import Movement
from datum_compute.cli.rollout.rows import RowProgress
from datum_compute.cli.rollout.state import BlockingReason, Rollout, Row
from datum_compute.client import errors
from datum_compute.client.protocol import Client

Json = Mapping[str, Any]


def started_again(name: str) -> CommandError:
    return CommandError(
        f'"{name}" was started again',
        command("status", name),
        exit_code=Exit.SUPERSEDED,
        code="Superseded",
    )


async def _next_commands(
    client: Client, workload: Json, blocking: BlockingReason | None
) -> list[Command | None]:
    """What ``why`` says to run next, and ``why``."""
    name, step = workload["metadata"]["name"], None
    if blocking is not None:
        missing: list[Missing] = []
        if explain(blocking.reason).concerns_data:
            with suppress(errors.ClientError):  # the failure itself matters more
                missing = await read_missing(client, workload["spec"]["template"])
        step = explain(blocking.reason).next_command(name, missing)
    return list(dict.fromkeys((step, command("why", name))))


async def unhealthy(
    client: Client, workload: Json, progress: RowProgress, seconds: float
) -> CommandError:
    row, blocking = progress.row, progress.row.blocking_reason
    why = f"{row.ready} of {row.target} instances are ready"
    if blocking is not None:
        why = f"{explain(blocking.reason).summary}: {states.one_line_reason(blocking)}"
    return CommandError(
        f'rollout of "{workload["metadata"]["name"]}" failed in {row.city} '
        f"{precise_duration(seconds)} after it was complete: {why}",
        *await _next_commands(client, workload, blocking),
        exit_code=Exit.ROLLOUT_FAILED,
        code=blocking.reason if blocking is not None else "Unhealthy",
    )


async def superseded(context: Context, client: Client, of: Json, found: Json) -> CommandError:
    name = found["metadata"]["name"]
    if of["metadata"]["uid"] != found["metadata"]["uid"]:
        what = f'"{name}" was deleted and created again'
    else:
        what = f'the rollout of "{name}" was superseded by {await _newer(context, client, found)}'
    return CommandError(
        what,
        command("rollout", "status", name),
        exit_code=Exit.SUPERSEDED,
        code="Superseded",
    )


async def _newer(context: Context, client: Client, found: Json) -> str:
    """The change that the history names, or is about to name, as the newest."""
    now = context.env.now()
    try:
        recorded = await ConfigMapHistory(client, context.env).read(found)
    except errors.ClientError:
        return "a newer change"
    newest = append_entries(recorded, [missing_entry(recorded, found, now)]).active
    if newest is None:
        return "a newer change"
    by = newest.actor or "another client"
    return f"revision #{newest.rev} (by {by}, {age(newest.timestamp, now)} ago)"


async def timed_out(
    client: Client,
    name: str,
    of: Json | None,
    rollout: Rollout,
    current: Sequence[RowProgress],
    seconds: float,
    goal: str = "ready",
) -> CommandError:
    undone = [each for each in current if not (each.row.done or each.row.waits_for_wave)]
    waiting = [f"{each.row.city}: {each.reason_text or each.phase}" for each in undone]
    blockers = [each.row.blocking_reason for each in undone]
    parts = [f'"{name}" is not {goal} after {precise_duration(seconds)}']
    if rollout.stage is not None:
        parts.append(states.one_line_reason(rollout.stage))
        blockers.append(rollout.stage)
    if waiting or rollout.stage is None:
        parts.append(f"still waiting for {'; '.join(waiting or ['the first report'])}")
    worst = max(filter(None, blockers), key=lambda each: each.record.severity, default=None)
    steps: list[Command | None] = [command("why", name)]
    if of is not None:
        steps = await _next_commands(client, of, worst)
    return CommandError(
        "; ".join(parts),
        *steps,
        exit_code=Exit.TIMED_OUT,
        code="TimedOut",
        retryable=True,
    )


async def raise_if_held(client: Client, workload: Json, rollout: Rollout) -> None:
    """When the rollout over cities needs a person, or was undone."""
    stage = rollout.stage
    if rollout.observed and stage is not None and stage.record.terminal:
        raise CommandError(
            f'rollout of "{workload["metadata"]["name"]}" failed: '
            f"{explain(stage.reason).summary}: {states.one_line_reason(stage)}",
            *await _next_commands(client, workload, stage),
            exit_code=Exit.ROLLOUT_FAILED,
            code=stage.reason,
        )


async def raise_if_blocked(
    client: Client,
    workload: Json,
    rollout: Rollout,
    current: Sequence[RowProgress],
    movement: Movement,
    now: float,
) -> None:
    """At once for a terminal reason, unless the rollout itself goes on or back after a failure;
    for a refusal after the grace period."""
    name = workload["metadata"]["name"]
    current = [each for each in current if not each.row.waits_for_wave]
    for progress in current if not rollout.outlives_failure else ():
        blocking = progress.row.blocking_reason
        if blocking is not None and blocking.record.terminal and not progress.row.done:
            raise CommandError(
                f'rollout of "{name}" failed in {progress.row.city}: '
                f"{explain(blocking.reason).summary}: {states.one_line_reason(blocking)}"
                f"{_kept(progress.row)}{_stays(current)}",
                *await _next_commands(client, workload, blocking),
                exit_code=Exit.ROLLOUT_FAILED,
                code=blocking.reason,
            )
    for progress in current:
        blocking = progress.row.blocking_reason
        if blocking is not None and movement.given_up(progress, now):
            raise CommandError(
                f'"{name}" is blocked in {progress.row.city}: '
                f"{explain(blocking.reason).summary}: {states.one_line_reason(blocking)}"
                f"{_stays(current)}",
                *await _next_commands(client, workload, blocking),
                exit_code=Exit.BLOCKED,
                code=blocking.reason,
            )


def _kept(row: Row) -> str:
    """How many instances of the previous revision still run."""
    kept = min(row.old, row.ready)
    if kept <= 0:
        return ""
    serve = "still runs" if kept == 1 else "still run"
    return f"; {count(kept, 'instance')} there {serve} the previous revision"


def _stays(current: Sequence[RowProgress]) -> str:
    """Which removed cities are still there."""
    staying = [each for each in current if each.row.stays_until]
    return "".join(f"; {each.row.city} {each.reason_text}" for each in staying)
