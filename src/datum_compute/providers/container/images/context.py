"""A directory as the engine's builder takes it: a tar of what ``.dockerignore`` leaves.

Patterns are docker's: one in a line, ``*`` and ``?`` within a name, ``**`` over names, ``!`` takes
back what an earlier pattern left out; the last that matches decides. The Dockerfile is always
sent.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

IGNORE_FILE = ".dockerignore"
DOCKERFILES = ("Dockerfile", "Containerfile")
MAX_BYTES = 2**30
"""Of all files together: they are held in memory. A guess, far above what an image is built of."""


class ContextUnusable(Exception):
    """The directory cannot be built; the message says why."""


def find_dockerfile(directory: Path, given: str | None) -> str:
    """Its path within the directory. Raises :class:`ContextUnusable`."""
    if not directory.is_dir():
        raise ContextUnusable(f"{directory} is not a directory")
    if given is None:
        for name in DOCKERFILES:
            if (directory / name).is_file():
                return name
        raise ContextUnusable(f"{directory} has no {' or '.join(DOCKERFILES)}")
    path = Path(given)
    found = path if path.is_absolute() else directory / path
    if not found.is_file() and path.is_file():
        found = path  # as docker takes it: from where the command is typed
    if not found.is_file():
        raise ContextUnusable(f"{given} does not exist")
    try:
        return found.resolve().relative_to(directory.resolve()).as_posix()
    except ValueError:
        raise ContextUnusable(f"{given} is not in {directory}") from None


def pack_directory(directory: Path, dockerfile: str) -> bytes:
    """Raises :class:`ContextUnusable` for one that is too large or cannot be read."""
    ignored = IgnoreRules(_read_rules(directory))
    archive = io.BytesIO()
    size = 0
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in _files(directory, ignored, keep=dockerfile):
            try:
                if (directory / path).is_socket():
                    continue  # which no archive can have
                info = tar.gettarinfo(directory / path, path)
                info.uid = info.gid = 0
                info.uname = info.gname = ""
                size += info.size
                if size > MAX_BYTES:
                    raise ContextUnusable(
                        f"{directory} has more than {MAX_BYTES // 2**20} MiB:"
                        f" name in {IGNORE_FILE} what the image does not need"
                    )
                if info.isreg():
                    with (directory / path).open("rb") as file:
                        tar.addfile(info, file)
                else:
                    tar.addfile(info)
            except OSError as error:
                raise ContextUnusable(f"{directory / path}: {error.strerror}") from error
    return archive.getvalue()


def content_digest(archive: bytes, dockerfile: str) -> str:
    """The same for the same files, whenever they were written."""
    digest = hashlib.sha256(dockerfile.encode())
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for info in tar:
            file = tar.extractfile(info) if info.isreg() else None
            content = file.read() if file is not None else b""
            entry = (info.name, info.mode, info.type, info.linkname, len(content))
            digest.update(repr(entry).encode() + content)
    return digest.hexdigest()


def _read_rules(directory: Path) -> str:
    try:
        return (directory / IGNORE_FILE).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ContextUnusable(f"{directory / IGNORE_FILE}: {error.strerror}") from error


def _files(directory: Path, ignored: IgnoreRules, *, keep: str) -> Iterator[str]:
    """Paths within the directory, sorted, so that the same files make the same archive."""
    for root, folders, names in os.walk(directory):
        base = Path(root).relative_to(directory)
        # A link to a directory is a file here: what it leads to may lie elsewhere.
        links = [name for name in folders if (Path(root) / name).is_symlink()]
        folders[:] = sorted(
            name
            for name in folders
            if name not in links
            and (not ignored.matches((base / name).as_posix()) or ignored.has_exceptions)
        )
        kept = (base / name for name in sorted([*names, *links]))
        for path in (each.as_posix() for each in kept):
            if path == keep or not ignored.matches(path):
                yield path
        for name in folders:
            path = (base / name).as_posix()
            if not ignored.matches(path):
                yield path


class IgnoreRules:
    def __init__(self, text: str) -> None:
        self._rules: list[tuple[re.Pattern[str], bool]] = []
        for line in text.splitlines():
            pattern = line.strip()
            if not pattern or line.startswith("#"):
                continue
            is_exception = pattern.startswith("!")
            pattern = pattern.removeprefix("!").strip()
            pattern = os.path.normpath(pattern).lstrip("/").removeprefix("./")
            self._rules.append((re.compile(_expression(pattern)), is_exception))

    @property
    def has_exceptions(self) -> bool:
        """Whether something in a directory that is left out may be taken back."""
        return any(is_exception for _, is_exception in self._rules)

    def matches(self, path: str) -> bool:
        """Whether it is left out, itself or with a directory above it."""
        left_out = False
        for rule, is_exception in self._rules:
            if is_exception is left_out and rule.fullmatch(path):
                left_out = not is_exception
        return left_out


def _expression(pattern: str) -> str:
    """For a path, or one below it."""
    found, position = "", 0
    while position < len(pattern):
        rest = pattern[position:]
        if rest.startswith("**/"):
            found, position = found + "(?:.*/)?", position + 3
        elif rest.startswith("**"):
            found, position = found + ".*", position + 2
        elif rest[0] == "*":
            found, position = found + "[^/]*", position + 1
        elif rest[0] == "?":
            found, position = found + "[^/]", position + 1
        elif rest[0] == "[" and (end := rest.find("]", 1)) > 0:
            inner = rest[1:end].replace("\\", "\\\\")
            found, position = found + f"[{inner}]", position + end + 1
        else:
            if rest[0] == "\\" and len(rest) > 1:
                position, rest = position + 1, rest[1:]
            found, position = found + re.escape(rest[0]), position + 1
    return f"{found}(?:/.*)?"
