"""Commands in an Instance's containers, by the engine.

The engine turns the request that starts a command into a connection to it. Without a terminal it
frames the output as it does logs. The exit code is asked for afterwards.

Both engines leave a command running when its connection is lost, and have no call that ends it.
So its processes are sent HUP, and KILL some time later, by their ids on this host: the engine runs
each command in a session of the kernel of its own. Where the platform may not signal them, or the
engine is on another host, the input of the command ends; on a terminal Ctrl-D is sent, which ends a
shell that waits at its prompt.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from datum_compute.client.errors import Disconnected
from datum_compute.client.remote_command import (
    QUEUED,
    STDERR,
    STDOUT,
    CommandFailed,
    CommandRequest,
)
from datum_compute.client.transport import close_stream
from datum_compute.providers.container import failures
from datum_compute.providers.container.engine import (
    ContainerEngine,
    EngineRefused,
    EngineUnreachable,
)
from datum_compute.providers.container.logs import split_frames
from datum_compute.providers.container.spec import LABEL_CONTAINER
from datum_compute.providers.protocol import ExecRefused
from datum_compute.providers.sandbox import LABEL_UID, describe_command

END_OF_INPUT = b"\x04"
"""Ctrl-D, which a terminal takes for the end of input."""
NOT_RUN = (126, 127)
"""The exit codes of a program that cannot be run or is not there."""
ENGINE_TEXT = (b"exec failed", b"unable to start container process")
"""What the engine writes itself contains these, at the beginning."""
MAX_ENGINE_TEXT = 16 * 1024
UNREAD_INPUT = re.compile(rb"Error: write unixpacket \S*/attach: write: [a-z ]+\n")
"""What podman writes to the command's stderr when the command ends before it has read its input."""
EXIT_ATTEMPTS = 50
EXIT_SECONDS = 0.1
"""Between two questions for the exit code, which podman may know a moment after the output ends."""
START_ATTEMPTS = 300
"""Questions for the process of a command that is to be ended: docker answers before it has started
one, and starts it also when the connection is lost by then. A guess, for a busy machine."""
HANGUP_ATTEMPTS = 10
"""Looks at what was sent HUP, before it is killed."""


async def start(
    find_engine: Callable[[], ContainerEngine],
    uid: str,
    request: CommandRequest,
    on_close: Callable[[], None] = lambda: None,
) -> ContainerCommand:
    """``on_close`` is called once, when the session is closed. Raises ``ExecRefused``."""
    try:
        engine = find_engine()
        container = await _find(engine, uid, request.container)
        body = {
            "AttachStdin": request.stdin,
            "AttachStdout": True,
            "AttachStderr": True,
            "Tty": request.tty,
            "Cmd": list(request.command),
        }
        identifier = await engine.create_exec(container, body)
        outbox: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=QUEUED)
        stream = await engine.start_exec(identifier, _input(outbox), tty=request.tty)
    except EngineUnreachable as error:
        raise ExecRefused(f"the container engine does not answer: {error}") from error
    except EngineRefused as error:
        text = failures.one_line(error.message)
        raise ExecRefused(describe_command(text) or text) from error
    return ContainerCommand(engine, identifier, request, stream, outbox, on_close)


async def _find(engine: ContainerEngine, uid: str, name: str) -> str:
    found = {
        str(each["Labels"].get(LABEL_CONTAINER)): each
        for each in await engine.containers({LABEL_UID: uid})
    }
    if not found:
        raise ExecRefused("it has no container yet")
    if name not in found:
        raise ExecRefused(f'it has no container "{name}": found {", ".join(sorted(found))}')
    if (state := found[name].get("State")) != "running":
        raise ExecRefused(f'its container "{name}" does not run: {state}')
    return str(found[name]["Id"])


async def _input(outbox: asyncio.Queue[bytes | None]) -> AsyncIterator[bytes]:
    while (data := await outbox.get()) is not None:
        yield data


