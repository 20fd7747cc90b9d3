"""The subresource ``exec``: a command in what an object stands for, over a WebSocket.

The protocol is Kubernetes' ``v5.channel.k8s.io``, see :mod:`datum_compute.client.remote_command`.
An :class:`ExecSubresource` says which kind has it, on planes of which types, and who runs the
command. As in Kubernetes it needs the verb ``create``. A session ends with its command, its
object, the server or the connection.

What waits is bounded in each direction: a client that does not read stops the command's output
where the command runs, a command that does not read stops the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from datum_compute.api.planes import PlaneType
from datum_compute.apiserver import errors
from datum_compute.apiserver.kinds.served_kind import ServedKind
from datum_compute.apiserver.objects.planes import Plane
from datum_compute.apiserver.request.context import RequestContext
from datum_compute.apiserver.storage.protocol import StoreEvent
from datum_compute.client import websocket
from datum_compute.client.remote_command import (
    CLOSE,
    NON_ZERO_EXIT,
    PROTOCOL,
    QUEUED,
    RESIZE,
    STATUS,
    STDIN,
    SUBRESOURCE,
    CommandFailed,
    CommandRequest,
    CommandSession,
)
from datum_compute.client.transport import HttpResponse
from datum_compute.log import get_logger

__all__ = ["SUBRESOURCE", "CommandRefused", "ExecSubresource", "start"]

_log = get_logger(__name__)

MAX_COMMAND = 256
"""Words of a command. A guess: ten times what people type."""
MAX_SIZE = 2**16 - 1
"""Columns or rows of a terminal: the kernel keeps each in two bytes."""


class CommandRefused(Exception):
    """The command is not run; the message says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


OpenSession = Callable[[str, Mapping[str, Any], str, CommandRequest], Awaitable[CommandSession]]
"""Runs a command in an object of a plane, for a user. Raises :class:`CommandRefused`."""

_REASONS = {404: "NotFound", 409: "Conflict", 429: "TooManyRequests", 501: "NotImplemented"}


@dataclass(frozen=True, slots=True)
class ExecSubresource:
    """In which objects commands can be run, and by whom."""

    resource: str
    """Plural and group: ``instances.compute.datumapis.com``."""
    plane_types: frozenset[PlaneType]
    open: OpenSession

    def matches(self, plane: Plane, kind: ServedKind) -> bool:
        return kind.resource.group_resource == self.resource and plane.type in self.plane_types


async def start(source: ExecSubresource, call: RequestContext) -> HttpResponse:
    stored = call.existing()
    request = _parse(call)
    incoming, key = call.request.stream, call.request.headers.get("sec-websocket-key", "")
    offered = call.request.headers.get("sec-websocket-protocol", "")
    if incoming is None or not key:
        raise errors.bad_request(f"exec is a WebSocket with the protocol {PROTOCOL}")
    if PROTOCOL not in [each.strip() for each in offered.split(",")]:
        raise errors.bad_request(
            f'unknown WebSocket protocol "{offered}": exec is served by {PROTOCOL}'
        )
    obj = call.plane.writer.read(call.kind, stored)
    call.usage.open_watch()
    try:
        session = await source.open(call.plane.name, obj, call.user.name, request)
    except BaseException as error:
        call.usage.close_watch()
        if isinstance(error, CommandRefused):
            reason = _REASONS.get(error.status, "ServiceUnavailable")
            raise errors.ApiError(error.status, reason, str(error)) from error
        raise
    headers = {
        "upgrade": "websocket",
        "connection": "Upgrade",
        "sec-websocket-accept": websocket.accept_key(key),
        "sec-websocket-protocol": PROTOCOL,
    }
    return HttpResponse(101, headers, stream=ExecStream(call, stored.uid, session, incoming))


def _parse(call: RequestContext) -> CommandRequest:
    command = tuple(value for key, value in call.request.query if key == "command")
    if not command or not command[0]:
        raise errors.bad_request("command: expected the program to run and its arguments")
    if len(command) > MAX_COMMAND:
        raise errors.bad_request(f"command: {len(command)} words, expected at most {MAX_COMMAND}")
    return CommandRequest(
        command, call.query.get("container", ""), tty=call.flag("tty"), stdin=call.flag("stdin")
    )


