"""Commands in running containers, by Kubernetes' protocol ``v5.channel.k8s.io``.

A WebSocket carries binary messages whose first byte is a channel: input 0, output 1 and 2, the
final Status 3, the size of the terminal 4; 255 ends a channel. The Status names the exit code.
:class:`CommandSession` is a running command for whoever reads it: the command line and the
providers that reach theirs through an API server use :class:`RemoteCommand`, others have their
own, and the embedded API server serves any of them.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple, Protocol

from datum_compute.api.scheme import Resource
from datum_compute.client import errors, websocket
from datum_compute.client.protocol import Client
from datum_compute.client.transport import close_stream
from datum_compute.env import Environment

SUBRESOURCE = "exec"
PROTOCOL = "v5.channel.k8s.io"

STDIN, STDOUT, STDERR, STATUS, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255

_OUTPUT = (bytes([STDOUT]), bytes([STDERR]))

NON_ZERO_EXIT = "NonZeroExitCode"
"""The reason of a final Status with an exit code."""

QUEUED = 4
"""Messages that wait to be sent before the sender of more waits."""


class CommandFailed(Exception):
    """The command could not be started, or its end is not known; the message says why."""


class CommandRequest(NamedTuple):
    """What to run in an Instance."""

    command: tuple[str, ...]
    container: str = ""
    """Empty for the first one; a provider always gets a name."""
    tty: bool = False
    """Whether it gets a terminal, on which all output is one stream."""
    stdin: bool = False


class CommandSession(Protocol):
    """A command that runs. Its output is read by iterating: pairs of ``STDOUT`` or ``STDERR``
    and bytes. The output of a reader that stops waits where the command runs."""

    def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]: ...

    async def send(self, data: bytes) -> None:
        """Pass input on, once there is room for it."""

    async def end_input(self) -> None: ...

    async def resize(self, columns: int, rows: int) -> None: ...

    async def exit_code(self) -> int:
        """After the output has ended. Raises :class:`CommandFailed`."""

    async def aclose(self) -> None:
        """Leave it, whether or not it has ended."""


class RemoteCommand:
    """A command behind an API server."""

    def __init__(self, stream: AsyncIterator[bytes], outbox: Outbox) -> None:
        self._stream = stream
        self._outbox = outbox
        self._decoder = websocket.FrameDecoder(masked=False)
        self._status: dict[str, Any] | None = None

    async def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        """Raises :class:`CommandFailed` when the connection is lost."""
        try:
            async for data in self._stream:
                for opcode, content in self._decoder.feed(data):
                    if opcode == websocket.CLOSE:
                        return
                    if opcode == websocket.PING:
                        await self._outbox.put(websocket.PONG, content)
                    elif content[:1] in _OUTPUT and len(content) > 1:
                        yield content[0], content[1:]
                    elif content[:1] == bytes([STATUS]):
                        self._status = _decoded(content[1:])
        except (errors.TransportFailure, websocket.WebSocketError) as error:
            if self._status is None:
                raise CommandFailed(f"the connection was lost: {error}") from error

    async def send(self, data: bytes) -> None:
        await self._outbox.put(websocket.BINARY, bytes([STDIN]) + data)

    async def end_input(self) -> None:
        await self._outbox.put(websocket.BINARY, bytes([CLOSE, STDIN]))

    async def resize(self, columns: int, rows: int) -> None:
        size = json.dumps({"Width": columns, "Height": rows}).encode()
        await self._outbox.put(websocket.BINARY, bytes([RESIZE]) + size)

    async def exit_code(self) -> int:
        status = self._status
        if status is None:
            raise CommandFailed("the connection ended before the command did")
        if status.get("status") == "Success":
            return 0
        causes = (status.get("details") or {}).get("causes") or ()
        codes = [each.get("message", "") for each in causes if each.get("reason") == "ExitCode"]
        if status.get("reason") == NON_ZERO_EXIT and codes and codes[0].isdecimal():
            return int(codes[0])
        raise CommandFailed(str(status.get("message") or "the command failed for no given reason"))

    async def aclose(self) -> None:
        await close_stream(self._stream)


class Outbox:
    """The frames that a client sends, in order; a few may wait."""

    def __init__(self, env: Environment) -> None:
        self._random = env.random("client.websocket")
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(maxsize=QUEUED)

    def new_key(self) -> str:
        return base64.b64encode(self._random.randbytes(16)).decode()

    async def put(self, opcode: int, content: bytes) -> None:
        await self._queue.put(websocket.encode_frame(opcode, content, self._random.randbytes(4)))

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return await self._queue.get()


async def start_command(
    client: Client,
    resource: Resource,
    name: str,
    namespace: str,
    request: CommandRequest,
    env: Environment,
) -> RemoteCommand:
    """Run a command in a container behind an API server. Raises ``ClientError``."""
    outbox = Outbox(env)
    key = outbox.new_key()
    headers = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": key,
        "sec-websocket-protocol": PROTOCOL,
    }
    response = await client.upgrade(
        resource, name, namespace, SUBRESOURCE, _query(request), headers, outbox
    )
    chosen = response.headers.get("sec-websocket-protocol", "")
    accepted = response.headers.get("sec-websocket-accept", "")
    if chosen != PROTOCOL or accepted != websocket.accept_key(key) or response.stream is None:
        await close_stream(response.stream)
        raise errors.Malformed(f'answered with protocol "{chosen}" instead of {PROTOCOL}')
    return RemoteCommand(response.stream, outbox)


def _query(request: CommandRequest) -> Sequence[tuple[str, str]]:
    flags = {"stdin": request.stdin, "stdout": True, "stderr": not request.tty, "tty": request.tty}
    return [
        *(("command", word) for word in request.command),
        *((("container", request.container),) if request.container else ()),
        *((key, "true") for key, value in flags.items() if value),
    ]


def _decoded(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"message": content.decode(errors="replace")}
