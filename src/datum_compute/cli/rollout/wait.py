"""Waits for a rollout until it is done, or until waiting cannot help.

:mod:`datum_compute.cli.rollout.state` defines a rollout and when it is done; the wait reads it
again after every change (:mod:`.reads`) and ends when

- every row is done, of a rollout in waves also every soak, and has stayed so for the window of
  ``--window``; if an instance stops being ready in it, the rollout has failed (3);
- a terminal reason is reported, or a wave of cities has failed or was undone (3), or quota or
  placement refuse for longer than a grace period (7);
- all of it is stopped, so that nothing happens before it is started;
- the spec moves on, or the workload is replaced by another of its name (8): what happens then is
  the rollout of another change;
- the workload was being deleted when the wait began (6);
- the time is up (4), the workload is gone (5), or the platform does not answer (1).

The errors are those of :mod:`.failures`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.cli.arguments import DEFAULT_TIMEOUT, parse_duration
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit
from datum_compute.cli.explain import states
from datum_compute.cli.explain.reasons import explain
from datum_compute.cli.explain.suggestions import command
from datum_compute.cli.rollout import failures
from datum_compute.cli.rollout.movement import Movement, Window
from datum_compute.cli.rollout.progress import Progress
from datum_compute.cli.rollout.reads import WorkloadReader, list_deployments, watch_changes
from datum_compute.cli.rollout.rows import RowProgress
from datum_compute.cli.rollout.state import Rollout, Row, decide_rollout
from datum_compute.cli.session import to_dict
from datum_compute.cli.tables import NAMESPACE
from datum_compute.cli.workload import being_destroyed_error
from datum_compute.client.protocol import Client

Json = Mapping[str, Any]

DEFAULT_TIMEOUT_SECONDS = parse_duration(DEFAULT_TIMEOUT)


async def wait_rolled_out(
    context: Context,
    client: Client,
    name: str,
    *,
    of: Json | None = None,
    progress: Progress | None = None,
    waved: bool = True,
) -> Rollout:
    """Wait until every row is done, and watch it for the window; raise when that cannot happen or
    takes too long. The window is no part of the timeout, which by default covers all waves.

    ``of`` is the workload whose spec is waited for, as it was written; by default what the first
    read finds, and if that is done already there is nothing to watch.

    A change that is not ``waved`` follows at once: where the rollout of a template is paused, has
    failed or was undone, it waits for as many ready instances of the templates that cities have."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    display = progress or Progress(context)
    movement = Movement()
    window = Window(context.args.window)
    watched = of is not None  # a rollout that was done before is not
    current: list[RowProgress] = []
    rollout = Rollout((), observed=False)
    given: float | None = context.args.timeout
    try:
        async with (
            asyncio.timeout(DEFAULT_TIMEOUT_SECONDS if given is None else given) as limit,
            display.running(),
            watch_changes(client, name) as changed,
        ):
            deadline = limit.when()
            read = WorkloadReader(client, context, name, known=of is not None)
            while True:
                workload, deployments = await read()
                of = of or workload
                if of["metadata"].get("deletionTimestamp"):
                    raise being_destroyed_error(name)
                if _is_being_deleted(workload, of):
                    raise read.gone()
                if _version(workload) != _version(of):
                    raise await failures.superseded(context, client, of, workload)
                rollout = await read.rollout(workload, deployments)
                done = rollout.done or (not waved and rollout.at_size)
                now = loop.time()
                if given is None and rollout.waves is not None:
                    deadline = started + rollout.waves.longest_seconds
                current = movement.update(rollout.rows, now)
                sick = window.update(current, done, _versions(deployments), now)
                if sick is not None:
                    raise await failures.unhealthy(client, workload, *sick)
                watched = watched or not done
                until = window.end if watched and not rollout.stopped else None
                display.show(current, watched_until=until, note=_way_on(context, name, rollout))
                if rollout.stopped:
                    return rollout
                if done and (not watched or window.is_over(now)):
                    _say_stopped(context, rollout)
                    if not rollout.done:
                        _say_held(context, rollout)
                    return rollout
                limit.reschedule(deadline if window.end is None else None)
                if window.end is None:
                    if waved:
                        await failures.raise_if_held(client, workload, rollout)
                    await failures.raise_if_blocked(
                        client, workload, rollout, current, movement, now
                    )
                await changed(min(movement.left(now), window.left(now)))
    except TimeoutError:
        seconds = loop.time() - started
        raise await failures.timed_out(client, name, of, rollout, current, seconds) from None


