"""A command whose session is closed leaves no process."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from datum_compute.client.errors import Disconnected
from datum_compute.client.remote_command import STDERR, STDOUT, CommandFailed, CommandRequest
from datum_compute.providers.container.exec import ContainerCommand, session_processes
from datum_compute.testing import loop

BROKEN_PIPE = Disconnected("[Errno 32] Broken pipe", server="podman.sock")
STARTING = {"Running": False, "Pid": 0, "ExitCode": None}
NOT_RUN = {"Running": False, "Pid": 0, "ExitCode": 126}


class ScriptedExecs:
    """An engine that says these about a command, one after the other."""

    def __init__(self, *said: dict[str, Any]) -> None:
        self.left = list(said)

    async def inspect_exec(self, identifier: str) -> dict[str, Any]:
        control_group = Path("/proc/self/cgroup").read_text().strip()  # noqa: ASYNC240 at once
        said = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        return {**said, "ContainerID": control_group}


async def silence() -> AsyncIterator[bytes]:
    nothing: tuple[bytes, ...] = ()
    for each in nothing:
        yield each


async def close_at_once(engine: ScriptedExecs) -> None:
    request = CommandRequest(("sleep", "4321"))
    command = ContainerCommand(
        engine,  # type: ignore[arg-type]
        "id",
        request,
        silence(),
        asyncio.Queue(),
        lambda: None,
    )
    await command.aclose()


@pytest.mark.parametrize("earlier", [0, 1, 20])
def test_a_command_that_starts_after_its_session_was_closed_is_ended(earlier: int) -> None:
    """docker answers before it has started the program."""
    with subprocess.Popen(["sleep", "4321"], start_new_session=True) as process:
        try:
            running = {"Running": True, "Pid": process.pid, "ExitCode": None}
            loop.run(close_at_once(ScriptedExecs(*[STARTING] * earlier, running)))
            assert process.wait(30) in (-signal.SIGHUP, -signal.SIGKILL)
        finally:
            process.kill()


def test_a_command_that_cannot_be_run_is_not_waited_for() -> None:
    engine = ScriptedExecs(STARTING, NOT_RUN, STARTING)
    loop.run(close_at_once(engine))
    assert engine.left == [STARTING]


def frame(channel: int, data: bytes) -> bytes:
    return bytes([channel, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


async def broken_off(*parts: bytes) -> AsyncIterator[bytes]:
    for each in parts:
        yield each
    raise BROKEN_PIPE


async def run_command(
    engine: ScriptedExecs, stream: AsyncIterator[bytes]
) -> tuple[list[tuple[int, bytes]], int]:
    request = CommandRequest(("head", "-1"), stdin=True)
    command = ContainerCommand(
        engine,  # type: ignore[arg-type]
        "id",
        request,
        stream,
        asyncio.Queue(),
        lambda: None,
    )
    return [each async for each in command], await command.exit_code()


def test_a_command_that_does_not_read_all_of_its_input_has_its_exit_code() -> None:
    noise = b"Error: write unixpacket @->/proc/self/fd/15/attach: write: connection reset by peer\n"
    stream = broken_off(frame(STDOUT, b"y\n"), frame(STDERR, noise))
    running, ended = {"Running": True}, {"Running": False, "ExitCode": 5}
    found = loop.run(run_command(ScriptedExecs(running, ended), stream))
    assert found == ([(STDOUT, b"y\n")], 5)


def test_a_command_that_is_not_there_is_named_although_its_input_was_refused() -> None:
    text = b'exec failed: unable to start container process: exec: "wc": not found'
    with pytest.raises(CommandFailed, match="its command cannot be run: wc: not found"):
        loop.run(run_command(ScriptedExecs(NOT_RUN), broken_off(frame(STDERR, text))))


def test_a_connection_that_is_lost_while_the_command_runs_fails_it() -> None:
    with pytest.raises(CommandFailed, match="and it runs on"):
        loop.run(run_command(ScriptedExecs({"Running": True}), broken_off()))


def test_processes_of_a_container_are_found_in_any_of_its_sessions() -> None:
    control_group = Path("/proc/self/cgroup").read_text().strip()
    with subprocess.Popen(["sleep", "4321"], start_new_session=True) as process:
        try:
            assert process.pid in session_processes(None, control_group)
            assert session_processes(process.pid, control_group) == [process.pid]
            assert session_processes(None, "of another container") == []
        finally:
            process.kill()
