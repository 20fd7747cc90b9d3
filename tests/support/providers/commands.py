"""Commands that run nowhere: what a test types is repeated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from datum_compute.client.remote_command import STDERR, STDOUT, CommandFailed, CommandRequest
from datum_compute.providers.protocol import ExecRefused

CHUNK = bytes(64 * 1024)


class ScriptedCommand:
    """Repeats its input; ``exit N`` ends it. ``flood`` writes without end, ``/nope`` is not
    there."""

    def __init__(self, owner: ScriptedCommands, request: CommandRequest) -> None:
        self._owner = owner
        self._request = request
        self._input: asyncio.Queue[bytes] = asyncio.Queue(maxsize=4)
        self._code = 0
        self.sizes: list[tuple[int, int]] = []

    async def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        program = self._request.command[0]
        if program == "/nope":
            raise CommandFailed("cannot run /nope: no such file")
        while program == "flood":
            self._owner.written += len(CHUNK)
            yield STDOUT, CHUNK
        if program == "false":
            self._code = 1
            return
        yield STDERR, b"ready\n"
        if not self._request.stdin:
            return
        while not (data := await self._input.get()).startswith(b"exit"):
            yield STDOUT, data
        self._code = int(data[4:] or b"0")

    async def send(self, data: bytes) -> None:
        await self._input.put(data)

    async def end_input(self) -> None:
        await self._input.put(b"exit 0")

    async def resize(self, columns: int, rows: int) -> None:
        self.sizes.append((columns, rows))

    async def exit_code(self) -> int:
        return self._code

    async def aclose(self) -> None:
        self._owner.open.remove(self)


class ScriptedCommands:
    """Runs them; the optional part of a provider."""

    def __init__(self) -> None:
        self.open: list[ScriptedCommand] = []
        self.requests: list[CommandRequest] = []
        self.written = 0
        self.refusal = ""

    async def exec(self, uid: str, request: CommandRequest) -> ScriptedCommand:
        if self.refusal:
            raise ExecRefused(self.refusal)
        self.requests.append(request)
        self.open.append(ScriptedCommand(self, request))
        return self.open[-1]
