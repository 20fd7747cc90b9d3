"""What make does before any tool of the project is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.support.paths import ROOT

PYTHON = """#!/bin/sh
[ "$1 $2" = "-m venv" ] || exit 0
mkdir -p "$3/bin"
printf '#!/bin/sh\\nprintf %%s "$PIP_CONSTRAINT" > constraint\\n' > "$3/bin/python"
chmod +x "$3/bin/python"
"""


def test_the_project_is_set_up_in_a_directory_with_a_space(tmp_path: Path) -> None:
    """pip splits what it takes from the environment at spaces, so that a path has none."""
    directory = tmp_path / "my code"
    directory.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, directory)
    python = directory / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)

    subprocess.run(
        ["make", "--silent", "PYTHON=./python", ".venv/.product"],
        cwd=directory,
        check=True,
        capture_output=True,
        timeout=60,
    )

    constraint = (directory / "constraint").read_text()
    assert constraint.split() == [constraint]
    assert Path(unquote(urlsplit(constraint).path)).samefile(directory / "constraints.txt")


def test_git_ignores_files_with_credentials() -> None:
    """Those that the docs and the examples of commands write."""
    ignored = (ROOT / ".gitignore").read_text().splitlines()

    assert {"kubeconfig", "*.kubeconfig", "*.token", "*.backup"} <= set(ignored)
