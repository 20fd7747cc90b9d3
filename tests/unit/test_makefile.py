"""What make does before any tool of the project is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.support.paths import ROOT

PYTHON = """#!/bin/sh
[ "$1 $2" = "-m venv" ] || exit 0
mkdir -p "$3/bin"
printf '#!/bin/sh\\nprintf %%s "$PIP_CONSTRAINT" > constraint\\n' > "$3/bin/python"
chmod +x "$3/bin/python"
"""


def make(directory: Path, *words: str) -> str:
    """What it says, with a Python that installs nothing."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, directory)
    python = directory / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    done = subprocess.run(
        ["make", "--silent", "PYTHON=./python", *words],
        cwd=directory,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stderr


@pytest.mark.parametrize(("runtime", "is_suggested"), [("simulated", False), ("podman", True)])
def test_a_url_is_suggested_where_something_answers(
    tmp_path: Path, runtime: str, is_suggested: bool
) -> None:
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\necho "Address   https://127.0.0.1:1\nRuntime   {runtime}"\n')
    program.chmod(0o755)

    said = make(tmp_path, "up", "CLI=./program")

    assert "Try:  ./program instances" in said
    assert ("./program open hello" in said) is is_suggested


def test_the_project_is_set_up_in_a_directory_with_a_space(tmp_path: Path) -> None:
    """pip splits what it takes from the environment at spaces, so that a path has none."""
    directory = tmp_path / "my code"
    directory.mkdir()

    make(directory, ".venv/.product")

    constraint = (directory / "constraint").read_text()
    assert constraint.split() == [constraint]
    assert Path(unquote(urlsplit(constraint).path)).samefile(directory / "constraints.txt")


def test_git_ignores_files_with_credentials() -> None:
    """Those that the docs and the examples of commands write."""
    ignored = (ROOT / ".gitignore").read_text().splitlines()

    assert {"kubeconfig", "*.kubeconfig", "*.token", "*.backup"} <= set(ignored)
