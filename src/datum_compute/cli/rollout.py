"""Watching a rollout: a row per placement and city until all of them are done.

The rows come from the workload's spec, so a deployment that does not exist yet is there
as ``Pending``; what a row says comes from that deployment's own status. Nothing is done
before the workload's and every deployment's report speaks of the generation that was
written: an old report that looks healthy is not news.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.cli import words
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit, not_found
from datum_compute.cli.output import duration, table
from datum_compute.cli.target import NAMESPACE
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.decisions.rollout import Phase, decide_phase
from datum_compute.runtime.tasks import TaskGroup

Json = Mapping[str, Any]

FATAL = frozenset(words.FAILURES)
"""Reasons that end a wait at once: no waiting makes them go away."""
REFUSED = frozenset(
    {"QuotaExceeded", "ValidationFailed", "NoMatchingLocation", "NoCellForCity", "AmbiguousCell"}
)
"""Reasons that end it after a grace: capacity and placement can come back by themselves."""
REFUSED_GRACE_SECONDS = 30.0
RELIST_SECONDS = 15.0
"""A look without an event, in case one was lost. A guess."""
RETRY_SECONDS = 1.0
LIST_FAILURES = 10
"""How many lists may fail in a row before the wait gives up: about ten seconds."""
HEADER = ("PLACEMENT", "CITY", "UPDATED", "READY", "OLD", "PHASE")


@dataclass(frozen=True)
class Row:
    placement: str
    city: str
    target: int
    updated: int
    ready: int
    old: int
    phase: Phase
    reason: str = ""
    message: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        phase = self.phase.value
        if self.reason and self.phase is not Phase.DONE:
            phase = f"{phase}   {self.message or self.reason}"
        counts = (f"{self.updated}/{self.target}", f"{self.ready}/{self.target}", str(self.old))
        return (self.placement, self.city, *counts, phase)


def plain(obj: Object) -> dict[str, Any]:
    """An object as plain JSON, which is what the words are read from."""
    value: dict[str, Any] = json.loads(obj.to_wire())
    return value


def rows(workload: Json, deployments: Sequence[Json]) -> list[Row]:
    found = {(d["spec"]["placementName"], d["spec"]["cityCode"]): d for d in deployments}
    wanted = [
        (placement["name"], city, placement["scaleSettings"]["minReplicas"])
        for placement in workload["spec"]["placements"]
        for city in placement["cityCodes"]
    ]
    result = [
        _row(name, city, minimum, found.pop((name, city), None)) for name, city, minimum in wanted
    ]
    # What the spec no longer names is being removed, and is shown until it is gone.
    result += [_row(name, city, 0, found[name, city]) for name, city in sorted(found)]
    return result


def _row(placement: str, city: str, minimum: int, deployment: Json | None) -> Row:
    if deployment is None:
        return Row(placement, city, minimum, 0, 0, 0, Phase.PENDING)
    status = deployment.get("status") or {}
    reported = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    removed = bool(deployment["metadata"].get("deletionTimestamp"))
    target = status.get("desiredReplicas", minimum) if reported else minimum
    updated = status.get("updatedReplicas", 0) if reported else 0
    ready, replicas = status.get("readyReplicas", 0), status.get("replicas", 0)
    phase = decide_phase(
        target=0 if removed else target, ready=ready, updated=updated, replicas=replicas
    )
    if phase is Phase.DONE and (removed or not reported):
        phase = Phase.UPDATING
    reason, message = words.why_not_ready(deployment)
    old = max(0, replicas - updated)
    return Row(placement, city, target, updated, ready, old, phase, reason, message)


class Progress:
    """Says each row when it changes: one line per change, off a terminal and on it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._said: dict[tuple[str, str], tuple[str, ...]] = {}
        self._widths = [len(title) for title in HEADER]

    def show(self, current: Sequence[Row]) -> None:
        for row in current:
            key = (row.placement, row.city)
            if self._said.get(key) == row.cells:
                continue
            if not self._said:
                self._line(HEADER)
            self._said[key] = row.cells
            self._line(row.cells)

    def _line(self, cells: tuple[str, ...]) -> None:
        self._widths = [max(w, len(c)) for w, c in zip(self._widths, cells, strict=True)]
        line = "   ".join(c.ljust(w) for c, w in zip(cells, self._widths, strict=True))
        self._context.say("  " + line.rstrip())


