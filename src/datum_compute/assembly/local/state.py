"""The state directory of a local platform.

::

    settings.json    the settings of the first `local up`; later ones keep them
    state.db         every plane, on one SQLite file; the engine may keep others beside it
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
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from datum_compute.api.planes import CELL, HUB, ROOT
from datum_compute.apiserver import storage
from datum_compute.assembly.local import state_reader
from datum_compute.assembly.local.state_reader import (
    DISCONNECTED,
    RunningPlatform,
    StateUnusable,
)
from datum_compute.env import Environment
from datum_compute.providers.registry import providers_of

__all__ = [
    "AlreadyRunning",
    "LocalSettings",
    "RunningPlatform",
    "SettingsDamaged",
    "StateDirectory",
    "StateLost",
    "StateUnusable",
    "default_directory",
    "platform_mark",
]

DEFAULT_PORT = 7443
DEFAULT_ROUTER_PORT = 7480
DEFAULT_GRANT = {"instances": 100, "vcpus": 400_000, "memory": 819_200}
"""What the demo project may use, in base units: instances, millicores, MiB."""


_STORE = "state.db"

_FILES = (
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
"""Every file of a platform except the lock and those of its store."""

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


class DamagedFile(StateUnusable):
    """A file does not hold a JSON object."""


class SettingsDamaged(StateUnusable):
    """``settings.json`` is not what a platform wrote; the message has what was found."""


class StateLost(Exception):
    """The state directory was removed or replaced while its platform ran."""


class StateDirectory(state_reader.StateReader):
    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path
        self._lock: int | None = None
        """The open file of the lock, while this process holds it."""

    @property
    def database(self) -> Path:
        return self.path / _STORE

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
        """What an earlier ``local up`` stored, or None before the first. Raises SettingsDamaged for
        settings that cannot be read: others would run other cities on the same state."""
        try:
            stored = self._object("settings.json")
        except DamagedFile as error:
            raise SettingsDamaged(str(error)) from error
        if stored is None:
            return None
        known = {f.name for f in fields(LocalSettings)}
        values = {key: value for key, value in stored.items() if key in known}
        try:
            return _checked_settings(values)
        except ValueError as error:
            raise SettingsDamaged(f"{self.path / 'settings.json'} is damaged: {error}") from error

    def store_settings(self, settings: LocalSettings) -> None:
        self._write("settings.json", asdict(settings))

    def disconnected(self) -> list[str]:
        """The disconnected cells. Raises StateUnusable if the file is damaged."""
        self._object(DISCONNECTED)
        return super().disconnected()

    def store_disconnected(self, cells: list[str]) -> None:
        self._write(DISCONNECTED, {"cells": cells})

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
            self._lock = handle
            yield
            if not self.is_lost():  # else it may be the file of another platform
                self._remove("platform.json")
        finally:
            self._lock = None
            os.close(handle)

    def is_lost(self) -> bool:
        """Whether the lock that this process holds is no longer the one in the directory."""
        if self._lock is None:
            return False
        try:
            found = os.stat(self.path / "lock")
        except (FileNotFoundError, NotADirectoryError):
            return True
        return not os.path.samestat(found, os.fstat(self._lock))

    def has_state(self) -> bool:
        return any(self._files())

    def reset(self) -> None:
        """Delete every file of a platform that is not running. Other files stay, in case the
        directory was given by mistake."""
        with self.hold():
            for found in self._files():
                found.unlink(missing_ok=True)
            for name in _FILES:
                self._remove(f".{name}.new")
            for copy in self.path.glob(f"{_DAMAGED}*"):
                shutil.rmtree(copy)

    def kept_damage(self, now: datetime) -> Path:
        """The directory for what a repair at this time replaces."""
        return self.path / f"{_DAMAGED}{now:%Y%m%dT%H%M%SZ}"

    def announce(self, running: RunningPlatform) -> None:
        self._write("platform.json", running._asdict())

    def _files(self) -> list[Path]:
        """Those of a platform that are there."""
        named = [self.path / name for name in (_STORE, *_FILES)]
        return [each for each in named if each.exists()] + [*self.path.glob(f"{_STORE}-*")]

    def _object(self, name: str) -> dict[str, Any] | None:
        """A file that holds a JSON object; None if there is none. Raises StateUnusable if it holds
        anything else."""
        found = self.read(name)
        if found is None and (self.path / name).exists():
            text = self.text(name)
            start = f"{text[:40]}…" if len(text) > 40 else text
            held = f"it begins with {start!r}" if text else "it is empty"
            raise DamagedFile(f"{self.path / name} is damaged: {held}, which is not a JSON object")
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


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


_Form = tuple[str, Callable[[Any], bool]]  # whatever JSON holds
_WHOLE: _Form = ("a whole number", _is_whole)
_NUMBER: _Form = ("a number", _is_number)
_TEXT: _Form = ("a text", _is_text)
_FORMS: dict[str, _Form] = {
    "cities": (
        "a list of city codes",
        lambda value: isinstance(value, list) and bool(value) and all(map(_is_text, value)),
    ),
    "project": _TEXT,
    "port": _WHOLE,
    "router_port": _WHOLE,
    "grant": (
        "an object of whole numbers",
        lambda value: isinstance(value, dict) and all(map(_is_whole, value.values())),
    ),
    "approval_by_hand": ("true or false", lambda value: isinstance(value, bool)),
    "activation_seconds": _NUMBER,
    "propagation_max_delay": _NUMBER,
    "runtime": _TEXT,
    "runtime_settings": (
        "an object of texts",
        lambda value: isinstance(value, dict) and all(map(_is_text, value.values())),
    ),
    "storage": _TEXT,
}
"""What each of the settings has to be."""


def _checked_settings(values: dict[str, Any]) -> LocalSettings:
    """Raises ValueError for a value that is missing or of the wrong type."""
    if "cities" not in values:
        raise ValueError("cities is missing")
    for name, value in values.items():
        expected, is_right = _FORMS[name]
        if not is_right(value):
            found = json.dumps(value)
            found = f"{found[:40]}…" if len(found) > 40 else found
            raise ValueError(f"{name} is {found}, expected {expected}")
    settings = LocalSettings(**values)
    runtimes = {each.name: each for each in providers_of("local")}
    if settings.runtime not in runtimes:
        raise ValueError(f"runtime is none of {', '.join(runtimes)}")
    if unknown := settings.runtime_settings.keys() - runtimes[settings.runtime].settings:
        raise ValueError(f"runtime {settings.runtime} has no setting {', '.join(sorted(unknown))}")
    if settings.storage not in storage.ENGINES:
        raise ValueError(f"storage is none of {', '.join(storage.ENGINES)}")
    grant = {**DEFAULT_GRANT, **settings.grant}
    return replace(settings, cities=tuple(settings.cities), grant=grant)
