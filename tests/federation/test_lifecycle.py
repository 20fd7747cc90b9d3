"""The whole life of a workload, in process on virtual time and over HTTPS in real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.federation.lifecycle import Lifecycle
from tests.support.processes.managers import federation
from tests.support.simulation.commit_checker import CommitChecker
from tests.support.simulation.platform import PlatformRun


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_the_life_of_a_workload_in_process(seed: int, tmp_path: Path) -> None:
    commit_checker = CommitChecker()

    async def story(life: PlatformRun) -> None:
        await Lifecycle(life, within=60).run()

    assert PlatformRun(seed, tmp_path / "state.db", commit_checker=commit_checker).run(story)
    assert commit_checker.broken == []


@pytest.mark.parametrize("seed", [0, 1])
def test_a_project_is_deleted_with_everything_in_it(seed: int, tmp_path: Path) -> None:
    async def story(life: PlatformRun) -> None:
        await Lifecycle(life, within=120).delete_the_project()

    assert PlatformRun(seed, tmp_path / "state.db").run(story)


@pytest.mark.long
@pytest.mark.realtime
@pytest.mark.timeout(300)
async def test_the_life_of_a_workload_over_https(tmp_path: Path) -> None:
    async with federation(tmp_path) as place:
        life = Lifecycle(place, within=60)
        await life.run()
        await life.delete_the_project()
