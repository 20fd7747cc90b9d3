"""Watching a rollout: a row per placement and city until all of them are done.

What a rollout is, and when it is done, :mod:`datum_compute.decisions.rollout` says; this
looks again at every change, tells what changed, and ends when there is nothing to wait for
or no sense in waiting.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.cli import words
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit, from_client, not_found
from datum_compute.cli.output import GAP, duration
from datum_compute.cli.target import NAMESPACE
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.decisions.rollout import BLOCKED_AFTER_SECONDS, Phase, Row, decide_rollout
from datum_compute.runtime.tasks import TaskGroup

Json = Mapping[str, Any]

RELIST_SECONDS = 15.0
"""A look without an event, in case one was lost. A guess."""
RETRY_SECONDS = 1.0
LIST_FAILURES = 10
"""How many lists may fail in a row before the wait gives up: about ten seconds."""
HEADER = ("PLACEMENT", "CITY", "UPDATED", "READY", "OLD", "PHASE")
PHASE_WIDTH = max(len(phase) for phase in Phase)


def plain(obj: Object) -> dict[str, Any]:
    """An object as plain JSON, which is what the words are read from."""
    value: dict[str, Any] = json.loads(obj.to_wire())
    return value


def _cells(row: Row, *, stalled: bool = False) -> tuple[str, ...]:
    if row.leaving:
        return (row.placement, row.city, "—", str(row.ready), str(row.replicas), "Removing")
    phase = row.phase(stalled=stalled)
    text = phase.value
    if row.blocker is not None and phase is not Phase.DONE:
        text = f"{text.ljust(PHASE_WIDTH)}{GAP}{words.plainly(row.blocker)}"
    counts = (f"{row.updated}/{row.target}", f"{row.ready}/{row.target}", str(row.old))
    return (row.placement, row.city, *counts, text)


class Progress:
    """Says each row when it changes: one line per change, off a terminal and on it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._said: dict[tuple[str, str], tuple[str, ...]] = {}
        self._widths = [len(title) for title in HEADER]

    def show(self, current: Sequence[Row]) -> None:
        for row in current:
            key = (row.placement, row.city)
            cells = _cells(row)
            if self._said.get(key) == cells:
                continue
            if not self._said:
                self._make_room(current)
                self._line(HEADER)
            self._said[key] = cells
            self._line(cells)

    def _make_room(self, rows: Sequence[Row]) -> None:
        """Columns as wide as they can become, because lines once said do not move."""
        for row in rows:
            count = f"{row.target}/{row.target}"
            most = (row.placement, row.city, count, count, str(row.replicas), "")
            self._widths = [max(w, len(c)) for w, c in zip(self._widths, most, strict=True)]

    def _line(self, cells: tuple[str, ...]) -> None:
        self._widths = [max(w, len(c)) for w, c in zip(self._widths, cells, strict=True)]
        line = GAP.join(c.ljust(w) for c, w in zip(cells, self._widths, strict=True))
        self._context.say("  " + line.rstrip())


