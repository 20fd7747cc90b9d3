"""Waits for a rollout until it is done, or until waiting cannot help.

:mod:`datum_compute.cli.rollout.state` defines a rollout and when it is done; the wait reads it
again after every change and ends when

- every row is done, of a rollout in waves also every soak, and has stayed so for the window of
  ``--window``; if an instance stops being ready in it, the rollout has failed (3);
- a terminal reason is reported, or a wave of cities has failed or was undone (3), or quota or
  placement refuse for longer than a grace period (7);
- all of it is stopped, so that nothing happens before it is started;
- the spec moves on, or the workload is replaced by another of its name (8): what happens then is
  the rollout of another change;
- the time is up (4), the workload is gone (5), or the platform does not answer (1).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.cli.arguments import DEFAULT_TIMEOUT, parse_duration
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit, from_client, not_found
from datum_compute.cli.explain import states
from datum_compute.cli.explain.missing_data import Missing, read_missing
from datum_compute.cli.explain.reasons import explain
from datum_compute.cli.explain.suggestions import Command, command
from datum_compute.cli.history.config_map import ConfigMapHistory
from datum_compute.cli.history.entries import append_entries, missing_entry
from datum_compute.cli.render.output import age, count, precise_duration
from datum_compute.cli.rollout.progress import Progress
from datum_compute.cli.rollout.rows import RowProgress
from datum_compute.cli.rollout.state import (
    BLOCKED_AFTER_SECONDS,
    BlockingReason,
    Rollout,
    Row,
    decide_rollout,
)
from datum_compute.cli.session import to_dict
from datum_compute.cli.tables import NAMESPACE
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.runtime.tasks import TaskGroup

Json = Mapping[str, Any]

DEFAULT_TIMEOUT_SECONDS = parse_duration(DEFAULT_TIMEOUT)
RELIST_SECONDS = 15.0
"""Between two reads without an event, in case one was lost. A guess."""
RETRY_SECONDS = 1.0
URL_SECONDS = 1.0
"""How long a platform may take to give a workload its URL. A guess: it takes some milliseconds."""
MAX_LIST_FAILURES = 10
"""How many lists may fail in a row before the wait gives up: about ten seconds."""


@dataclass
class Movement:
    """When each row last made progress, and since when quota or placement refuse it."""

    _seen: dict[tuple[str, str, str], tuple[tuple[object, ...], float]] = field(
        default_factory=dict
    )
    _refused: dict[tuple[str, str, str], float] = field(default_factory=dict)

    def update(self, rows: Sequence[Row], now: float) -> list[RowProgress]:
        """The rows, each with whether it has stalled."""
        current = [RowProgress(row) for row in rows]
        for progress in current:
            row = progress.row
            state = _state(row)
            if progress.key not in self._seen or self._seen[progress.key][0] != state:
                self._seen[progress.key] = (state, now)
            blocking = row.blocking_reason
            if blocking is None or not blocking.record.fails_after_grace or row.done:
                self._refused.pop(progress.key, None)
            else:
                self._refused.setdefault(progress.key, now)
        return [
            RowProgress(progress.row, stalled=self._idle(progress, now)) for progress in current
        ]

    def _idle(self, progress: RowProgress, now: float) -> bool:
        row = progress.row
        if row.done or row.removing or (row.wave is not None and row.wave.phase is not None):
            return False
        return now - self._seen[progress.key][1] >= BLOCKED_AFTER_SECONDS

    def given_up(self, progress: RowProgress, now: float) -> bool:
        """Whether quota or placement have refused a row for longer than the grace period."""
        since = self._refused.get(progress.key)
        return since is not None and now - since >= BLOCKED_AFTER_SECONDS

    def next_read(self, now: float) -> float:
        """Seconds until a row stalls or a grace period ends, if that is before the next read."""
        moments = [since for _, since in self._seen.values()] + list(self._refused.values())
        ahead = [since + BLOCKED_AFTER_SECONDS - now for since in moments]
        return min([RELIST_SECONDS, *(left for left in ahead if left > 0)])


def _state(row: Row) -> tuple[object, ...]:
    """What counts as progress: numbers and the reason, not the text of a message."""
    reason = row.blocking_reason.reason if row.blocking_reason else ""
    counters = (row.target, row.replicas, row.updated, row.ready)
    return (row.deployment, row.reported, *counters, reason)


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
    window = _Window(context.args.window)
    watched = of is not None  # a rollout that was done before is not
    current: list[RowProgress] = []
    rollout = Rollout((), observed=False)
    given: float | None = context.args.timeout
    try:
        async with (
            asyncio.timeout(DEFAULT_TIMEOUT_SECONDS if given is None else given) as limit,
            display.running(),
            _changes(client, name) as changed,
        ):
            deadline = limit.when()
            read = _WorkloadReader(client, context, name, known=of is not None)
            while True:
                workload, deployments = await read()
                of = of or workload
                if _is_being_deleted(workload, of):
                    raise read.gone()
                if _version(workload) != _version(of):
                    raise await _superseded(context, client, of, workload)
                rollout = await read.rollout(workload, deployments)
                done = rollout.done or (not waved and rollout.at_size)
                now = loop.time()
                if given is None and rollout.waves is not None:
                    deadline = started + rollout.waves.longest_seconds
                current = movement.update(rollout.rows, now)
                sick = window.update(current, done, _versions(deployments), now)
                if sick is not None:
                    raise await _unhealthy(client, workload, *sick)
                watched = watched or not done
                until = window.end if watched and not rollout.stopped else None
                display.show(current, watched_until=until)
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
                        await _raise_if_held(client, workload, rollout)
                    await _raise_if_blocked(client, workload, rollout, current, movement, now)
                await changed(min(movement.next_read(now), window.left(now)))
    except TimeoutError:
        seconds = loop.time() - started
        raise await _timed_out(client, name, of, rollout, current, seconds) from None


def _say_stopped(context: Context, rollout: Rollout) -> None:
    """Name the cities in which a change takes effect only when they are started."""
    cities = sorted({row.city for row in rollout.rows if row.stop is not None})
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
            _changes(client, name) as changed,
        ):
            read = _WorkloadReader(client, context, name)
            while True:
                rows = decide_rollout(*await read()).rows
                rows = tuple(row for row in rows if not row.removing)
                current = [RowProgress(row) for row in rows if city in ("", row.city.upper())]
                display.show(current)
                if any(each.row.stop is None for each in current):
                    raise _started_again(name)
                if all(each.row.stopped for each in current):
                    return
                await changed(RELIST_SECONDS)
    except TimeoutError:
        seconds = loop.time() - started
        rollout = Rollout((), observed=False)
        raise await _timed_out(client, name, None, rollout, current, seconds, "stopped") from None


def _started_again(name: str) -> CommandError:
    return CommandError(
        f'"{name}" was started again',
        command("status", name),
        exit_code=Exit.SUPERSEDED,
        code="Superseded",
    )


class _Window:
    """The time after a rollout is done in which it must stay so."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.end: float | None = None
        """None while the rollout is not done."""
        self._versions: frozenset[tuple[str, int]] = frozenset()

    def update(
        self,
        current: Sequence[RowProgress],
        done: bool,
        versions: frozenset[tuple[str, int]],
        now: float,
    ) -> tuple[RowProgress, float] | None:
        """Open it when the rollout is done. A row of which an instance stops being ready in it, and
        after how many seconds.

        A deployment that was changed since, as by a restart in one city, is no failure: it rolls
        once more, and the window opens anew after that."""
        if done:
            if self.end is None or versions != self._versions:
                self.end = now + self._seconds
            self._versions = versions
            return None
        opened = self.end is not None and versions == self._versions
        seconds = now + self._seconds - self.end if self.end is not None else 0
        self.end = None
        sick = [each for each in current if opened and each.row.ready < each.row.target]
        return (sick[0], seconds) if sick else None

    def is_over(self, now: float) -> bool:
        return self.end is not None and now >= self.end

    def left(self, now: float) -> float:
        return RELIST_SECONDS if self.end is None else max(0.0, self.end - now)


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