async def wait_rolled_out(
    context: Context, client: Client, name: str, *, timeout: float
) -> list[Row]:
    """Wait until every row is done; raise when that cannot happen or takes too long."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    progress = Progress(context)
    refused_since: float | None = None
    latest: list[Row] = []
    try:
        async with asyncio.timeout(timeout), _changes(client, name) as changed:
            async for workload, deployments in _views(client, context, name, changed):
                latest = rows(workload, deployments)
                progress.show(latest)
                if _is_done(workload, latest):
                    return latest
                _raise_if_fatal(name, latest)
                refused_since = _raise_if_refused(name, latest, refused_since, loop.time())
    except TimeoutError:
        waiting = [f"{r.city}: {r.message or r.reason or r.phase}" for r in latest if not done(r)]
        raise CommandError(
            f'"{name}" is not ready after {duration(loop.time() - started)}; still waiting for '
            + "; ".join(waiting or ["the first report"]),
            exit_code=Exit.TIMED_OUT,
            code="TimedOut",
            hint=f"datumctl-compute status {name}",
            retryable=True,
        ) from None
    raise AssertionError("the changes of a workload never end by themselves")


def done(row: Row) -> bool:
    return row.phase is Phase.DONE


def _is_done(workload: Json, current: Sequence[Row]) -> bool:
    observed = (workload.get("status") or {}).get("observedGeneration")
    return observed == workload["metadata"].get("generation") and all(map(done, current))


def _raise_if_fatal(name: str, current: Sequence[Row]) -> None:
    for row in current:
        if row.reason in FATAL and not done(row):
            raise CommandError(
                f'rollout of "{name}" failed in {row.city}: {words.FAILURES[row.reason]}: '
                f"{row.message}",
                exit_code=Exit.ROLLOUT_FAILED,
                code=row.reason,
                hint=f"datumctl-compute status {name}",
            )


def _raise_if_refused(
    name: str, current: Sequence[Row], since: float | None, now: float
) -> float | None:
    refused = next((row for row in current if row.reason in REFUSED and not done(row)), None)
    if refused is None:
        return None
    if since is not None and now - since >= REFUSED_GRACE_SECONDS:
        raise CommandError(
            f'"{name}" is blocked in {refused.city}: {refused.message or refused.reason}',
            exit_code=Exit.BLOCKED,
            code=refused.reason,
            hint=f"datumctl-compute status {name}",
        )
    return now if since is None else since


async def wait_gone(context: Context, client: Client, name: str, *, timeout: float) -> None:
    """Wait until the workload and everything it ran is gone, counting down per city."""
    progress = Progress(context)
    latest: list[Row] = []
    try:
        async with asyncio.timeout(timeout), _changes(client, name) as changed:
            async for workload, deployments in _views(client, context, name, changed):
                latest = rows({**workload, "spec": {"placements": []}}, deployments)
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
                raise CommandError(f'watching "{name}": {error}', retryable=True) from error
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
            await asyncio.sleep(RETRY_SECONDS)


def instances_table(instances: Sequence[Json]) -> str:
    ordered = sorted(instances, key=lambda i: (words.label(i, "city-code"), words.ordinal(i)))
    lines = [
        (words.label(i, "city-code"), i["metadata"]["name"], words.instance_addresses(i)[1])
        for i in ordered
    ]
    return table(("CITY", "INSTANCE", "ADDRESS"), lines) if lines else ""
