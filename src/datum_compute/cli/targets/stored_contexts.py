"""Named targets: the contexts that ``context add`` stores and ``context use`` selects.

``$XDG_CONFIG_HOME/datum-compute/contexts.json`` (0600) holds them, each with its server, its
project and where its credential is: a token file, the user of a kubeconfig, or a local
platform's own. It never holds a token. The file is replaced as a whole, under a lock, so that
two commands at once lose nothing.

Every command that is given no target reads the file, so this module imports little.
"""

from __future__ import annotations

import fcntl
import json
import os
from argparse import Namespace
from typing import TYPE_CHECKING, Any, NamedTuple

from datum_compute.cli.errors import CommandError
from datum_compute.cli.explain.suggestions import Remark

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from datum_compute.env import Environment

_KEYS = {
    "server": "server",
    "certificateAuthority": "certificate_authority",
    "tokenFile": "token_file",
    "kubeconfig": "kubeconfig",
    "kubeconfigContext": "kubeconfig_context",
    "dataDir": "data_dir",
    "project": "project",
}
"""Keys of the file -> fields."""


class StoredContext(NamedTuple):
    """One of ``server``, ``kubeconfig`` and ``data_dir`` is set. Paths are absolute."""

    name: str
    server: str = ""
    certificate_authority: str = ""
    token_file: str = ""
    kubeconfig: str = ""
    kubeconfig_context: str = ""
    data_dir: str = ""
    project: str = ""

    @property
    def place(self) -> str:
        """Where it leads, for people."""
        if self.kubeconfig:
            context = f", context {self.kubeconfig_context}" if self.kubeconfig_context else ""
            return f"kubeconfig {self.kubeconfig}{context}"
        return self.server or f"local platform in {self.data_dir}"

    @property
    def credential(self) -> str:
        """Where its credential is, for people."""
        if self.token_file:
            return f"token file {self.token_file}"
        if self.server:
            return "DATUM_TOKEN or DATUM_TOKEN_FILE"
        return "kubeconfig" if self.kubeconfig else "local-admin"

    def with_flags(self, args: Namespace) -> Namespace:
        """The flags that this context stands for, below those that were typed."""
        own_token = args.token is None and args.token_file is None and self.token_file
        own = {
            "server": self.server or None,
            "kubeconfig": self.kubeconfig or None,
            "context": self.kubeconfig_context or None,
            "data_dir": self.data_dir or None,
            "token_file": self.token_file if own_token else args.token_file,
            "certificate_authority": args.certificate_authority
            or self.certificate_authority
            or None,
        }
        return Namespace(**{**vars(args), **own})

    def to_json(self) -> dict[str, str]:
        return {key: getattr(self, field) for key, field in _KEYS.items() if getattr(self, field)}


class ContextFile(NamedTuple):
    """The content of the file."""

    current: str
    contexts: Mapping[str, StoredContext]


def path_of(env: Environment) -> str:
    base = env.variable("XDG_CONFIG_HOME")
    home = env.variable("HOME") or "~"
    root = base or os.path.join(os.path.expanduser(home), ".config")
    return os.path.join(root, "datum-compute", "contexts.json")


def read(env: Environment) -> ContextFile:
    """Empty where there is no file. Raises for a damaged one: a command that ignored it would
    act somewhere else."""
    path = path_of(env)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return ContextFile("", {})
    except OSError as error:
        raise _unusable(path, str(error.strerror)) from error
    except UnicodeDecodeError as error:
        raise _unusable(path, "not a UTF-8 text file") from error
    try:
        return _parsed(json.loads(text))
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _unusable(path, f"not valid JSON at {where}") from error
    except RecursionError as error:
        raise _unusable(path, "nested too deeply") from error
    except ValueError as error:
        raise _unusable(path, str(error)) from error


def _parsed(content: Any) -> ContextFile:
    """Raises ValueError for anything that ``write`` does not write."""
    if not isinstance(content, dict) or not isinstance(content.get("contexts"), dict):
        raise ValueError("contexts is not an object")
    contexts = {name: _context(name, value) for name, value in content["contexts"].items()}
    current = content.get("current", "")
    if not isinstance(current, str) or (current and current not in contexts):
        raise ValueError(f"current names {json.dumps(current)}, which is not one of its contexts")
    return ContextFile(current, contexts)


def _context(name: str, value: Any) -> StoredContext:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise ValueError(f"context {name!r} has a field that is not a string")
    if unknown := sorted(value.keys() - _KEYS.keys()):
        raise ValueError(f"context {name!r} has the unknown field {unknown[0]!r}")
    found = StoredContext(name, **{_KEYS[key]: text for key, text in value.items()})
    if sum(map(bool, (found.server, found.kubeconfig, found.data_dir))) != 1:
        raise ValueError(f"context {name!r} needs one of server, kubeconfig and dataDir")
    return found


def _unusable(path: str, why: str) -> CommandError:
    return CommandError(
        f"{path} cannot be used: {why}",
        Remark("correct the file, or remove it"),
        code="ContextsUnusable",
    )


def current(env: Environment) -> StoredContext | None:
    found = read(env)
    return found.contexts[found.current] if found.current else None


def local_directory(env: Environment, flags: Mapping[str, str]) -> str:
    """The state directory of the local platform that a context selects for a command with these
    target flags; empty where none does."""
    if not flags.keys().isdisjoint(("--data-dir", "--server", "--kubeconfig")):
        return ""
    name = flags.get("--context", "")
    if not name and env.variable("DATUM_API_HOST"):
        return ""
    try:
        found = read(env)
    except CommandError:
        return ""  # a command that needs the file says what is wrong with it
    chosen = found.contexts.get(name or found.current)
    return chosen.data_dir if chosen is not None else ""


def kubeconfig_files(env: Environment) -> tuple[str, ...]:
    """The files that ``KUBECONFIG`` names."""
    value = env.variable("KUBECONFIG") or ""
    return tuple(each for each in value.split(os.pathsep) if each)


def change(env: Environment, edit: Callable[[ContextFile], ContextFile]) -> None:
    """Store what ``edit`` makes of the file."""
    path = path_of(env)
    directory = os.path.dirname(path)
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        lock = os.open(os.path.join(directory, ".contexts.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unusable(path, str(error.strerror)) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _replace(path, edit(read(env)))
    finally:
        os.close(lock)


def _replace(path: str, content: ContextFile) -> None:
    contexts = {name: each.to_json() for name, each in sorted(content.contexts.items())}
    text = json.dumps({"current": content.current, "contexts": contexts}, indent=2) + "\n"
    temporary = f"{path}.new"
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise _unusable(path, str(error.strerror)) from error
