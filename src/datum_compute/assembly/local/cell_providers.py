"""Logs of Instances and commands in them, from the provider of their cell.

On a project's plane the Instance is a projection: its labels name the cell, and an annotation
its uid there. On the cell's own plane it is the Instance itself. A disconnected cell is
unavailable in a project, and followed logs and commands end when it is disconnected.

Each command is recorded: an Event on the Instance names who ran which program, and the log has
the whole command and its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from datum_compute.api import planes
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.planes import CELL, PROJECT
from datum_compute.apiserver.verbs.exec import CommandRefused, ExecSubresource
from datum_compute.apiserver.verbs.logs import LogSubresource, LogsUnavailable
from datum_compute.assembly.local.partitions import Partitions
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.client.remote_command import CommandFailed, CommandRequest, CommandSession
from datum_compute.client.transport import close_stream
from datum_compute.decisions.status_events import NORMAL, EventContent
from datum_compute.env import Environment
from datum_compute.log import get_logger
from datum_compute.providers import protocol
from datum_compute.providers.protocol import ExecSource, LinesAway, LogLine, LogSource
from datum_compute.runtime.events import EventRecorder

PLANE_TYPES = frozenset({PROJECT, CELL})
MAX_SESSIONS = 3
"""Commands at once in one Instance, whoever runs them."""
COMPONENT = "exec"
"""The source of the Events."""

_log = get_logger(__name__)


class _Found(NamedTuple):
    """Where an Instance runs."""

    cell: str
    uid: str
    is_crossing: bool
    """Whether the way there leads through the connection between project and cell."""


class CellProviders:
    """What a platform's providers answer about their Instances."""

    def __init__(
        self,
        partitions: Partitions,
        env: Environment,
        client: Callable[[str], Client],
    ) -> None:
        """``client`` writes Events to a plane."""
        self._partitions = partitions
        self._client = client
        self._events = EventRecorder(COMPONENT, env)
        self._providers: dict[str, object] = {}
        self._sessions: Counter[str] = Counter()

    def set_provider(self, cell: str, provider: object) -> object:
        """Use this provider for the cell, in place of an earlier one, which is returned."""
        before = self._providers.get(cell)
        self._providers[cell] = provider
        return before

    def as_logs(self) -> LogSubresource:
        return LogSubresource(compute.INSTANCES.group_resource, PLANE_TYPES, self.read)

    def as_commands(self) -> ExecSubresource:
        return ExecSubresource(compute.INSTANCES.group_resource, PLANE_TYPES, self.open)

    def read(
        self,
        plane: str,
        obj: Mapping[str, Any],
        *,
        tail: int | None,
        since: datetime | None,
        follow: bool,
    ) -> AsyncIterator[LogLine]:
        found = _locate(plane, obj)
        if self._is_cut_off(found):
            raise LogsUnavailable(
                f"cell {found.cell} is disconnected, so the logs of its instances cannot be read"
            )
        provider = self._providers.get(found.cell)
        if not isinstance(provider, LogSource):
            raise LogsUnavailable(_unplaced(obj, found.cell))
        lines = _unless_away(
            found.cell, provider.lines(found.uid, tail=tail, since=since, follow=follow)
        )
        return (
            _until_disconnected(self._partitions, found.cell, lines) if found.is_crossing else lines
        )

    async def open(
        self, plane: str, obj: Mapping[str, Any], user: str, request: CommandRequest
    ) -> CommandSession:
        found = _locate(plane, obj)
        name = obj["metadata"]["name"]
        if self._is_cut_off(found):
            text = f"cell {found.cell} is disconnected, so no command can be run in its instances"
            raise CommandRefused(503, text)
        provider = self._providers.get(found.cell)
        if provider is None:
            raise CommandRefused(503, _unplaced(obj, found.cell))
        if not isinstance(provider, ExecSource):
            text = f'no process runs for instance "{name}": this platform simulates instances'
            raise CommandRefused(501, text)
        if self._sessions[found.uid] >= MAX_SESSIONS:
            text = f'instance "{name}" has {MAX_SESSIONS} sessions, which is the most at once'
            raise CommandRefused(429, text)
        if not request.container:
            request = request._replace(container=_first_container(obj))
        self._sessions[found.uid] += 1
        try:
            inner = await provider.exec(found.uid, request)
        except protocol.ExecRefused as error:
            self._end(found.uid)
            raise CommandRefused(409, f'instance "{name}": {error}') from error
        except BaseException:
            self._end(found.uid)
            raise
        record = {"user": user, "plane": plane, "instance": name, "command": list(request.command)}
        _log.info("command started", **record, tty=request.tty)
        await self._record(plane, obj, user, request)
        cell = found.cell if found.is_crossing else ""
        return _RecordedSession(self._partitions, cell, inner, lambda: self._end(found.uid), record)

    async def _record(
        self, plane: str, obj: Mapping[str, Any], user: str, request: CommandRequest
    ) -> None:
        # The program alone: whoever may read Events may not know what is in its arguments.
        text = f"{user} runs {request.command[0]} in container {request.container}"
        notice = EventContent(NORMAL, compute.REASON_COMMAND_RUN, text)
        instance = Object.from_wire(msgspec.json.encode(obj))
        await self._events.record(self._client(plane), instance, notice)

    def _end(self, uid: str) -> None:
        self._sessions[uid] -= 1
        if not self._sessions[uid]:
            del self._sessions[uid]

    def _is_cut_off(self, found: _Found) -> bool:
        return found.is_crossing and self._partitions.is_disconnected(found.cell)


