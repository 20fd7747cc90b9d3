"""The state directory of a local platform.

::

    settings.json    the settings of the first `local up`; later ones keep them
    state.db         every plane, on one SQLite file
    state.db-head    the last acknowledged commit; it is there once anything was stored
    damaged-…        what a repair replaced, one directory each
    ca.crt ca.key server.crt server.key
    disconnected.json  disconnected cells; they stay so after a restart
    token            the token of local-admin, 0600; the server keeps only its hash
    lock             held (flock) by the running platform; contains its pid
    platform.json    pid, address and start time of the one that holds the lock
    platform.log     output of a detached platform
    kubeconfig       for the project, with the token of local-admin, 0600

A platform runs while the lock is held. The kernel releases it however the process ends, so a
file left by ``kill -9`` does no harm.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from datum_compute.api.planes import CELL, HUB, ROOT
from datum_compute.apiserver import storage
from datum_compute.assembly.local import state_reader
from datum_compute.assembly.local.state_reader import RunningPlatform, StateUnusable
from datum_compute.env import Environment
from datum_compute.providers.registry import providers_of

__all__ = [
    "AlreadyRunning",
    "LocalSettings",
    "RunningPlatform",
    "StateDirectory",
    "StateUnusable",
    "default_directory",
    "platform_mark",
]

DEFAULT_PORT = 7443
DEFAULT_ROUTER_PORT = 7480
DEFAULT_GRANT = {"instances": 100, "vcpus": 400_000, "memory": 819_200}
"""What the demo project may use, in base units: instances, millicores, MiB."""


_FILES = (
    "state.db",
    "state.db-wal",
    "state.db-shm",
    "state.db-head",
    "settings.json",
    "disconnected.json",
    "platform.json",
    "platform.log",
    "token",
    "kubeconfig",
    "ca.crt",
    "ca.key",
    "server.crt",
    "server.key",
)
"""Every file of a platform except the lock."""

_DAMAGED = "damaged-"
"""How the directories begin that hold what a repair replaced."""


@dataclass(frozen=True)
class LocalSettings:
    """The settings of the first ``local up``."""

    cities: tuple[str, ...] = ("DFW", "IAD", "LHR")
    """City codes in upper case; each gets one cell named by its lower-case form."""
    project: str = "demo"
    port: int = 0
    """The port of the API; 0 until the first start has found a free one."""
    router_port: int = 0
    """The port at which workloads are opened; 0 as above."""
    grant: dict[str, int] = field(default_factory=lambda: dict(DEFAULT_GRANT))
    approval_by_hand: bool = False
    """Whether entitlement requests wait for a person; otherwise all are approved."""
    activation_seconds: float = 0.0
    """How long after a request it is approved."""
    propagation_max_delay: float = 10.0
    """How many seconds late at most a change arrives in a cell that was unreachable; Karmada's
    ``--rate-limiter-max-delay``."""
    runtime: str = "simulated"
    """The provider that runs Instances."""
    runtime_settings: dict[str, str] = field(default_factory=dict)
    """What the provider is set to, by the names in its record."""
    storage: str = "sqlite"
    """The engine that keeps the planes; one of ``apiserver.storage.ENGINES``."""

    @property
    def cells(self) -> tuple[str, ...]:
        return tuple(city.lower() for city in self.cities)

    @property
    def planes(self) -> tuple[str, ...]:
        """The planes there are from the start; a project's is created with the project."""
        return (ROOT.plane(), HUB.plane(), *map(CELL.plane, self.cells))


def platform_mark(database: Path | str) -> str:
    """What containers and networks of the platform with this database carry."""
    return hashlib.sha256(str(Path(database).absolute()).encode()).hexdigest()[:12]


def default_directory(env: Environment) -> Path:
    return Path(state_reader.default_directory(env))


class AlreadyRunning(Exception):
    """Another process holds the state directory."""