async def wait_rolled_out(context: Context, client: Client, name: str, *, timeout: float) -> None:
    """Wait until every row is done; raise when that cannot happen or takes too long."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    progress = Progress(context)
    blocked_since: float | None = None
    rows: tuple[Row, ...] = ()
    try:
        async with asyncio.timeout(timeout), _changes(client, name) as changed:
            async for workload, deployments in _views(client, context, name, changed):
                rollout = decide_rollout(workload, deployments)
                rows = rollout.rows
                progress.show(rows)
                if rollout.done:
                    return
                blocked_since = _raise_if_blocked(name, rows, blocked_since, loop.time())
    except TimeoutError:
        waiting = [
            f"{row.city}: {words.plainly(row.blocker) if row.blocker else row.phase().value}"
            for row in rows
            if not row.done
        ]
        raise CommandError(
            f'"{name}" is not ready after {duration(loop.time() - started)}; still waiting for '
            + "; ".join(waiting or ["the first report"]),
            exit_code=Exit.TIMED_OUT,
            code="TimedOut",
            hint=f"datumctl-compute status {name}",
            retryable=True,
        ) from None


def _raise_if_blocked(
    name: str, rows: Sequence[Row], since: float | None, now: float
) -> float | None:
    """Since when something stands in the way; raise at once when no waiting can help, and
    after a grace where it might."""
    standing = [(r, r.blocker) for r in rows if r.blocker and r.blocker.stands and not r.done]
    for row, blocker in standing:
        if blocker.terminal:
            raise CommandError(
                f'rollout of "{name}" failed in {row.city}: '
                f"{words.FAILURES.get(blocker.reason, blocker.reason)}: {words.plainly(blocker)}",
                exit_code=Exit.ROLLOUT_FAILED,
                code=blocker.reason,
                hint=f"datumctl-compute status {name}",
            )
    if not standing:
        return None
    if since is not None and now - since >= BLOCKED_AFTER_SECONDS:
        row, blocker = standing[0]
        raise CommandError(
            f'"{name}" is blocked in {row.city}: {words.plainly(blocker)}',
            exit_code=Exit.BLOCKED,
            code=blocker.reason,
            hint=f"datumctl-compute status {name}",
        )
    return now if since is None else since


async def outcome(client: Client, name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A workload and its instances, as they are after a rollout."""
    workload = await client.get(compute.WORKLOADS, name, NAMESPACE)
    selector = f"{compute.LABEL_WORKLOAD_NAME}={name}"
    page = await client.list(compute.INSTANCES, NAMESPACE, label_selector=selector)
    return plain(workload), [plain(item) for item in page.items]


async def wait_gone(
    context: Context, client: Client, name: str, *, uid: str, timeout: float
) -> None:
    """Wait until the workload and everything it ran is gone, counting down per city."""
    progress = Progress(context)
    latest: tuple[Row, ...] = ()
    try:
        async with asyncio.timeout(timeout), _changes(client, name) as changed:
            async for workload, deployments in _views(client, context, name, changed):
                if workload["metadata"]["uid"] != uid:
                    return  # another of the same name, made since
                latest = decide_rollout({**workload, "spec": {}}, deployments).rows
                progress.show(latest)
    except CommandError as error:
        if error.exit_code is Exit.NOT_FOUND:
            return
        raise
    except TimeoutError:
        cities = ", ".join(sorted({row.city for row in latest})) or "no city"
        raise CommandError(
            f'"{name}" is not gone yet: {cities} has not confirmed',
            exit_code=Exit.TIMED_OUT,
            code="TimedOut",
            hint=f"datumctl-compute destroy {name} --yes",
            retryable=True,
        ) from None


async def _views(
    client: Client, context: Context, name: str, changed: Callable[[float], Any]
) -> AsyncIterator[tuple[Json, list[Json]]]:
    """The workload and its deployments, now and after each change."""
    failures = 0
    while True:
        try:
            workload = await client.get(compute.WORKLOADS, name, NAMESPACE)
            page = await client.list(
                compute.WORKLOAD_DEPLOYMENTS,
                NAMESPACE,
                label_selector=f"{compute.LABEL_WORKLOAD_UID}={workload.metadata.uid}",
            )
        except errors.NotFound:
            raise not_found("workload", name, context.target.project, "") from None
        except (errors.TransportFailure, errors.ServerError, errors.Throttled) as error:
            failures += 1
            if failures >= LIST_FAILURES:
                raise CommandError(
                    f'the platform went away while "{name}" was watched, which goes on by itself: '
                    + from_client(error).message,
                    code="Unreachable",
                    hint=f"datumctl-compute status {name}",
                    retryable=True,
                ) from error
            await asyncio.sleep(RETRY_SECONDS)
            continue
        failures = 0
        yield plain(workload), [plain(item) for item in page.items]
        await changed(RELIST_SECONDS)


@asynccontextmanager
async def _changes(client: Client, name: str) -> AsyncIterator[Callable[[float], Any]]:
    """Gives a wait for the next change of the workload or of any deployment in reach."""
    event = asyncio.Event()

    async def wait(limit: float) -> None:
        try:
            async with asyncio.timeout(limit):
                await event.wait()
        except TimeoutError:
            pass  # looking again without an event is what the limit is for
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
            pass  # the look after RELIST_SECONDS will say if it lasts
        await asyncio.sleep(RETRY_SECONDS)