class ExecStream:
    """The server's frames, while those of the client are passed to the command."""

    def __init__(
        self,
        call: RequestContext,
        uid: str,
        session: CommandSession,
        incoming: AsyncIterator[bytes],
    ) -> None:
        self._table = call.table
        self._usage = call.usage
        self._uid = uid
        self._session = session
        self._outbox: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=QUEUED)
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._pass_output(), name="exec output"),
            loop.create_task(self._pass_input(incoming), name="exec input"),
        ]
        self._has_ended = False
        self._table.add_sink(self)

    # What the server's tables call.

    def offer(self, event: StoreEvent, shared: dict[Any, bytes]) -> None:
        if event.deleted and event.after.uid == self._uid:
            self._end_with(_failure("Gone", f"{event.after.name} was deleted"))

    def end(self) -> None:
        self._end_with(_failure("ServiceUnavailable", "the server ends the session"))

    def _end_with(self, status: bytes) -> None:
        """Nothing more but this, whatever waits."""
        if self._has_ended:
            return
        self._release()
        while not self._outbox.empty():
            self._outbox.get_nowait()
        for frame in (_channel(STATUS, status), _CLOSED, None):
            self._outbox.put_nowait(frame)

    def _release(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._usage.close_watch()
            self._table.remove_sink(self)
            for task in self._tasks:
                task.cancel()

    # What the connection reads.

    def __aiter__(self) -> ExecStream:
        return self

    async def __anext__(self) -> bytes:
        frame = await self._outbox.get()
        if frame is None:
            self._outbox.put_nowait(None)
            raise StopAsyncIteration
        return frame

    async def aclose(self) -> None:
        """The client has left, or has got everything."""
        self._release()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._session.aclose()

    # The two directions.

    async def _pass_output(self) -> None:
        try:
            async for channel, data in self._session:
                await self._outbox.put(_channel(channel, data))
            code = await self._session.exit_code()
            status = _SUCCESS if code == 0 else _exit_status(code)
        except CommandFailed as error:
            status = _failure("InternalError", str(error))
        except Exception:  # noqa: BLE001 - our bug in one session must not leave it open
            _log.exception("session failed")
            status = _failure("InternalError", "an internal error occurred")
        for frame in (_channel(STATUS, status), _CLOSED, None):
            await self._outbox.put(frame)

    async def _pass_input(self, incoming: AsyncIterator[bytes]) -> None:
        decoder = websocket.FrameDecoder(masked=True)
        try:
            async for data in incoming:
                for opcode, content in decoder.feed(data):
                    if opcode == websocket.CLOSE:
                        await self._outbox.put(_CLOSED)
                        await self._outbox.put(None)
                        return
                    if opcode == websocket.PING:
                        await self._outbox.put(websocket.encode_frame(websocket.PONG, content))
                    elif opcode == websocket.BINARY and content:
                        await self._take(content[0], content[1:])
        except CommandFailed:
            return  # the command has ended; its output tells how
        except websocket.WebSocketError as error:
            await self._outbox.put(_channel(STATUS, _failure("BadRequest", str(error))))
            await self._outbox.put(websocket.encode_close(websocket.PROTOCOL_ERROR))
            await self._outbox.put(None)

    async def _take(self, channel: int, content: bytes) -> None:
        if channel == STDIN and content:
            await self._session.send(content)
        elif channel == CLOSE and content == bytes([STDIN]):
            await self._session.end_input()
        elif channel == RESIZE:
            try:
                size = msgspec.json.decode(content, type=_Size)
            except msgspec.DecodeError as error:
                raise websocket.WebSocketError(f"not the size of a terminal: {error}") from error
            await self._session.resize(min(size.Width, MAX_SIZE), min(size.Height, MAX_SIZE))


class _Size(msgspec.Struct):
    Width: int
    Height: int


def _channel(channel: int, content: bytes) -> bytes:
    return websocket.encode_frame(websocket.BINARY, bytes([channel]) + content)


def _failure(reason: str, message: str, **more: Any) -> bytes:
    status = {"metadata": {}, "status": "Failure", "reason": reason, "message": message}
    return msgspec.json.encode(status | more)


def _exit_status(code: int) -> bytes:
    causes = [{"reason": "ExitCode", "message": str(code)}]
    text = f"command terminated with exit code {code}"
    return _failure(NON_ZERO_EXIT, text, details={"causes": causes})


_SUCCESS = msgspec.json.encode({"metadata": {}, "status": "Success"})
_CLOSED = websocket.encode_close(websocket.NORMAL_CLOSURE)