class ContainerCommand:
    """See ``CommandSession``."""

    def __init__(
        self,
        engine: ContainerEngine,
        identifier: str,
        request: CommandRequest,
        stream: AsyncIterator[bytes],
        outbox: asyncio.Queue[bytes | None],
        on_close: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._id = identifier
        self._request = request
        self._stream = stream
        self._outbox = outbox
        self._on_close: Callable[[], None] | None = on_close
        self._refusal = b""
        self._has_ended = False

    async def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        is_first = True
        try:
            async with aclosing(self._output()) as output:
                async for channel, data in output:
                    if channel == STDERR and UNREAD_INPUT.fullmatch(data):
                        continue
                    if is_first and all(each in data for each in ENGINE_TEXT):
                        self._refusal = data
                    elif self._refusal and len(self._refusal) < MAX_ENGINE_TEXT:
                        self._refusal += data
                    else:
                        yield channel, data
                    is_first = False
            self._has_ended = True
            if self._refusal and await self._wait_exit() not in NOT_RUN:
                yield STDERR, self._refusal  # a program's own words
        except (EngineUnreachable, EngineRefused) as error:
            raise CommandFailed(f"the container engine broke off: {error}") from error

    async def _output(self) -> AsyncGenerator[tuple[int, bytes], None]:
        try:
            if not self._request.tty:
                async with aclosing(split_frames(self._stream)) as frames:
                    async for kind, data in frames:
                        yield STDERR if kind == STDERR else STDOUT, data
                return
            async for data in self._stream:
                yield STDOUT, data
        except Disconnected:
            # Sending input fails too when the command ends before it has read all of it.
            await self._wait_exit()

    async def send(self, data: bytes) -> None:
        await self._outbox.put(data)

    async def end_input(self) -> None:
        if self._request.tty:
            await self._outbox.put(END_OF_INPUT)
        else:
            await self._outbox.put(None)

    async def resize(self, columns: int, rows: int) -> None:
        try:
            await self._engine.resize_exec(self._id, columns, rows)
        except (EngineRefused, EngineUnreachable):
            pass  # it has ended, or has no terminal

    async def exit_code(self) -> int:
        try:
            code = await self._wait_exit()
        except (EngineRefused, EngineUnreachable) as error:
            raise CommandFailed(f"the exit code is not known: {error}") from error
        if self._refusal and code in NOT_RUN:
            text = failures.one_line(self._refusal.decode(errors="replace"))
            raise CommandFailed(describe_command(text) or text)
        return code

    async def _wait_exit(self) -> int:
        for _ in range(EXIT_ATTEMPTS):
            found = await self._engine.inspect_exec(self._id)
            if not found.get("Running"):
                return int(found.get("ExitCode") or 0)
            await asyncio.sleep(EXIT_SECONDS)
        raise CommandFailed("its output has ended, and it runs on")

    async def aclose(self) -> None:
        if self._request.tty and not self._has_ended and not self._outbox.full():
            self._outbox.put_nowait(END_OF_INPUT)
            await asyncio.sleep(0)  # until it is written
            await asyncio.sleep(0)
        try:
            await close_stream(self._stream)
            if not self._has_ended:
                await self._hang_up()
        finally:
            on_close, self._on_close = self._on_close, None
            if on_close is not None:
                on_close()

    async def _hang_up(self) -> None:
        """End what is left of it, as a terminal does that is gone."""
        try:
            found = await self._find_process()
        except (EngineRefused, EngineUnreachable):
            return  # it ends with its container, or with the next stop of the platform
        leader, container = int(found.get("Pid") or 0), str(found.get("ContainerID") or "")
        if not leader or not container:
            return
        signal_session(leader, container, signal.SIGHUP)
        for _ in range(HANGUP_ATTEMPTS):
            if not session_processes(leader, container):
                return
            await asyncio.sleep(EXIT_SECONDS)
        signal_session(leader, container, signal.SIGKILL)

    async def _find_process(self) -> dict[str, Any]:
        """What the engine says about it, when it has started or is known not to."""
        for _ in range(START_ATTEMPTS):
            found = await self._engine.inspect_exec(self._id)
            if found.get("Pid") or found.get("ExitCode") is not None:
                break
            await asyncio.sleep(EXIT_SECONDS)
        return found


def session_processes(leader: int | None, container: str) -> list[int]:
    """The processes of this host that belong to a session of this container, or to any of its
    sessions; none where the engine runs its containers on another host, whose ids mean nothing
    here."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            is_mine = leader in (None, int(fields[3])) and fields[0] != "Z"
            if is_mine and container in (entry / "cgroup").read_text():
                found.append(int(entry.name))
        except OSError:
            continue  # it has ended meanwhile
    return found


def signal_session(leader: int | None, container: str, number: signal.Signals) -> bool:
    """Whether this platform may signal all of them."""
    may_signal = True
    for pid in session_processes(leader, container):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
        except PermissionError:
            may_signal = False  # of a user whose processes this platform may not end
    return may_signal
