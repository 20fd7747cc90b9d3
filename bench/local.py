"""A local platform as a user starts it, and kubectl for it."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LIMIT_SECONDS = 90.0
PROGRAM = str(Path(sys.executable).with_name("datumctl-compute"))


@dataclass(frozen=True)
class Local:
    directory: str
    kubeconfig: str

    def compute(self, *arguments: str) -> list[str]:
        """The command line of one of our commands on this platform."""
        return [PROGRAM, *arguments, "--kubeconfig", self.kubeconfig, "--project", "demo"]

    def kubectl(self, *arguments: str) -> list[str]:
        return [find_kubectl(), "--kubeconfig", self.kubeconfig, *arguments]


@contextlib.contextmanager
def local_platform(*flags: str) -> Iterator[Local]:
    """A platform that runs until the block ends; its state is then deleted."""
    with tempfile.TemporaryDirectory(prefix="datum-compute-bench-") as directory:
        there = ("--data-dir", directory)
        try:
            run([PROGRAM, "local", "up", "--detach", "--runtime", "simulated", *there, *flags])
            kubeconfig = Path(directory, "kubeconfig")
            kubeconfig.write_text(run([PROGRAM, "local", "kubeconfig", *there]))
            yield Local(directory, str(kubeconfig))
        finally:
            run([PROGRAM, "local", "down", *there])


def find_kubectl() -> str:
    found = shutil.which("kubectl")
    if found is None:
        raise RuntimeError("kubectl is not installed: there is nothing to compare with")
    return found


def run(command: list[str], *, limit: float = LIMIT_SECONDS) -> str:
    """The standard output of a command; raises with its standard error."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    if done.returncode != 0:
        words = " ".join([Path(command[0]).name, *command[1:]])
        raise RuntimeError(f"`{words}` ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def seconds_of(command: list[str]) -> float:
    start = time.perf_counter()
    run(command)
    return time.perf_counter() - start
