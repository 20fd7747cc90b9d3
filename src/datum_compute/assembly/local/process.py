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
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

import datum_compute
from datum_compute.apiserver.http.listener import serve
from datum_compute.apiserver.storage.protocol import StoreDamaged, StoreRefused
from datum_compute.apiserver.worker.process import WorkerProcess
from datum_compute.assembly import event_loop
from datum_compute.assembly.local import cell_providers
from datum_compute.assembly.local.partitions import Partitions
from datum_compute.assembly.local.platform import LocalPlatform
from datum_compute.assembly.local.state import (
    DEFAULT_PORT,
    DEFAULT_ROUTER_PORT,
    AlreadyRunning,
    LocalSettings,
    RunningPlatform,
    StateDirectory,
    StateLost,
)
from datum_compute.assembly.logs import log_to_stderr
from datum_compute.client.transport import Handler
from datum_compute.env import Environment
from datum_compute.providers import registry
from datum_compute.router import Router, RouteTable
from datum_compute.runtime import fleet

ConsoleFactory = Callable[[Environment, Handler], AbstractAsyncContextManager[Handler]]
"""Serves the console on the requests of a platform, and gives what makes links to it."""

HOST = "127.0.0.1"
START_SECONDS = 60.0
"""How long a detached platform may take to be ready. A guess, far above the usual second."""
STOP_SECONDS = 15.0
LOOK_SECONDS = 2.0
"""Between two checks that the state directory is still there. A guess."""
POLL_SECONDS = 0.05
"""Between two checks of a platform that another process starts."""


class StartOutcome(StrEnum):
    READY = "Ready"
    HELD = "Held"
    """Another process holds the state directory."""
    PORT_TAKEN = "PortTaken"
    ROUTER_PORT_TAKEN = "RouterPortTaken"
    DAMAGED = "Damaged"
    """The stored file is not what was written."""
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class StartReport:
    """What a detached platform reports to the process that started it."""

    outcome: StartOutcome
    message: str = ""
    """Why it failed, for people."""

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decode(data: bytes) -> StartReport:
        """Raises ValueError where the writer ended before it reported."""
        found = json.loads(data)
        return StartReport(StartOutcome(found["outcome"]), found["message"])


class StartFailed(Exception):
    """The platform did not become ready; the message is the cause."""

    def __init__(self, report: StartReport) -> None:
        super().__init__(report.message)
        self.report = report


def run_in_foreground(
    env: Environment,
    state: StateDirectory,
    settings: LocalSettings,
    *,
    ready_fd: int | None = None,
    on_ready: Callable[[RunningPlatform], None],
    console: ConsoleFactory | None = None,
) -> None:
    """Run a platform until SIGTERM or Ctrl-C. Raises AlreadyRunning when another process does."""
    log_to_stderr()
    if ready_fd is None:
        silence_engagements()
    ready_pipe = _ReadyPipe(ready_fd)

    def ready(running: RunningPlatform) -> None:
        state.announce(running)
        if ready_fd is None:
            on_ready(running)
        ready_pipe.write(StartReport(StartOutcome.READY))

    try:
        with state.hold():
            event_loop.run(_run(env, state, settings, on_ready=ready, console=console))
    except AlreadyRunning:
        ready_pipe.write(StartReport(StartOutcome.HELD))
        raise
    except StateLost:
        raise  # long after the start
    except Exception as error:
        report = _failure_report(error, settings)
        ready_pipe.write(report)
        raise StartFailed(report) from error


def silence_engagements() -> None:
    """Every controller engages every cluster of the platform: a user who reads the log lines has
    no use for those."""
    logging.getLogger(fleet.__name__).setLevel(logging.WARNING)