class StateDirectory(state_reader.StateReader):
    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path

    @property
    def database(self) -> Path:
        return self.path / "state.db"

    @property
    def certificate_authority(self) -> Path:
        return self.path / "ca.crt"

    @property
    def log(self) -> Path:
        return self.path / "platform.log"

    def create(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.path.chmod(0o700)
        except OSError as error:
            raise StateUnusable(f"{self.path}: {error.strerror}") from error

    @property
    def kubeconfig(self) -> Path:
        return self.path / "kubeconfig"

    def store_kubeconfig(self, text: str) -> None:
        self._write_bytes("kubeconfig", text.encode())

    def settings(self) -> LocalSettings | None:
        """What an earlier ``local up`` stored, or None before the first. Raises StateUnusable for
        settings that cannot be read: others would run other cities on the same state."""
        stored = self._object("settings.json")
        if stored is None:
            return None
        known = {f.name for f in fields(LocalSettings)}
        values = {key: value for key, value in stored.items() if key in known}
        try:
            return _checked_settings(values)
        except (AttributeError, TypeError, ValueError) as error:
            raise StateUnusable(f"{self.path / 'settings.json'} is damaged: {error}") from error

    def store_settings(self, settings: LocalSettings) -> None:
        self._write("settings.json", asdict(settings))

    def disconnected(self) -> list[str]:
        """The disconnected cells."""
        cells = (self._object("disconnected.json") or {}).get("cells")
        return [str(cell) for cell in cells] if isinstance(cells, list) else []

    def store_disconnected(self, cells: list[str]) -> None:
        self._write("disconnected.json", {"cells": cells})

    def ensure_token(self, env: Environment) -> str:
        token = self.token()
        if token is None:
            token = env.new_token()
            self._write_bytes("token", token.encode() + b"\n")
        return token

    def holder(self) -> int | None:
        """The pid of the process that holds this directory."""
        if not self.is_held():
            return None
        text = self.text("lock").strip()
        return int(text) if text.isascii() and text.isdecimal() else None

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the directory for as long as the platform runs, or raise AlreadyRunning."""
        try:
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StateUnusable(f"{self.path}: {error.strerror}") from error
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise AlreadyRunning(str(self.path)) from None
            os.ftruncate(handle, 0)
            os.write(handle, f"{os.getpid()}\n".encode())
            self._remove("platform.json")
            yield
            self._remove("platform.json")
        finally:
            os.close(handle)

    def has_state(self) -> bool:
        return any((self.path / name).exists() for name in _FILES)

    def reset(self) -> None:
        """Delete every file of a platform that is not running. Other files stay, in case the
        directory was given by mistake."""
        with self.hold():
            for name in _FILES:
                self._remove(name)
                self._remove(f".{name}.new")
            for copy in self.path.glob(f"{_DAMAGED}*"):
                shutil.rmtree(copy)

    def kept_damage(self, now: datetime) -> Path:
        """The directory for what a repair at this time replaces."""
        return self.path / f"{_DAMAGED}{now:%Y%m%dT%H%M%SZ}"

    def announce(self, running: RunningPlatform) -> None:
        self._write("platform.json", running._asdict())

    def _object(self, name: str) -> dict[str, Any] | None:
        """A file that holds a JSON object; None if there is none. Raises StateUnusable if it holds
        anything else."""
        found = self.read(name)
        if found is None and (self.path / name).exists():
            raise StateUnusable(f"{self.path / name} is damaged: it does not hold a JSON object")
        return found

    def _remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def _write(self, name: str, value: dict[str, Any]) -> None:
        self._write_bytes(name, json.dumps(value, indent=2).encode() + b"\n")

    def _write_bytes(self, name: str, content: bytes) -> None:
        """Replace a file atomically."""
        temporary = self.path / f".{name}.new"
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path / name)


def _checked_settings(values: dict[str, Any]) -> LocalSettings:
    """Raises TypeError or ValueError for a value that is missing or of the wrong type."""
    if "cities" not in values:
        raise ValueError("cities is missing")
    settings = LocalSettings(**values)
    cities = tuple(settings.cities)
    if not cities or not all(isinstance(city, str) for city in cities):
        raise ValueError("cities is not a list of codes")
    if not isinstance(settings.port, int) or not isinstance(settings.project, str):
        raise ValueError("port is not a number, or project is not a string")
    if not isinstance(settings.router_port, int):
        raise ValueError("router_port is not a number")
    if not all(isinstance(amount, int) for amount in settings.grant.values()):
        raise ValueError("grant does not hold numbers")
    if not isinstance(settings.activation_seconds, int | float):
        raise ValueError("activation_seconds is not a number")
    if not isinstance(settings.propagation_max_delay, int | float):
        raise ValueError("propagation_max_delay is not a number")
    if not isinstance(settings.approval_by_hand, bool):
        raise ValueError("approval_by_hand is neither true nor false")
    runtimes = {each.name: each for each in providers_of("local")}
    if settings.runtime not in runtimes:
        raise ValueError(f"runtime is none of {', '.join(runtimes)}")
    if unknown := settings.runtime_settings.keys() - runtimes[settings.runtime].settings:
        raise ValueError(f"runtime {settings.runtime} has no setting {', '.join(sorted(unknown))}")
    if not all(isinstance(value, str) for value in settings.runtime_settings.values()):
        raise ValueError("runtime_settings does not hold texts")
    if settings.storage not in storage.ENGINES:
        raise ValueError(f"storage is none of {', '.join(storage.ENGINES)}")
    return replace(settings, cities=cities, grant={**DEFAULT_GRANT, **settings.grant})
