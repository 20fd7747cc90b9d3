"""What a wait reads of a workload, and how it learns of changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit, from_client, not_found
from datum_compute.cli.explain.suggestions import command
from datum_compute.cli.rollout.state import Rollout, decide_rollout
from datum_compute.cli.session import to_dict
from datum_compute.cli.tables import NAMESPACE
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.runtime.tasks import TaskGroup

Json = Mapping[str, Any]

RELIST_SECONDS = 15.0
"""Between two reads without an event, in case one was lost. A guess."""
RETRY_SECONDS = 1.0
URL_SECONDS = 1.0
"""How long a platform may take to give a workload its URL. A guess: it takes some milliseconds."""
MAX_LIST_FAILURES = 10
"""How many lists may fail in a row before the wait gives up: about ten seconds."""


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


async def list_deployments(client: Client, workload_uid: str) -> list[dict[str, Any]]:
    selector = f"{compute.LABEL_WORKLOAD_UID}={workload_uid}"
    page = await client.list(compute.WORKLOAD_DEPLOYMENTS, NAMESPACE, label_selector=selector)
    return [to_dict(item) for item in page.items]


async def _list_instances(client: Client, workload: str) -> list[dict[str, Any]]:
    selector = f"{compute.LABEL_WORKLOAD_NAME}={workload}"
    page = await client.list(compute.INSTANCES, NAMESPACE, label_selector=selector)
    return [to_dict(item) for item in page.items]


class WorkloadReader:
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
        return to_dict(workload), await list_deployments(self._client, workload.metadata.uid)

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
            f'lost contact with the platform while waiting for "{self._name}"; the change'
            " continues: " + from_client(error).message,
            command("status", self._name),
            code="Unreachable",
            retryable=True,
        )


@asynccontextmanager
async def watch_changes(
    client: Client, name: str
) -> AsyncIterator[Callable[[float], Awaitable[None]]]:
    """Yields a wait for the next change of the workload or of any deployment, or for the next read
    without one; for some seconds at most."""
    event = asyncio.Event()

    async def wait(limit: float) -> None:
        try:
            async with asyncio.timeout(min(limit, RELIST_SECONDS)):
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