class _RecordedSession:
    """A session that is counted, logged, and ended when its cell is disconnected."""

    def __init__(
        self,
        partitions: Partitions,
        cell: str,
        inner: CommandSession,
        on_close: Callable[[], None],
        record: Mapping[str, Any],
    ) -> None:
        self._inner = inner
        self._output = partitions.stream(aiter(inner), cell)
        self._on_close: Callable[[], None] | None = on_close
        self._record = record
        self._code: int | None = None

    async def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        try:
            async for item in self._output:
                yield item
        except errors.Disconnected as error:
            raise CommandFailed(str(error)) from error

    async def send(self, data: bytes) -> None:
        await self._inner.send(data)

    async def end_input(self) -> None:
        await self._inner.end_input()

    async def resize(self, columns: int, rows: int) -> None:
        await self._inner.resize(columns, rows)

    async def exit_code(self) -> int:
        self._code = await self._inner.exit_code()
        return self._code

    async def aclose(self) -> None:
        on_close, self._on_close = self._on_close, None
        if on_close is None:
            return
        try:
            await self._output.aclose()
            await self._inner.aclose()
        finally:
            on_close()
            _log.info("command ended", **self._record, exit_code=self._code)


def _locate(plane: str, obj: Mapping[str, Any]) -> _Found:
    metadata = obj["metadata"]
    if planes.plane_type(plane) is CELL:
        return _Found(planes.cluster_name(plane), metadata["uid"], is_crossing=False)
    cell = metadata.get("labels", {}).get(compute.LABEL_SOURCE_CLUSTER, "")
    uid = metadata.get("annotations", {}).get(compute.ANNOTATION_INSTANCE_UID, "")
    return _Found(cell, uid, is_crossing=True)


def _first_container(obj: Mapping[str, Any]) -> str:
    sandbox = obj.get("spec", {}).get("runtime", {}).get("sandbox") or {}
    containers = sandbox.get("containers") or ()
    if not containers:
        raise CommandRefused(409, f'instance "{obj["metadata"]["name"]}" has no containers')
    return str(containers[0]["name"])


def _unplaced(obj: Mapping[str, Any], cell: str) -> str:
    return (
        f'instance "{obj["metadata"]["name"]}" does not name a cell of this platform'
        f' in its label {compute.LABEL_SOURCE_CLUSTER}: found "{cell}"'
    )


async def _unless_away(cell: str, lines: AsyncIterator[LogLine]) -> AsyncIterator[LogLine]:
    try:
        async for line in lines:
            yield line
    except LinesAway as error:
        raise LogsUnavailable(
            f"the runtime of cell {cell} does not answer, so the logs of its instances cannot be"
            f" read: {error}"
        ) from error
    finally:
        await close_stream(lines)


async def _until_disconnected(
    partitions: Partitions, cell: str, lines: AsyncIterator[LogLine]
) -> AsyncIterator[LogLine]:
    stream = partitions.stream(lines, cell)
    try:
        async for line in stream:
            yield line
    except errors.Disconnected:
        return
    finally:
        await stream.aclose()
