"""The tutorial as a reader types it: a shell, a real platform, real time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from datum_compute.assembly.local.state import StateDirectory
from tests.support.cli.tutorial import PAGE, commands, files

pytestmark = [pytest.mark.long, pytest.mark.realtime]

FAILS = {"status nosuch -o json": 5}


def test_every_command_of_the_tutorial_exits_as_documented(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name, text in files(page).items():
        (tmp_path / name).write_text(text)
    environment = {
        "HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
        "DATUM_RUNTIME": "simulated",
    }
    broken = "deploy -f broken.yaml"
    expected = {**FAILS, broken: 3}
    try:
        for command in commands(page):
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            wanted = expected.get(command.removeprefix("datumctl-compute "), 0)
            assert done.returncode == wanted, f"{command}: {done.stderr}"
            if command.startswith("sed "):
                expected[broken] = 0
    finally:
        pid = StateDirectory(tmp_path / ".local" / "state" / "datum-compute").holder()
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
