"""The guides as a reader types them: a shell, a real platform, real time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from datum_compute.assembly.local.state import StateDirectory
from tests.support.cli.tutorial import commands
from tests.support.paths import ROOT

pytestmark = [pytest.mark.long, pytest.mark.realtime]

PAGES = sorted((ROOT / "docs" / "how-to").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_guide_succeeds(page: Path, tmp_path: Path) -> None:
    environment = {
        "HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
        "DATUM_RUNTIME": "simulated",
    }
    typed = commands(page.read_text(encoding="utf-8"))
    try:
        assert typed
        for command in typed:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == 0, f"{command}: {done.stderr}"
    finally:
        pid = StateDirectory(tmp_path / ".local" / "state" / "datum-compute").holder()
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