async def _unhealthy(
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


async def _superseded(context: Context, client: Client, of: Json, found: Json) -> CommandError:
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


async def _timed_out(
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
    if rollout.stage is not None:
        waiting.insert(0, states.one_line_reason(rollout.stage))
        blockers.append(rollout.stage)
    worst = max(filter(None, blockers), key=lambda each: each.record.severity, default=None)
    steps: list[Command | None] = [command("why", name)]
    if of is not None:
        steps = await _next_commands(client, of, worst)
    return CommandError(
        f'"{name}" is not {goal} after {precise_duration(seconds)}; still waiting for '
        + "; ".join(waiting or ["the first report"]),
        *steps,
        exit_code=Exit.TIMED_OUT,
        code="TimedOut",
        retryable=True,
    )


async def _raise_if_held(client: Client, workload: Json, rollout: Rollout) -> None:
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


async def _raise_if_blocked(
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


async def is_rolled_out(client: Client, name: str, *, waved: bool = True) -> bool:
    """Whether there is nothing to wait for, and nothing to say of a stop. ``waved`` as above."""
    workload = await client.get(compute.WORKLOADS, name, NAMESPACE)
    selector = f"{compute.LABEL_WORKLOAD_UID}={workload.metadata.uid}"
    page = await client.list(compute.WORKLOAD_DEPLOYMENTS, NAMESPACE, label_selector=selector)
    rollout = decide_rollout(to_dict(workload), [to_dict(item) for item in page.items])
    return (rollout.done or (not waved and rollout.at_size)) and not rollout.stopped


async def read_result(client: Client, name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A workload and its instances, as they are after a rollout."""
    workload = await _with_url(client, await client.get(compute.WORKLOADS, name, NAMESPACE))
    return to_dict(workload), await _list_instances(client, name)


async def _with_url(client: Client, workload: Object) -> Object:
    """The workload with its URL, which a platform writes a moment after the port; as it is where
    the platform gives none."""
    notes = workload.metadata.annotations
    if compute.ANNOTATION_HTTP_PORT not in notes or compute.ANNOTATION_URL in notes:
        return workload
    selector = f"metadata.name={workload.name}"
    with suppress(TimeoutError, errors.ClientError):
        async with (
            asyncio.timeout(URL_SECONDS),
            client.watch(compute.WORKLOADS, NAMESPACE, field_selector=selector) as events,
        ):
            async for event in events:
                if compute.ANNOTATION_URL in event.object.metadata.annotations:
                    return event.object
    return workload


async def _list_instances(client: Client, workload: str) -> list[dict[str, Any]]:
    selector = f"{compute.LABEL_WORKLOAD_NAME}={workload}"
    page = await client.list(compute.INSTANCES, NAMESPACE, label_selector=selector)
    return [to_dict(item) for item in page.items]


async def wait_gone(
    context: Context, client: Client, name: str, *, uid: str, timeout: float
) -> None:
    """Wait until the workload and its instances are deleted, counting down per city."""
    display = Progress(context)
    latest: tuple[Row, ...] = ()
    try:
        async with asyncio.timeout(timeout), display.running(), _changes(client, name) as changed:
            read = _WorkloadReader(client, context, name)
            while True:
                workload, deployments = await read()
                if workload["metadata"]["uid"] != uid:
                    return  # another of the same name, created since
                latest = decide_rollout({**workload, "spec": {}}, deployments).rows
                display.show([RowProgress(row) for row in latest])
                await changed(RELIST_SECONDS)
    except CommandError as error:
        if error.exit_code is Exit.NOT_FOUND:
            return
        raise
    except TimeoutError:
        cities = sorted({_removal_text(row) for row in latest}) or ["the platform"]
        raise CommandError(
            f'"{name}" is not deleted yet: still waiting for {"; ".join(cities)}',
            command("destroy", name, "--yes"),
            exit_code=Exit.TIMED_OUT,
            code="TimedOut",
            retryable=True,
        ) from None


def _removal_text(row: Row) -> str:
    """The city, and what the deletion waits for there, where it has said so."""
    text = RowProgress(row).reason_text
    return f"{row.city}: {text}" if text else row.city


class _WorkloadReader:
    """A workload and its deployments as they are now.

    Transient failures are ignored until too many occur in a row. ``known``: the workload is there
    before the first read."""

    def __init__(self, client: Client, context: Context, name: str, *, known: bool = True) -> None:
        self._client = client
        self._context = context
        self._name = name
        self._known = known
        self._rolling: set[str] = set()
        """The deployments of which an old Instance was seen."""

    async def __call__(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        for failures in range(1, MAX_LIST_FAILURES + 1):
            try:
                return await self._once()
            except errors.NotFound:
                raise self.gone() from None
            except (errors.TransportFailure, errors.ServerError, errors.Throttled) as error:
                if failures == MAX_LIST_FAILURES:
                    raise self._lost(error) from error
            await asyncio.sleep(RETRY_SECONDS)
        raise AssertionError("the loop returns or raises")

    async def _once(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        workload = await self._client.get(compute.WORKLOADS, self._name, NAMESPACE)
        self._known = True
        page = await self._client.list(
            compute.WORKLOAD_DEPLOYMENTS,
            NAMESPACE,
            label_selector=f"{compute.LABEL_WORKLOAD_UID}={workload.metadata.uid}",
        )
        return to_dict(workload), [to_dict(item) for item in page.items]

    async def rollout(self, workload: Json, deployments: Sequence[Json]) -> Rollout:
        """The rollout of what was read; by the counters alone if the Instances cannot be read."""
        found = decide_rollout(workload, deployments)
        if not found.needs_instances:
            return found
        try:
            instances = await _list_instances(self._client, self._name)
        except errors.ClientError:
            return found
        found = decide_rollout(workload, deployments, instances, self._rolling)
        self._rolling |= {row.deployment for row in found.rows if row.old}
        return found

    def gone(self) -> CommandError:
        if not self._known:
            project = self._context.target.project
            return not_found("workload", self._name, project, command("workloads"))
        return CommandError(
            f'workload "{self._name}" was deleted while it was watched',
            command("workloads"),
            exit_code=Exit.NOT_FOUND,
            code="NotFound",
        )

    def _lost(self, error: errors.ClientError) -> CommandError:
        return CommandError(
            f'lost contact with the platform while waiting for "{self._name}", which continues: '
            + from_client(error).message,
            command("status", self._name),
            code="Unreachable",
            retryable=True,
        )


@asynccontextmanager
async def _changes(client: Client, name: str) -> AsyncIterator[Callable[[float], Awaitable[None]]]:
    """Yields a wait for the next change of the workload or of any deployment."""
    event = asyncio.Event()

    async def wait(limit: float) -> None:
        try:
            async with asyncio.timeout(limit):
                await event.wait()
        except TimeoutError:
            pass  # the limit is there to read again without an event
        event.clear()

    async with TaskGroup(f"changes of {name}") as tasks:
        watches = [
            tasks.start(
                _notify(client, compute.WORKLOADS, f"metadata.name={name}", event), name="workload"
            ),
            tasks.start(
                _notify(client, compute.WORKLOAD_DEPLOYMENTS, "", event), name="deployments"
            ),
        ]
        try:
            yield wait
        finally:
            await tasks.stop(*watches)


async def _notify(
    client: Client, resource: Resource, field_selector: str, event: asyncio.Event
) -> None:
    while True:
        try:
            async with client.watch(
                resource, NAMESPACE, field_selector=field_selector, timeout_seconds=300
            ) as events:
                async for _ in events:
                    event.set()
        except errors.ClientError:
            pass  # the read after RELIST_SECONDS reports it if it lasts
        await asyncio.sleep(RETRY_SECONDS)
