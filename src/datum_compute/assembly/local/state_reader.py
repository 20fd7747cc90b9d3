"""Whether a platform runs in a directory, and how to reach it.

Every command that reads from a local platform loads this module, so it imports little.
:mod:`.state` describes the directory and writes it.
"""

from __future__ import annotations

import fcntl
import json
import os
from typing import Any, NamedTuple

from datum_compute.env import Environment

USER_ROLES = ("viewer", "editor", "admin")
"""The roles of people in a project, each with the rights of those before it."""


DISCONNECTED = "disconnected.json"


class RunningPlatform(NamedTuple):
    """The content of ``platform.json``, written by the running platform."""

    pid: int
    address: str
    project: str
    started_at: str


class StateUnusable(Exception):
    """The state directory or a file in it cannot be used; the message names it and the cause."""


def default_directory(env: Environment) -> str:
    base = env.variable("XDG_STATE_HOME")
    home = env.variable("HOME") or "~"
    root = base or os.path.join(os.path.expanduser(home), ".local", "state")
    return os.path.join(root, "datum-compute")


class StateReader:
    """A state directory, read only."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def running(self) -> RunningPlatform | None:
        """The platform that holds this directory, once it listens."""
        if not self.is_held():
            return None
        stored = self.read("platform.json")
        try:
            running = RunningPlatform(**stored) if stored else None
        except TypeError:
            return None  # of another version
        return running if running and isinstance(running.address, str) else None

    def is_held(self) -> bool:
        try:
            handle = os.open(os.path.join(self._directory, "lock"), os.O_RDWR)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StateUnusable(f"{self._directory}: {error.strerror}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            return False
        finally:
            os.close(handle)

    def disconnected(self) -> list[str]:
        """The disconnected cells."""
        cells = (self.read(DISCONNECTED) or {}).get("cells")
        return [str(cell) for cell in cells] if isinstance(cells, list) else []

    def token(self) -> str | None:
        return self.text("token").strip() or None

    def ca_pem(self) -> bytes:
        """The authority of the platform's certificate. Raises StateUnusable without it."""
        path = os.path.join(self._directory, "ca.crt")
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError as error:
            raise StateUnusable(f"{path}: {error.strerror}") from error

    def read(self, name: str) -> dict[str, Any] | None:
        try:
            value = json.loads(self.text(name))
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    def text(self, name: str) -> str:
        """The content of a file; empty when it does not exist."""
        path = os.path.join(self._directory, name)
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise StateUnusable(f"{path}: {error.strerror}") from error
