"""Whatever users do, and whenever the power fails, the platform reaches the last specs.

Each seed is a sequence of operations (:mod:`tests.support.simulation.random_operations`) on a
platform that loses its power up to three times, at random commits, and runs its events in a
random order. Within five minutes of the last fault every plane matches the last specs, and then
there are no writes for an hour. A checker sees every commit.

To repeat one seed, with its steps and its last changes::

    .venv/bin/python -m tests.simulation.test_random_operations 17 [--losses 0.03]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from datum_compute.api import core
from datum_compute.assembly.local.state import DEFAULT_GRANT
from datum_compute.testing.environment import START
from datum_compute.testing.expectations import eventually
from tests.support.paths import ROOT
from tests.support.simulation.commit_checker import EXPIRED_EVENTS, CommitChecker
from tests.support.simulation.platform import SETTINGS, PlatformRun
from tests.support.simulation.random_operations import (
    OperationSequence,
    deploy_again,
    end_rollouts,
    generate_sequence,
    perform,
)
from tests.support.simulation.settled import DesiredWorkloads, unsettled

SETTLED_WITHIN = 300.0
QUIET_FOR = 3600.0


@dataclass
class SequenceRun:
    """One sequence of operations, over as many runs of the platform as there are power cuts."""

    sequence: OperationSequence
    losses: float = 0.0
    commit_checker: CommitChecker = field(default_factory=CommitChecker)
    performed: int = 0
    """Steps that are done."""
    wanted: DesiredWorkloads = field(default_factory=dict)
    """After all steps, with a new template where a rollout may have failed or been undone."""
    runs: int = 0

    def run(self, database: Path) -> None:
        seed = self.sequence.seed
        chance = Random(f"cuts {seed}")
        cuts = [_cut(chance) for _ in range(chance.randint(0, 3))]
        grant = DEFAULT_GRANT | {"instances": self.sequence.grant}
        self.commit_checker.quota_is_kept = not self.sequence.loses_claims
        start = START
        for cut_at in (*cuts, 0):
            platform = PlatformRun(
                seed * 10 + self.runs + 1,
                database,
                start=start,
                cut_at=cut_at,
                cut_after_commit=chance.random() < 0.5,
                settings=replace(SETTINGS, grant=grant),
                losses=self.losses,
                commit_checker=self.commit_checker,
            )
            self.runs += 1
            if platform.run(self._live):
                break
            start = self.commit_checker.now + timedelta(seconds=chance.choice((1, 30, 900)))
        assert not self.commit_checker.broken, "\n".join(self.commit_checker.broken)

    async def _live(self, platform: PlatformRun) -> None:
        for step in self.sequence.steps[self.performed :]:
            await asyncio.sleep(step.pause)
            await perform(platform, step)
            self.performed += 1
        ended = asyncio.get_running_loop().time()
        if not self.wanted:
            found = self.sequence.wanted.items()
            self.wanted = {name: deploy_again(desired) for name, desired in found}
        wanted = self.wanted
        await end_rollouts(platform, wanted)
        await eventually("settled", lambda: unsettled(platform, wanted), within=SETTLED_WITHIN)
        platform.cut_at = 0  # all operations are done
        await asyncio.sleep(max(0.0, ended + SETTLED_WITHIN - asyncio.get_running_loop().time()))
        assert await unsettled(platform, wanted) == "", "it was settled, and is no longer"
        before = _writes(self.commit_checker)
        await asyncio.sleep(QUIET_FOR)
        assert _writes(self.commit_checker) == before, "there were writes without a cause"


def _cut(chance: Random) -> int:
    """Early cuts hit the start, which is a recovery after the first run."""
    return chance.randint(1, chance.choice((30, 150, 600)))


def _writes(commit_checker: CommitChecker) -> dict[str, int]:
    """Without renewed Leases and expired Events."""
    return {k: n for k, n in commit_checker.changes.items() if k not in BACKGROUND}


def run_seed(seed: int, directory: Path, *, losses: float = 0.0) -> SequenceRun:
    done = SequenceRun(generate_sequence(seed), losses)
    try:
        done.run(directory / "state.db")
    except BaseException as error:
        error.add_note(_note(done))
        raise
    return done


def _note(done: SequenceRun) -> str:
    seed, losses = done.sequence.seed, done.losses
    steps = "\n".join(
        f"  {'done' if number < done.performed else '    '} {step}"
        for number, step in enumerate(done.sequence.steps)
    )
    recent = "\n".join(f"  {line}" for line in done.commit_checker.recent)
    broken = "\n".join(f"  {line}" for line in done.commit_checker.broken)
    return (
        f"seed {seed}, run {done.runs}, steps:\n{steps}\nlast changes:\n{recent}\n"
        f"rules broken:\n{broken}\n"
        "to repeat it: .venv/bin/python -m tests.simulation.test_random_operations "
        f"{seed} --losses {losses}"
    )


BACKGROUND = (core.LEASES.group_resource, EXPIRED_EVENTS)
SEEDS = 110
QUICK = 10
"""Seeds that run with the ordinary tests; the rest run with the long ones."""
LOSSES = 0.03


def seeds(count: int, quick: int) -> list[object]:
    return [
        pytest.param(seed, marks=[] if seed < quick else pytest.mark.long) for seed in range(count)
    ]


@pytest.mark.parametrize("seed", seeds(SEEDS, QUICK))
def test_random_operations_with_power_cuts_reach_the_desired_state(
    seed: int, tmp_path: Path
) -> None:
    # Every third seed runs over a network that loses writes and replies.
    run_seed(seed, tmp_path, losses=LOSSES if seed % 3 == 2 else 0.0)


@pytest.mark.parametrize(
    ("seed", "losses"),
    [pytest.param(304, 0.15, id="a lost claim is denied, and claimed again under a higher limit")],
)
def test_seeds_that_once_failed_reach_the_desired_state(
    seed: int, losses: float, tmp_path: Path
) -> None:
    run_seed(seed, tmp_path, losses=losses)


@pytest.mark.parametrize("seed", [4, 5, 23])
def test_the_same_seed_gives_the_same_commits_in_any_process(seed: int) -> None:
    """The order in sets of text differs between the two processes."""
    traces = [_run_elsewhere(seed, hash_seed) for hash_seed in ("1", "2")]

    assert traces[0] == traces[1]
    assert traces[0].split()[0] == str(seed)


def _run_elsewhere(seed: int, hash_seed: str) -> str:
    command = [
        sys.executable,
        "-m",
        "tests.simulation.test_random_operations",
        str(seed),
        "--losses",
        str(LOSSES),
    ]
    root = ROOT
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description="Repeat sequences of operations by their seeds.")
    parser.add_argument("seed", type=int)
    parser.add_argument("last", type=int, nargs="?", help="run all seeds up to this one")
    parser.add_argument("--losses", type=float, default=0.0)
    arguments = parser.parse_args()
    for seed in range(arguments.seed, (arguments.last or arguments.seed) + 1):
        with TemporaryDirectory() as directory:
            done = run_seed(seed, Path(directory), losses=arguments.losses)
        print(
            seed,
            done.runs,
            sum(done.commit_checker.changes.values()),
            done.commit_checker.trace,
        )


if __name__ == "__main__":
    main()
