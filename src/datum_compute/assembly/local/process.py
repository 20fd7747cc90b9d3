"""A local platform as a process: run it here, start it apart, and stop it.

A detached platform tells the one who started it that it is ready by writing a line to a
pipe it inherited; when it fails, the pipe closes instead. Nobody polls.
"""

from __future__ import annotations

import asyncio
import gc
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
from datum_compute.platform.apiserver.serve import serve

HOST = "127.0.0.1"
START_SECONDS = 60.0
"""How long a detached platform may take to be ready. A guess, far above the usual second."""
STOP_SECONDS = 15.0
GC_THRESHOLDS = (50_000, 20, 100)
"""Objects live long here; the collector's defaults made filling a cache 4 to 5 times slower."""


class StartFailed(Exception):
    """The platform did not become ready; the message says why."""


def run_in_foreground(
    env: Environment,
    state: StateDirectory,
    settings: LocalSettings,
    *,
    ready_fd: int | None = None,
    on_ready: Callable[[RunningPlatform], None],
) -> None:
    """Run a platform until SIGTERM or Ctrl-C."""
    log_to_stderr()
    gc.set_threshold(*GC_THRESHOLDS)

    def ready(running: RunningPlatform) -> None:
        state.announce(running)
        if ready_fd is None:
            on_ready(running)
        else:
            os.write(ready_fd, b"ready\n")
            os.close(ready_fd)

    try:
        with state.hold(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(env, state, settings, on_ready=ready))
    except AlreadyRunning:
        raise StartFailed(f"another process holds {state.path}") from None


async def _run(
    env: Environment,
    state: StateDirectory,
    settings: LocalSettings,
    *,
    on_ready: Callable[[RunningPlatform], None],
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    platform = LocalPlatform(env, state.database, settings)
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
            await stop.wait()


def start_detached(env: Environment, state: StateDirectory, settings: LocalSettings) -> None:
    """Start a platform in a process of its own and return when it is ready."""
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "datum_compute.cli", "local", "up"]
    command += ["--data-dir", str(state.path.absolute()), "--ready-fd", str(writing)]
    command += ["--cities", ",".join(settings.cities), "--project", settings.project]
    command += ["--grant", ",".join(f"{k}={v}" for k, v in sorted(settings.grant.items()))]
    command += ["--port", str(settings.port)]
    with state.log.open("ab") as log:
        subprocess.Popen(
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
    os.close(writing)
    readable, _, _ = select.select([reading], [], [], START_SECONDS)
    told = os.read(reading, 16) if readable else b""
    os.close(reading)
    if told != b"ready\n":
        raise StartFailed(f"the platform did not start: {_last_line(state)}")


def _last_line(state: StateDirectory) -> str:
    lines = state.log.read_text(errors="replace").splitlines()
    return lines[-1] if lines else "it said nothing"


def stop(state: StateDirectory, running: RunningPlatform) -> bool:
    """Ask a platform to stop; True when it has let go of its directory."""
    try:
        watched = os.pidfd_open(running.pid)
    except ProcessLookupError:
        return not state.is_held()
    try:
        os.kill(running.pid, signal.SIGTERM)
        select.select([watched], [], [], STOP_SECONDS)
    finally:
        os.close(watched)
    return not state.is_held()
