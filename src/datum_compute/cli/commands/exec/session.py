"""A command in an instance, attached to the streams of this process.

With a terminal its keys go to the command as they are typed, Ctrl-C included, and its size
follows. The terminal is put back on every way out: the end of the command, a lost connection,
SIGTERM and SIGHUP. Writing blocks: that is what makes a slow reader slow down the command.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TextIO

from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError
from datum_compute.cli.explain.client_errors import not_offered
from datum_compute.cli.explain.suggestions import command
from datum_compute.cli.tables import INSTANCES, NAMESPACE
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.remote_command import (
    STDERR,
    CommandFailed,
    CommandRequest,
    RemoteCommand,
    start_command,
)

READ_BYTES = 32 * 1024
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def run_command(context: Context, instance: dict[str, Any], request: CommandRequest) -> int:
    """The command's exit code. Raises ``CommandError`` where it cannot be run to its end."""
    name = str(instance["metadata"]["name"])

    async def start(client: ApiClient) -> RemoteCommand:
        return await start_command(client, INSTANCES, name, NAMESPACE, request, context.env)

    async def attach(_: ApiClient) -> int:
        try:
            return await _attach(context, running, request)
        finally:
            await running.aclose()

    session = context.open_session()
    try:
        running = session.run(start)
        # Around the loop: a signal that ends it leaves its tasks as they are.
        with _raw_terminal(context.streams.stdin, request.tty and request.stdin):
            return session.run(attach)
    except CommandFailed as error:
        raise CommandError(f'instance "{name}": {error}', code="CommandFailed") from error
    except errors.Conflict as error:
        raise CommandError(error.detail, command("why", name), code="NotRunning") from error
    except (errors.NotServed, errors.NotFound, errors.Unsupported, errors.ServerError) as error:
        raise not_offered(error, "commands in instances", instance, ("exec", "-it")) from error


async def _attach(context: Context, running: RemoteCommand, request: CommandRequest) -> int:
    loop = asyncio.get_running_loop()
    streams = context.streams
    async with _resized(running, streams.stdin, request.tty):
        reader = loop.create_task(_pass_input(running, streams.stdin)) if request.stdin else None
        try:
            async for channel, data in running:
                _write(streams.stderr if channel == STDERR else streams.stdout, data)
        finally:
            if reader is not None:
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)
    return await running.exit_code()


async def _pass_input(running: RemoteCommand, stdin: TextIO) -> None:
    descriptor = _descriptor(stdin)
    if descriptor is None:
        await running.send(stdin.read().encode())
        await running.end_input()
        return
    while True:
        await _readable(descriptor)
        try:
            data = os.read(descriptor, READ_BYTES)
        except OSError:  # the terminal is gone
            data = b""
        if not data:
            await running.end_input()
            return
        await running.send(data)


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    try:
        loop.add_reader(descriptor, wake)
    except PermissionError:  # a file, which always is
        await asyncio.sleep(0)
        return
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


def _write(stream: TextIO, data: bytes) -> None:
    binary = getattr(stream, "buffer", None)
    if binary is None:
        stream.write(data.decode(errors="replace"))
    else:
        binary.write(data)
    stream.flush()


def _descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError):  # not a file of the system's
        return None


@contextmanager
def _raw_terminal(stdin: TextIO, wanted: bool) -> Iterator[None]:
    descriptor = _descriptor(stdin)
    if not wanted or descriptor is None:
        yield
        return
    saved = termios.tcgetattr(descriptor)
    before = {number: signal.signal(number, _exit_by_signal) for number in ENDING_SIGNALS}
    try:
        tty.setraw(descriptor, termios.TCSANOW)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, saved)
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit_by_signal(number: int, frame: object) -> None:
    """An exception also where output blocks, so that the terminal is put back."""
    sys.exit(128 + number)


@asynccontextmanager
async def _resized(running: RemoteCommand, stdin: TextIO, wanted: bool) -> AsyncIterator[None]:
    """The command's terminal is as large as this one, and stays so."""
    descriptor = _descriptor(stdin)
    if not wanted or descriptor is None:
        yield
        return
    loop = asyncio.get_running_loop()
    changed = asyncio.Event()
    changed.set()

    async def follow() -> None:
        while await changed.wait():
            changed.clear()
            await running.resize(*os.get_terminal_size(descriptor))

    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    follower = loop.create_task(follow())
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
        follower.cancel()
        await asyncio.gather(follower, return_exceptions=True)
