"""A local platform as a process: run it here, start it apart, and stop it.

A detached platform tells the one who started it that it is ready, or why it failed, by
writing to a pipe it inherited; however it ends, the pipe closes.
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
LOOK_SECONDS = 0.05
"""Between two looks at a platform that somebody else starts."""
GC_THRESHOLDS = (50_000, 20, 100)
"""Objects live long here; the collector's defaults made filling a cache 4 to 5 times slower."""


class StartFailed(Exception):
    """The platform did not become ready; the message says why."""


class PortTaken(StartFailed): ...


def run_in_foreground(
    env: Environment,
    state: StateDirectory,
    settings: LocalSettings,
    *,
    ready_fd: int | None = None,
    on_ready: Callable[[RunningPlatform], None],
) -> None:
    """Run a platform until SIGTERM or Ctrl-C; AlreadyRunning when somebody else does."""
    log_to_stderr()
    gc.set_threshold(*GC_THRESHOLDS)

    starter = _Starter(ready_fd)

    def ready(running: RunningPlatform) -> None:
        state.announce(running)
        if ready_fd is None:
            on_ready(running)
        starter.tell(READY)

    try:
        with state.hold(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(env, state, settings, on_ready=ready))
    except AlreadyRunning:
        starter.tell(HELD)
        raise
    except Exception as error:
        failed = _start_failure(error, settings)
        report = {"reason": type(failed).__name__, "message": str(failed)}
        starter.tell(json.dumps(report).encode())
        raise failed from error


READY, HELD = b"ready\n", b"held\n"


class _Starter:
    """Who started us and waits at the other end of a pipe; told once, then let go."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def tell(self, message: bytes) -> None:
        # Forgotten first: its number may soon be that of another file.
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            os.write(descriptor, message)
            os.close(descriptor)
        except OSError:
            pass  # nobody waits any more


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
            # Asked again: what was acknowledged is on the disk, the rest may go as it is.
            os._exit(128 + number)
        stopping.set()
        # Every watch and cluster would report its end now; nobody asked for that.
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
    """Until cancelled, which may be before all of it has started."""
    cuts = Partitions(state.disconnected(), on_change=state.store_disconnected)
    platform = LocalPlatform(env, state.database, settings, partitions=cuts)
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
    """Start a platform in a process of its own and return when it is ready; AlreadyRunning
    when another was faster. One that does not become ready is not left behind."""
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "datum_compute.cli", "local", "up"]
    command += ["--data-dir", str(state.path.absolute()), "--ready-fd", str(writing)]
    command += ["--cities", ",".join(settings.cities), "--project", settings.project]
    command += ["--grant", ",".join(f"{k}={v}" for k, v in sorted(settings.grant.items()))]
    command += ["--port", str(settings.port)]
    try:
        with state.log.open("ab") as log:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # `-m` looks here first, so the child runs this same copy of the product, be it
                # installed or unpacked; and the platform keeps nobody's directory busy.
                cwd=Path(datum_compute.__file__).parents[1],
                pass_fds=(writing,),
                start_new_session=True,
            )
    finally:
        os.close(writing)
    told = b""
    try:
        told = _told(reading)
    finally:
        os.close(reading)
        if told != READY:
            child.terminate()
            child.wait(STOP_SECONDS)
    if told == HELD:
        raise AlreadyRunning(str(state.path))
    if told != READY:
        raise _reported_failure(told, state)


def _reported_failure(report: bytes, state: StateDirectory) -> StartFailed:
    """The failure a child reports. One that was killed reports nothing: its log may."""
    try:
        found = json.loads(report)
    except ValueError:
        return StartFailed(_last_line(state))
    kind = PortTaken if found["reason"] == PortTaken.__name__ else StartFailed
    return kind(found["message"])


def _told(reading: int) -> bytes:
    """What the child reports before it closes the pipe or its time is up."""
    readable, _, _ = select.select([reading], [], [], START_SECONDS)
    late = {"reason": "StartFailed", "message": f"not ready in {START_SECONDS:g} s"}
    return os.read(reading, 4096) if readable else json.dumps(late).encode()


def wait_until_running(state: StateDirectory) -> RunningPlatform | None:
    """The platform that another process is starting at this moment, once it is ready; None
    when it ends instead, or takes too long."""
    for _ in range(int(START_SECONDS / LOOK_SECONDS)):
        running = state.running()
        if running is not None or not state.is_held():
            return running
        select.select([], [], [], LOOK_SECONDS)
    return None


def _last_line(state: StateDirectory) -> str:
    lines = state.log.read_text(errors="replace").splitlines()
    return lines[-1] if lines else "it said nothing"


def stop(state: StateDirectory, pid: int) -> bool:
    """Ask a platform to stop; True when it has let go of its directory."""
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