class _ReadyPipe:
    """The pipe to the process that started this one; written once, then closed."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def write(self, report: StartReport) -> None:
        # Cleared first: the number may be reused for another file.
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            os.write(descriptor, report.encode())
            os.close(descriptor)
        except OSError:
            pass  # the reader has ended


class _RouterPortTaken(Exception):
    """Another process listens at the port of the router."""


def _failure_report(error: Exception, settings: LocalSettings) -> StartReport:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        message = f"port {settings.port} is taken by another process"
        return StartReport(StartOutcome.PORT_TAKEN, message)
    if isinstance(error, _RouterPortTaken):
        message = f"port {settings.router_port} of the router is taken by another process"
        return StartReport(StartOutcome.ROUTER_PORT_TAKEN, message)
    if isinstance(error, StoreDamaged):
        return StartReport(StartOutcome.DAMAGED, str(error))
    if isinstance(error, StoreRefused):
        return StartReport(StartOutcome.FAILED, str(error))
    if isinstance(error, OSError) and error.filename:
        return StartReport(StartOutcome.FAILED, f"{error.filename}: {error.strerror}")
    return StartReport(StartOutcome.FAILED, f"{type(error).__name__}: {error}")


async def _run(
    env: Environment,
    state: StateDirectory,
    settings: LocalSettings,
    *,
    on_ready: Callable[[RunningPlatform], None],
    console: ConsoleFactory | None,
) -> None:
    """A second signal may end the process at once: what was acknowledged is on disk."""
    stopping = asyncio.Event()
    serving = _serve(env, state, settings, on_ready=on_ready, console=console)
    main = asyncio.get_running_loop().create_task(serving, name="platform")

    def stop(_: signal.Signals) -> None:
        stopping.set()
        # Every watch and cluster would log its end now. Commands that end with the platform do.
        logging.getLogger().setLevel(logging.ERROR)
        logging.getLogger(cell_providers.__name__).setLevel(logging.INFO)
        main.cancel()

    event_loop.on_stop_signal(stop)
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
    console: ConsoleFactory | None,
) -> None:
    """Serve until cancelled, possibly before everything has started."""
    if state.settings() is None:  # a start that fails can be repeated with the same settings
        state.store_settings(replace(settings, port=0, router_port=0))
    partitions = Partitions(state.disconnected(), on_change=state.store_disconnected)
    async with AsyncExitStack() as stack:
        routes = RouteTable()
        router = Router(routes, unserved=registry.find(settings.runtime).unserved)
        # First, since the URLs that the platform writes have its port.
        router_port = await stack.enter_async_context(_serve_router(router, settings))
        settings = replace(settings, router_port=router_port)
        platform = LocalPlatform(
            env,
            state.database,
            settings,
            partitions=partitions,
            worker=WorkerProcess(),
            routes=routes,
        )
        await stack.enter_async_context(platform.run(admin_token=state.ensure_token(env)))
        ports = [settings.port] if settings.port else [DEFAULT_PORT, 0]
        port = await stack.enter_async_context(
            serve(platform.server, env, directory=state.path, host=HOST, ports=ports)
        )
        router.is_ready = True
        if console is not None:
            served = console(env, platform.server.handle)
            platform.console = await stack.enter_async_context(served)
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
        while not state.is_lost():  # noqa: ASYNC110 - a removal sets no event
            await asyncio.sleep(LOOK_SECONDS)
        # No command could find this process any more, and nothing it stores would be kept.
        raise StateLost(f"{state.path} was removed or replaced while the platform ran")


@asynccontextmanager
async def _serve_router(router: Router, settings: LocalSettings) -> AsyncIterator[int]:
    ports = [settings.router_port] if settings.router_port else [DEFAULT_ROUTER_PORT, 0]
    async with AsyncExitStack() as stack:
        try:
            port = await stack.enter_async_context(router.serve(HOST, ports))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise _RouterPortTaken from error
            raise
        yield port


def start_detached(env: Environment, state: StateDirectory, settings: LocalSettings) -> None:
    """Start a platform in another process and return when it is ready. One that does not become
    ready is stopped. Raises AlreadyRunning when another process holds the directory."""
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "datum_compute.cli", "local", "up"]
    command += ["--data-dir", str(state.path.absolute()), "--ready-fd", str(writing)]
    command += ["--cities", ",".join(settings.cities), "--project", settings.project]
    command += ["--grant", ",".join(f"{k}={v}" for k, v in sorted(settings.grant.items()))]
    command += ["--port", str(settings.port), "--router-port", str(settings.router_port)]
    command += ["--runtime", settings.runtime]
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
    report = None
    try:
        report = _read_report(reading, state)
    finally:
        os.close(reading)
        if report is None or report.outcome is not StartOutcome.READY:
            end_child(child)
    if report.outcome is StartOutcome.HELD:
        raise AlreadyRunning(str(state.path))
    if report.outcome is not StartOutcome.READY:
        raise StartFailed(report)


def end_child(child: subprocess.Popen[bytes], grace_seconds: float = STOP_SECONDS) -> None:
    """End a platform that did not become ready. On a busy machine it may not get to its own end
    in time; killing it loses nothing that it has acknowledged."""
    child.terminate()
    try:
        child.wait(grace_seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _read_report(reading: int, state: StateDirectory) -> StartReport:
    """The child's report; the last line of its log where it was killed before it reported."""
    readable, _, _ = select.select([reading], [], [], START_SECONDS)
    if not readable:
        return StartReport(StartOutcome.FAILED, f"not ready after {START_SECONDS:g}s")
    try:
        return StartReport.decode(os.read(reading, 4096))
    except ValueError:
        return StartReport(StartOutcome.FAILED, _last_line(state))


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
