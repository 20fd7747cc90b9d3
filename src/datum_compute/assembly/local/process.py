"""Runs a local platform in the foreground or detached, and stops it.

A detached platform reports that it is ready, or why it failed, on a pipe it inherited; the pipe
closes however the process ends.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import logging
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import uvloop

import datum_compute
from datum_compute.apiserver.http.listener import serve
from datum_compute.assembly.local.partitions import Partitions
from datum_compute.assembly.local.platform import LocalPlatform
from datum_compute.assembly.local.state import (
    DEFAULT_PORT,
    AlreadyRunning,
    LocalSettings,
    RunningPlatform,
    StateDirectory,
)
from datum_compute.assembly.logs import log_to_stderr
from datum_compute.env import Environment

HOST = "127.0.0.1"
START_SECONDS = 60.0
"""How long a detached platform may take to be ready. A guess, far above the usual second."""
STOP_SECONDS = 15.0
POLL_SECONDS = 0.05
"""Between two checks of a platform that another process starts."""
GC_THRESHOLDS = (50_000, 20, 100)
"""Objects live long here; the collector's defaults made filling a cache 4 to 5 times slower."""


class StartFailed(Exception):
    """The platform did not become ready; the message is the cause."""


class PortTaken(StartFailed): ...


def run_in_foreground(
    env: Environment,
    state: StateDirectory,
    settings: LocalSettings,
    *,
    ready_fd: int | None = None,
    on_ready: Callable[[RunningPlatform], None],
) -> None:
    """Run a platform until SIGTERM or Ctrl-C. Raises AlreadyRunning when another process does."""
    log_to_stderr()
    gc.set_threshold(*GC_THRESHOLDS)

    ready_pipe = _ReadyPipe(ready_fd)

    def ready(running: RunningPlatform) -> None:
        state.announce(running)
        if ready_fd is None:
            on_ready(running)
        ready_pipe.report(READY)

    try:
        with state.hold(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(env, state, settings, on_ready=ready))
    except AlreadyRunning:
        ready_pipe.report(HELD)
        raise
    except Exception as error:
        failed = _start_failure(error, settings)
        report = {"reason": type(failed).__name__, "message": str(failed)}
        ready_pipe.report(json.dumps(report).encode())
        raise failed from error


READY, HELD = b"ready\n", b"held\n"


class _ReadyPipe:
    """The pipe to the process that started this one; written once, then closed."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def report(self, message: bytes) -> None:
        # Cleared first: the number may be reused for another file.
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            os.write(descriptor, message)
            os.close(descriptor)
        except OSError:
            pass  # the reader has ended


def _start_failure(error: Exception, settings: LocalSettings) -> StartFailed:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return PortTaken(f"port {settings.port} is taken by another process")
    if isinstance(error, OSError) and error.filename:
        return StartFailed(f"{error.filename}: {error.strerror}")
    return StartFailed(f"{type(error).__name__}: {error}")


async def _run(
    env: Environment,
    state: StateDirectory,
    settings: LocalSettings,
    *,
    on_ready: Callable[[RunningPlatform], None],
) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    main = loop.create_task(_serve(env, state, settings, on_ready=on_ready), name="platform")

    def stop(number: int) -> None:
        if stopping.is_set():
            # A second signal: what was acknowledged is on disk.
            os._exit(128 + number)
        stopping.set()
        # Every watch and cluster would log its end now.
        logging.getLogger().setLevel(logging.ERROR)
        main.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    try:
        await main
    except asyncio.CancelledError:
        if not stopping.is_set():
            raise


async def _serve(
    env: Environment,
    state: StateDirectory,
    settings: LocalSettings,
    *,
    on_ready: Callable[[RunningPlatform], None],
) -> None:
    """Serve until cancelled, possibly before everything has started."""
    partitions = Partitions(state.disconnected(), on_change=state.store_disconnected)
    platform = LocalPlatform(env, state.database, settings, partitions=partitions)
    async with platform.run(admin_token=state.ensure_token(env)):
        ports = [settings.port] if settings.port else [DEFAULT_PORT, 0]
        async with serve(
            platform.server, env, directory=state.path, host=HOST, ports=ports
        ) as port:
            state.store_settings(replace(settings, port=port))
            gc.freeze()
            on_ready(
                RunningPlatform(
                    pid=os.getpid(),
                    address=f"https://{HOST}:{port}",
                    project=settings.project,
                    started_at=env.now().isoformat(timespec="seconds"),
                )
            )
            await asyncio.Event().wait()


def start_detached(env: Environment, state: StateDirectory, settings: LocalSettings) -> None:
    """Start a platform in another process and return when it is ready. One that does not become
    ready is stopped. Raises AlreadyRunning when another process holds the directory."""
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "datum_compute.cli", "local", "up"]
    command += ["--data-dir", str(state.path.absolute()), "--ready-fd", str(writing)]
    command += ["--cities", ",".join(settings.cities), "--project", settings.project]
    command += ["--grant", ",".join(f"{k}={v}" for k, v in sorted(settings.grant.items()))]
    command += ["--port", str(settings.port), "--runtime", settings.runtime]
    try:
        with state.log.open("ab") as log:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # `-m` searches here first, so the child runs this same copy of the product,
                # installed or unpacked; and the caller's directory can be removed meanwhile.
                cwd=Path(datum_compute.__file__).parents[1],
                pass_fds=(writing,),
                start_new_session=True,
            )
    finally:
        os.close(writing)
    report = b""
    try:
        report = _read_report(reading)
    finally:
        os.close(reading)
        if report != READY:
            child.terminate()
            child.wait(STOP_SECONDS)
    if report == HELD:
        raise AlreadyRunning(str(state.path))
    if report != READY:
        raise _reported_failure(report, state)


def _reported_failure(report: bytes, state: StateDirectory) -> StartFailed:
    """The failure a child reported; the last line of its log where it was killed."""
    try:
        found = json.loads(report)
    except ValueError:
        return StartFailed(_last_line(state))
    kind = PortTaken if found["reason"] == PortTaken.__name__ else StartFailed
    return kind(found["message"])


def _read_report(reading: int) -> bytes:
    """The child's report, before it closes the pipe or the deadline passes."""
    readable, _, _ = select.select([reading], [], [], START_SECONDS)
    late = {"reason": "StartFailed", "message": f"not ready after {START_SECONDS:g}s"}
    return os.read(reading, 4096) if readable else json.dumps(late).encode()


def wait_until_running(state: StateDirectory) -> RunningPlatform | None:
    """The platform that another process is starting, once it is ready; None when it ends
    instead, or takes too long."""
    for _ in range(int(START_SECONDS / POLL_SECONDS)):
        running = state.running()
        if running is not None or not state.is_held():
            return running
        select.select([], [], [], POLL_SECONDS)
    return None


def _last_line(state: StateDirectory) -> str:
    lines = state.log.read_text(errors="replace").splitlines()
    return lines[-1] if lines else "its log is empty"


def stop(state: StateDirectory, pid: int) -> bool:
    """Stop a platform; True when it has released its directory."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return not state.is_held()
    try:
        os.kill(pid, signal.SIGTERM)
        select.select([watched], [], [], STOP_SECONDS)
    finally:
        os.close(watched)
    return not state.is_held()
