"""However often, and after whichever write, a process crashes: the outcome is the same.

To repeat one crash, of the process that makes the 17th write::

    .venv/bin/python -m tests.federation.test_crashes change_the_image 17
"""

from __future__ import annotations

import argparse
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from datum_compute.assembly.local.standins import STAND_INS
from tests.support.federation.crash_scenarios import SCENARIOS, difference
from tests.support.federation.crashes import Crash, Scenario, ScenarioRunner

QUICK = {
    "deploy": (5, 30, 70),
    "deploy_with_data": (6, 8, 12, 20),
    "destroy_with_data": (10, 20),
    "create_project": (3,),
    "stop": (2, 5, 9),
    "start": (2, 6),
    "deploy_alone": (20,),
    "roll_in_waves": (1, 14, 30),
    "undo_a_failed_wave": (25,),
}
"""Crashes that run with the ordinary tests."""

LONG = [pytest.mark.long, pytest.mark.timeout(900)]


def of(name: str) -> Scenario:
    [scenario] = [each for each in SCENARIOS if each.name == name]
    return scenario


def judge(
    scenario: Scenario, runner: ScenarioRunner, wanted: dict[str, Any], *crashes: Crash
) -> None:
    for crash in crashes:
        killer, found = runner.run(crash)
        assert killer.victims, f"{scenario.name} {crash}: no process crashed"
        problem = difference(wanted, found)
        assert not problem, f"{scenario.name} {crash}: {killer.victims}\n{problem}"


@pytest.mark.parametrize(
    "scenario", [pytest.param(each, id=each.name, marks=LONG) for each in SCENARIOS]
)
def test_a_crash_after_any_write_does_not_change_the_outcome(
    scenario: Scenario, tmp_path: Path
) -> None:
    """Of any process: ours, the provider's and the stand-ins'."""
    runner = ScenarioRunner(scenario, tmp_path)
    undisturbed, wanted = runner.run()
    assert undisturbed.writes, "there is something to interrupt"
    crashes = (Crash(write) for write in range(1, undisturbed.writes + 1))
    judge(scenario, runner, wanted, *crashes)


@pytest.mark.parametrize("name", sorted(QUICK))
def test_a_crash_after_some_writes_does_not_change_the_outcome(name: str, tmp_path: Path) -> None:
    runner = ScenarioRunner(of(name), tmp_path)
    _, wanted = runner.run()
    judge(of(name), runner, wanted, *(Crash(write) for write in QUICK[name]))


SAMPLED = 4
"""Of other crashes, in each scenario."""


def sample(scenario: Scenario, writes: int) -> list[Crash]:
    """Some where the write is never sent, and some where another process, or the same, crashes
    while the first is still down or has just restarted."""
    chance = Random(scenario.name)
    found = []
    for number in range(SAMPLED):
        write = chance.randint(1, writes)
        down = chance.choice((0.0, 0.2, 1.0, 20.0))
        again = chance.choice((1, 2, 3, 5, 8)) if number % 3 else 0
        found.append(Crash(write, sent=number % 2 == 1, again=again, down=down))
    return found


@pytest.mark.parametrize(
    "scenario", [pytest.param(each, id=each.name, marks=LONG) for each in SCENARIOS]
)
def test_crashes_before_a_write_and_pairs_of_crashes_do_not_change_the_outcome(
    scenario: Scenario, tmp_path: Path
) -> None:
    runner = ScenarioRunner(scenario, tmp_path)
    undisturbed, wanted = runner.run()
    judge(scenario, runner, wanted, *sample(scenario, undisturbed.writes))


CUTS = 4
"""Commits at which all processes crash, in each scenario; in the first at every other one."""


@pytest.mark.parametrize(
    "scenario", [pytest.param(each, id=each.name, marks=LONG) for each in SCENARIOS]
)
def test_a_crash_of_all_processes_between_two_commits_does_not_change_the_outcome(
    scenario: Scenario, tmp_path: Path
) -> None:
    runner = ScenarioRunner(scenario, tmp_path)
    _, wanted = runner.run()
    total = runner.count_commits()
    every = scenario is SCENARIOS[0]
    commits = range(1, total + 1, 2) if every else spread(total, CUTS)
    for number, commit in enumerate(commits):
        stored = bool(number % 2)
        found = runner.run_with_power_cut(commit, stored=stored)
        problem = difference(wanted, found)
        assert not problem, f"{scenario.name}: cut at {commit}, stored {stored}\n{problem}"


def spread(total: int, count: int) -> list[int]:
    """This many numbers from 1 to the total, evenly spread, with both ends."""
    return sorted({1 + round(step * (total - 1) / (count - 1)) for step in range(count)})


EVERY_PROCESS = {
    "compute-management",
    "compute-cell-dfw",
    "compute-cell-lhr",
    "compute-single",
    "provider-dfw",
    "provider-lhr",
    *(stand_in.process for stand_in in STAND_INS),
}


@pytest.mark.long
def test_every_process_writes_in_some_scenario(tmp_path: Path) -> None:
    writers: set[str] = set()
    for name in ("deploy", "add_a_city", "create_project", "deploy_alone"):
        directory = tmp_path / name
        directory.mkdir()
        killer, _ = ScenarioRunner(of(name), directory).run()
        writers |= set(killer.writers)
        assert set(killer.present) <= EVERY_PROCESS
    assert writers == EVERY_PROCESS


def main() -> None:
    parser = argparse.ArgumentParser(description="See a scenario with a crash again.")
    parser.add_argument("scenario", choices=[each.name for each in SCENARIOS])
    parser.add_argument("write", type=int, help="the write whose process crashes")
    parser.add_argument("--unsent", action="store_true", help="the write is never carried out")
    parser.add_argument("--again", type=int, default=0, help="another crash this many writes later")
    parser.add_argument("--down", type=float, default=1.0, help="seconds until they come back")
    arguments = parser.parse_args()
    with TemporaryDirectory() as name:
        runner = ScenarioRunner(of(arguments.scenario), Path(name))
        _, wanted = runner.run()
        crash = Crash(
            arguments.write, sent=not arguments.unsent, again=arguments.again, down=arguments.down
        )
        killer, found = runner.run(crash)
        print(killer, difference(wanted, found) or "the same", sep="\n")


if __name__ == "__main__":
    main()
