"""The tutorial with containers, typed at a real terminal on a real platform.

The page has commands and what they leave on the screen, in blocks of kind ``console``. Addresses,
times and ids differ from run to run; a test types the commands again and compares the rest. To
write the page again, where podman or docker runs::

    python -m tests.support.cli.container_tutorial
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from datum_compute.providers.container import host
from tests.support.cli import terminal
from tests.support.cli.pseudo_terminal import Terminal
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "tutorial" / "real-containers.md"
BASE = "docker.io/library/busybox:1.36"
"""The image that the reader's own is built from."""

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"Save as `([\w./]+)`:\n\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ADDRESS = re.compile(r"\b(?:127|10)\.\d+\.\d+\.\d+\b")
_VARYING = (
    (_ADDRESS, "ADDRESS"),
    (re.compile(r"\b[0-9a-f]{11,64}\b"), "ID"),
    (re.compile(r"\b\d+(?:\.\d+)?(?:ms|s|m)\b"), "TIME"),
    (re.compile(r"127\.0\.0\.1:\d+"), "SERVER"),
    (re.compile(r"[ ─-]{2,}"), "  "),
)


_DIFFERING = ("--build", "local up", "nosuch", " why ", "destroy")


class TypedCommand:
    """A command of the page, and what was on the screen after it."""

    def __init__(self, command: str, screen: str) -> None:
        self.command = command
        self.screen = screen

    @property
    def is_compared(self) -> bool:
        """What a builder, a starting platform, a failure in progress and a removal show differs."""
        return not any(each in self.command for each in _DIFFERING)

    @property
    def lines(self) -> list[str]:
        """The screen, without what varies. The order of log lines of one second does: podman
        has no finer times."""
        lines = without_varying(self.screen)
        return sorted(lines) if " logs " in self.command else lines


def files(page: str) -> dict[str, str]:
    return dict(_FILE.findall(page))


def typed_commands(page: str) -> list[TypedCommand]:
    return [
        TypedCommand(command, shown)
        for block in _BLOCK.findall(page)
        for command, shown in _pairs(block)
    ]


def _pairs(block: str) -> Iterator[tuple[str, str]]:
    parts = re.split(r"^\$ (.+)\n", block, flags=re.MULTILINE)[1:]
    yield from zip(parts[::2], parts[1::2], strict=True)


def without_varying(text: str) -> list[str]:
    for pattern, name in _VARYING:
        text = pattern.sub(name, text)
    return [line.rstrip() for line in text.splitlines() if line.strip()]


class Reader:
    """Types what the page says, with the addresses that this run has."""

    def __init__(self, directory: Path, engine: str) -> None:
        self._directory = directory
        self._addresses: dict[str, str] = {}
        self._environment = {
            "HOME": str(directory),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "DATUM_RUNTIME": engine,
            **{key: os.environ[key] for key in ("DOCKER_HOST",) if key in os.environ},
        }

    def types(self, typed: TypedCommand) -> tuple[TypedCommand, int]:
        """What was typed, what is on the screen in the end, and the exit code."""
        command = _ADDRESS.sub(lambda found: self._addresses.get(found[0], found[0]), typed.command)
        script = f"cd {self._directory} && {command}"
        shell = Terminal(["bash", "-c", script], self._environment)
        code = shell.ends()
        screen = _screen(shell.everything.decode(errors="replace"))
        self._addresses |= dict(
            zip(_ADDRESS.findall(typed.screen), _ADDRESS.findall(screen), strict=False)
        )
        return TypedCommand(command, screen.replace(str(self._directory), "~")), code


def _screen(text: str) -> str:
    shown = terminal.Terminal()
    shown.write(text.replace("\r\n", "\n"))
    lines = shown.screen
    while lines and not lines[-1]:
        lines.pop()
    return "".join(f"{line}\n" for line in lines)


@contextmanager
def base_image(engine: str) -> Iterator[None]:
    """The reader has a registry; a test machine may have none."""
    is_there = subprocess.run([engine, "image", "inspect", BASE], capture_output=True, check=False)
    if is_there.returncode == 0:
        yield
        return
    subprocess.run([engine, "tag", host.BUSYBOX_IMAGE, BASE], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run([engine, "rmi", BASE], check=True, capture_output=True)


def replayed(page: str, directory: Path, engine: str) -> tuple[str, list[int]]:
    """The page with what is on the screen now, and the exit codes."""
    for name, text in files(page).items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    reader = Reader(directory, engine)
    codes: list[int] = []
    built: set[str] = set()

    def block(found: re.Match[str]) -> str:
        text = ""
        for command, shown in _pairs(found[1]):
            done, code = reader.types(TypedCommand(command, shown))
            codes.append(code)
            built.update(re.findall(r"^Built (\S+)", done.screen, re.MULTILINE))
            text += f"$ {done.command}\n{done.screen}"
        return f"```console\n{text}```"

    try:
        return _BLOCK.sub(block, page), codes
    finally:
        reader.types(TypedCommand("datumctl-compute local reset --yes", ""))
        for image in built:
            subprocess.run([engine, "rmi", image], check=False, capture_output=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as name, base_image("podman"):
        page = PAGE.read_text(encoding="utf-8")
        written, codes = replayed(page, Path(name), "podman")
        PAGE.write_text(written, encoding="utf-8")
        print(codes, file=sys.stderr)


if __name__ == "__main__":
    main()
