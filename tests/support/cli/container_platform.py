"""A local platform whose instances are containers, and the person who uses it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from datum_compute.assembly.local.state import StateDirectory, platform_mark
from datum_compute.env import SystemEnvironment
from datum_compute.providers.container import host, sockets, spec
from datum_compute.providers.container.engine import ContainerEngine
from tests.support.cli.pseudo_terminal import Terminal


def wait_until(holds: Callable[[], bool], missing: str, seconds: float = 60.0) -> None:
    """Polls a real platform."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, missing
        time.sleep(0.2)


IMAGES = (host.BUSYBOX_IMAGE, host.BUSYBOX_IMAGE[:-1] + "2")
"""Two references to the image of the sample."""
UNKNOWN_USER = host.BUSYBOX_IMAGE[:-1] + "3"
"""The same, to be run as a user that is not in it."""


def load_images(engine: str) -> None:
    env = SystemEnvironment()
    busybox = host.static_busybox(env)
    assert busybox is not None
    first = host.build_busybox_image(busybox)

    async def load() -> None:
        path = await sockets.find_socket(env, engine)
        assert path is not None
        async with ContainerEngine(path) as opened:
            for reference in IMAGES:
                await opened.load(first.replace(IMAGES[0].encode(), reference.encode()))
            other = _run_as("nobody-here", first)
            await opened.load(other.replace(IMAGES[0].encode(), UNKNOWN_USER.encode()))

    asyncio.run(load())


def _run_as(user: str, archive: bytes) -> bytes:
    """The image with this user in its configuration."""
    changed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as old,
        tarfile.open(fileobj=changed, mode="w") as new,
    ):
        for member in old:
            file = old.extractfile(member)
            content = file.read() if file else b""
            if member.name.endswith(".json") and member.name != "manifest.json":
                found = json.loads(content)
                found["config"]["User"] = user
                content = json.dumps(found).encode()
            member.size = len(content)
            new.addfile(member, io.BytesIO(content))
    return changed.getvalue()


def answer(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/", timeout=5) as response:
        return str(response.read().decode())


def lasting_port() -> int:
    """One that no other platform takes while this one is down: neither a default port, nor one
    of those that the kernel gives away, from 32768 on."""
    chance = random.SystemRandom()
    while True:
        port = chance.randrange(20_000, 32_000)
        with contextlib.closing(socket.socket()) as found:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                found.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Person:
    """Types commands against one platform."""

    def __init__(self, engine: str, state: Path) -> None:
        self.engine = engine
        self.state = StateDirectory(state)
        self._ports = f"--port={lasting_port()}", f"--router-port={lasting_port()}"

    @property
    def environment(self) -> dict[str, str]:
        # The engine may be one of the test's own, on another socket than usual.
        named = ("DOCKER_HOST", "XDG_RUNTIME_DIR")
        given = {key: os.environ[key] for key in named if key in os.environ}
        return {"HOME": str(self.state.path.parent), "PATH": os.environ["PATH"], **given}

    def command(self, *words: str) -> list[str]:
        """The flags come first: what follows ``--`` belongs to another program."""
        directory = str(self.state.path)
        return [sys.executable, "-m", "datum_compute.cli", "--data-dir", directory, *words]

    def types(
        self, *words: str, timeout: float = 120, typed: str = ""
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words),
            input=typed,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env=self.environment,
        )

    def at_a_terminal(self, *words: str) -> Terminal:
        return Terminal(self.command(*words), self.environment)

    def succeeds(self, *words: str, timeout: float = 120) -> str:
        done = self.types(*words, timeout=timeout)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def start_words(self) -> tuple[str, ...]:
        cities = ("--cities", "DFW,LHR")
        return ("local", "up", "--detach", *cities, "--runtime", self.engine, *self._ports)

    def starts(self) -> None:
        self.succeeds(*self.start_words)

    def instances(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.succeeds("instances", "-o", "json"))
        return found

    def containers(self) -> list[dict[str, Any]]:
        return asyncio.run(self._ask(lambda engine: engine.containers(self._labels())))

    def networks(self) -> list[str]:
        found = asyncio.run(self._ask(lambda engine: engine.networks()))
        mark = self._labels()[spec.LABEL_PLATFORM]
        return [
            str(each["Name"])
            for each in found
            if (each.get("Labels") or {}).get(spec.LABEL_PLATFORM) == mark
        ]

    def remove_container(self, identifier: str) -> None:
        asyncio.run(self._ask(lambda engine: engine.remove(identifier)))

    def inspect(self, identifier: str) -> dict[str, Any]:
        return asyncio.run(self._ask(lambda engine: engine.inspect(identifier)))

    def process_of(self, identifier: str) -> int:
        return int(self.inspect(identifier)["State"]["Pid"])

    def kill_platform(self) -> None:
        pid = self.state.holder()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self.state.is_held(), "the killed platform holds its state")

    def _labels(self) -> dict[str, str]:
        return spec.platform_labels(platform_mark(self.state.database))

    async def _ask(self, question: Callable[[ContainerEngine], Any]) -> Any:
        path = await sockets.find_socket(SystemEnvironment(), self.engine)
        assert path is not None
        async with ContainerEngine(path) as engine:
            return await question(engine)
