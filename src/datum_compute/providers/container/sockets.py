"""Where the container engine answers.

In this order: ``DOCKER_HOST``, the user's podman socket, the system's podman socket, docker's.
Where only the program ``podman`` is there, it serves a socket of ours; it ends by itself some
time after the last connection, and is started again when it is needed.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from datum_compute.env import Environment
from datum_compute.providers.container.engine import (
    ContainerEngine,
    EngineRefused,
    EngineUnreachable,
)
from datum_compute.providers.container.spec import HostLimits

SYSTEMD = Path("/run/systemd/system")
"""There on a host that systemd manages."""
PODMAN = "podman"

SERVICE_SECONDS = 10.0
"""How long podman may take until it serves its socket; usually a tenth of a second."""
IDLE_SECONDS = 120
"""How long podman serves its socket after the last connection has ended."""
PING_SECONDS = 5.0
POLL_SECONDS = 0.05
MOST_OPEN_FILES = 1_048_576
MOST_PROCESSES = 16_384
"""podman lowers its own limit, seen at 32,768, and cannot give a container more than that."""

CONFIGURATION = """\
[containers]
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
"""For a host without systemd, whose journal and control groups podman uses by default."""


def candidates(env: Environment, engine: str) -> list[str]:
    """The sockets on which this engine may answer, in the order they are tried. Where
    ``DOCKER_HOST`` names one, docker is looked for there alone, as by its own command line."""
    given = env.variable("DOCKER_HOST") or ""
    found = [given.removeprefix("unix://")] if given.startswith("unix://") else []
    if engine == PODMAN:
        if runtime := env.variable("XDG_RUNTIME_DIR"):
            found.append(f"{runtime}/podman/podman.sock")
        found += ["/run/podman/podman.sock", own_socket(env)]
    elif not found:
        found.append("/var/run/docker.sock")
    return list(dict.fromkeys(found))


def own_socket(env: Environment) -> str:
    """The socket that podman serves for us."""
    directory = env.variable("XDG_RUNTIME_DIR") or ("/run" if os.geteuid() == 0 else "/tmp")
    return f"{directory}/datum-compute-{os.geteuid()}/podman.sock"


async def answers(socket: str, engine: str) -> bool:
    """Whether this engine answers on this socket."""
    if not os.path.exists(socket):  # noqa: ASYNC240 a local file, at once
        return False
    try:
        async with asyncio.timeout(PING_SECONDS), ContainerEngine(socket) as opened:
            return await opened.is_podman() == (engine == PODMAN)
    except (EngineUnreachable, EngineRefused, TimeoutError):
        return False


async def find_socket(env: Environment, engine: str) -> str | None:
    """The socket on which the engine answers; podman is started where only its program is there."""
    for socket in candidates(env, engine):
        if await answers(socket, engine):
            return socket
    if engine == PODMAN and shutil.which(PODMAN, path=env.variable("PATH") or ""):
        socket = own_socket(env)
        return socket if await serve_podman(env, socket) else None
    return None


async def serve_podman(env: Environment, socket: str) -> bool:
    """Have podman serve this socket, unless another process already does; whether it answers."""
    directory = Path(socket).parent
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    deadline = asyncio.get_running_loop().time() + SERVICE_SECONDS
    with _lock_file(directory / "lock") as lock:
        # Two cells that miss the service at once start one.
        spawned = False
        while asyncio.get_running_loop().time() < deadline:
            if await answers(socket, PODMAN):
                return True
            if not spawned and _is_locked(lock):
                _spawn(directory, socket, env.variables())
                spawned = True
            await asyncio.sleep(POLL_SECONDS)
    return False


def _spawn(directory: Path, socket: str, variables: dict[str, str]) -> None:
    if not SYSTEMD.exists() and "CONTAINERS_CONF" not in variables:
        configuration = directory / "containers.conf"
        configuration.write_text(CONFIGURATION)
        variables = {**variables, "CONTAINERS_CONF": str(configuration)}
    service = [PODMAN, "system", "service", f"--time={IDLE_SECONDS}", f"unix://{socket}"]
    with (directory / "podman.log").open("ab") as log:
        # A child of the shell's, which ends: the service outlives this process, as containers do.
        subprocess.run(
            ["/bin/sh", "-c", '"$0" "$@" &', *service],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=with_system_programs(variables),
            cwd=directory,  # conmon leaves files where it runs
            start_new_session=True,
        )


def with_system_programs(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables with a PATH on which podman finds iptables: shells of ordinary users and of
    services often leave those directories out."""
    path = variables.get("PATH", "").split(":")
    missing = [each for each in ("/usr/sbin", "/sbin") if each not in path]
    return {**variables, "PATH": ":".join([*filter(None, path), *missing])}


@contextmanager
def _lock_file(path: Path) -> Iterator[int]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)


def _is_locked(handle: int) -> bool:
    """Whether this process got the lock. It never waits for it: that would stop the loop."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class EngineConnection:
    """The engine wherever it answers; called, it is the client."""

    def __init__(self, env: Environment, engine: str) -> None:
        self._env = env
        self._name = engine
        self._opened: ContainerEngine | None = None

    def __call__(self) -> ContainerEngine:
        if self._opened is None:
            raise EngineUnreachable("no socket of it answers")
        return self._opened

    async def open(self) -> None:
        """Find the engine, which may answer on another socket than before. podman's service is
        started again where it is ours."""
        socket = await find_socket(self._env, self._name)
        if socket is None or (self._opened is not None and self._opened.socket == socket):
            return
        await self.close()
        self._opened = await ContainerEngine(socket).__aenter__()

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.__aexit__()


def limits_of_this_host(engine: str) -> HostLimits:
    """podman's defaults exceed what a host without CAP_SYS_RESOURCE may set, so containers get
    the limits of this process; docker needs none."""
    if engine != PODMAN:
        return HostLimits()
    files, processes = (
        resource.getrlimit(which)[1] for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)
    )
    return HostLimits(_at_most(MOST_OPEN_FILES, files), _at_most(MOST_PROCESSES, processes))


def _at_most(most: int, limit: int) -> int:
    return most if limit == resource.RLIM_INFINITY else min(most, limit)
