"""Runs the invocations of :mod:`.kubectl_cases` on one server."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.support.differential.kubectl_cases import (
    PREPARATION,
    cases,
    comparable_output,
    words,
    write_files,
)

VERSION = "v1.32."
"""Another minor words some outputs differently."""
UNORDERED = ("describe configmap one", "get componentstatuses", "api-versions")
"""Lines that come in any order: of a map in Go, of questions asked at the same time."""
OF_OTHERS = ("raw.example.com/v1",)
"""Lines about what the cases with raw requests have left on the same server."""


def find_kubectl() -> tuple[Path | None, str]:
    """A kubectl of the minor that was recorded with, or why there is none."""
    found = shutil.which("kubectl")
    if found is None:
        return None, "kubectl is not on the PATH"
    done = subprocess.run(
        [found, "version", "--client"], capture_output=True, text=True, timeout=60, check=False
    )
    if f"Client Version: {VERSION}" not in done.stdout:
        return None, f"kubectl is not {VERSION}x, with which the answers were recorded"
    return Path(found), ""


class KubectlRun:
    """kubectl for one server, with a directory for its files."""

    def __init__(self, binary: Path, kubeconfig: Path, directory: Path) -> None:
        self._directory = directory
        self._command = [
            str(binary),
            f"--kubeconfig={kubeconfig}",
            f"--cache-dir={directory / 'cache'}",
            "--namespace=golden",
        ]
        self._environment = {
            "HOME": str(directory),
            "PATH": os.defpath,
            "EDITOR": "true",
            "TMPDIR": str(directory),
        }
        write_files(directory)

    def outcomes(self) -> dict[str, Any]:
        """The comparable outcome of each invocation; a repeated one has a number."""
        for case in PREPARATION:
            code, output, errors = self._run(case)
            assert code == 0, (case, output, errors)
        found: dict[str, Any] = {}
        for case in cases():
            name, number = case, 1
            while name in found:
                number += 1
                name = f"{case} #{number}"
            outcome = comparable_output(*self._run(case))
            if case in UNORDERED:
                outcome[1] = sorted(each for each in outcome[1] if each not in OF_OTHERS)
            found[name] = outcome
        return found

    def _run(self, case: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [*self._command, *words(case, self._directory)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            stdin=subprocess.DEVNULL,
            env=self._environment,
        )
        return done.returncode, done.stdout, done.stderr
