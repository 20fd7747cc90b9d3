"""The tutorial, replayed.

The page has commands and their output, in blocks of kind ``console``. Commands of this program
run in order on one platform and their output replaces that of the page; a page that does not
change is current. To write it again::

    python -m tests.support.cli.tutorial
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from datum_compute.cli.context import Streams
from datum_compute.cli.main import main
from tests.support.cli.session import PROGRAM, CliSession, SessionReach, cli_session
from tests.support.cli.terminal import Terminal
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "tutorial" / "first-ten-minutes.md"
README = ROOT / "README.md"

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"save it as `([\w.]+)`\.\n\n```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[str]:
    return [
        line.removeprefix("$ ")
        for block in _BLOCK.findall(page)
        for line in block.splitlines()
        if line.startswith("$ ")
    ]


def files(page: str) -> dict[str, str]:
    """The files that the reader saves, by name."""
    return dict(_FILE.findall(page))


def is_about_the_process(command: str) -> bool:
    return command.startswith(f"{PROGRAM} local ")


def replayed(page: str) -> tuple[str, list[tuple[str, int]]]:
    """The page with what the commands print now, and each command with its exit code."""
    codes: list[tuple[str, int]] = []
    with _in_a_directory(files(page)), cli_session("DFW", "IAD", "LHR") as here:
        here.wait(10)

        def block(found: re.Match[str]) -> str:
            parts = re.split(r"^\$ (.+)\n", found[1], flags=re.MULTILINE)[1:]
            text = ""
            for command, shown in zip(parts[::2], parts[1::2], strict=True):
                if not is_about_the_process(command):
                    shown, code = _typed(here, command)
                    codes.append((command, code))
                    here.wait(20)
                text += f"$ {command}\n{shown}"
            return f"```console\n{text}```"

        return _BLOCK.sub(block, page), codes


def _typed(here: CliSession, command: str) -> tuple[str, int]:
    """What is on the screen in the end, and the exit code."""
    argv = shlex.split(command)
    if argv[0] != PROGRAM:
        done = subprocess.run(argv, check=True, capture_output=True, text=True)
        return done.stdout, 0
    terminal = Terminal()
    streams = Streams(io.StringIO(), terminal, terminal)
    code = main(argv[1:], here.env, streams, reach=SessionReach(here))
    lines = terminal.screen
    while lines and not lines[-1]:
        lines.pop()
    return "".join(f"{line}\n" for line in lines), code


@contextmanager
def _in_a_directory(contents: dict[str, str]) -> Iterator[None]:
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as name:
        for file, text in contents.items():
            (Path(name) / file).write_text(text)
        os.chdir(name)
        try:
            yield
        finally:
            os.chdir(before)


if __name__ == "__main__":
    for written in (PAGE, README):
        written.write_text(replayed(written.read_text(encoding="utf-8"))[0], encoding="utf-8")
