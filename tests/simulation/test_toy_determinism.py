"""The same seed is the same run in any process: every request, reply, fault and commit."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.paths import ROOT

SEEDS = 12


def digests(hash_seed: str) -> list[str]:
    """One line per seed, from a process that lays out its sets and dicts differently."""
    command = [sys.executable, "-m", "tests.support.simulation.toy_run", "1", str(SEEDS)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_each_seed_is_deterministic_across_processes() -> None:
    first, second = digests("1"), digests("2")

    assert len(first) == SEEDS
    assert first == second
    assert len({line.split()[1] for line in first}) == SEEDS, "seeds differ from one another"