def _way_on(context: Context, name: str, rollout: Rollout) -> str:
    """What a rollout in waves waits for until a person acts, and the command; empty otherwise."""
    stage = rollout.stage if rollout.held else None
    step = explain(stage.reason).next_command(name) if stage is not None else None
    if stage is None or step is None or stage.record.terminal:
        return ""
    return f"{states.one_line_reason(stage)}. Go on with  {context.invocation.render(step)}"


def _say_stopped(context: Context, rollout: Rollout) -> None:
    """Name the cities in which a change takes effect only when they are started."""
    cities = rollout.stopped_cities
    if cities:
        be, then = ("is", "it starts") if len(cities) == 1 else ("are", "they start")
        where = ", ".join(cities)
        context.say(f"\n{where} {be} stopped; changes take effect there when {then}.")


def _say_held(context: Context, rollout: Rollout) -> None:
    """Why not all cities have the newest template."""
    if rollout.stage is not None:
        stage = explain(rollout.stage.reason).summary
        why = states.one_line_reason(rollout.stage)
        context.say(f"\nThe newest template does not run everywhere: {stage}: {why}")


async def wait_stopped(context: Context, client: Client, name: str, city: str) -> None:
    """Wait until nothing of it runs, everywhere or in one city."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    display = Progress(context)
    current: list[RowProgress] = []
    given: float | None = context.args.timeout
    try:
        async with (
            asyncio.timeout(DEFAULT_TIMEOUT_SECONDS if given is None else given),
            display.running(),
            watch_changes(client, name) as changed,
        ):
            read = WorkloadReader(client, context, name)
            while True:
                rows = decide_rollout(*await read()).rows
                rows = tuple(row for row in rows if not row.removing)
                current = [RowProgress(row) for row in rows if city in ("", row.city.upper())]
                display.show(current)
                if any(each.row.stop is None for each in current):
                    raise failures.started_again(name)
                if all(each.row.stopped for each in current):
                    return
                await changed(inf)
    except TimeoutError:
        seconds = loop.time() - started
        rollout = Rollout((), observed=False)
        raise await failures.timed_out(
            client, name, None, rollout, current, seconds, "stopped"
        ) from None


def _versions(deployments: Sequence[Json]) -> frozenset[tuple[str, int]]:
    return frozenset(map(_version, deployments))


def _version(workload: Json) -> tuple[str, int]:
    """Tells one spec of an object from any other, also from that of its namesake."""
    return workload["metadata"]["uid"], workload["metadata"]["generation"]


def _is_being_deleted(workload: Json, of: Json) -> bool:
    """Whether it is the same workload, deleted since: that moves its generation too."""
    before, now = of["metadata"], workload["metadata"]
    deleted = now.get("deletionTimestamp") and not before.get("deletionTimestamp")
    return bool(deleted and now["uid"] == before["uid"])


async def is_rolled_out(client: Client, name: str, *, waved: bool = True) -> bool:
    """Whether there is nothing to wait for, and nothing to say of a stop. ``waved`` as above."""
    workload = await client.get(compute.WORKLOADS, name, NAMESPACE)
    deployments = await list_deployments(client, workload.metadata.uid)
    rollout = decide_rollout(to_dict(workload), deployments)
    return (rollout.done or (not waved and rollout.at_size)) and not rollout.stopped


async def wait_gone(
    context: Context, client: Client, name: str, *, uid: str, timeout: float
) -> None:
    """Wait until the workload and its instances are deleted, counting down per city."""
    display = Progress(context)
    latest = Rollout((), observed=False)
    try:
        async with (
            asyncio.timeout(timeout),
            display.running(),
            watch_changes(client, name) as changed,
        ):
            read = WorkloadReader(client, context, name)
            while True:
                workload, deployments = await read()
                if workload["metadata"]["uid"] != uid:
                    return  # another of the same name, created since
                before, latest = latest, decide_rollout(workload, deployments)
                display.show([RowProgress(row) for row in latest.rows])
                if latest.removal is not None and latest.removal != before.removal:
                    context.say(f'"{name}" is {latest.removal.message}.')
                await changed(inf)
    except CommandError as error:
        if error.exit_code is Exit.NOT_FOUND:
            return
        raise
    except TimeoutError:
        cities = sorted({_removal_text(row) for row in latest.rows}) or ["the platform"]
        why, step = f"still waiting for {'; '.join(cities)}", command("destroy", name, "--yes")
        if latest.removal is not None:
            why, step = latest.removal.message, command("why", name)
        raise CommandError(
            f'"{name}" is not deleted yet: {why}',
            step,
            exit_code=Exit.TIMED_OUT,
            code="TimedOut",
            retryable=True,
        ) from None


def _removal_text(row: Row) -> str:
    """The city, and what the deletion waits for there, where it has said so."""
    text = RowProgress(row).reason_text
    return f"{row.city}: {text}" if text else row.city
