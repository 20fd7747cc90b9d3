"""The lifecycle of a workload, in process on virtual time and over HTTPS in real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.federation.lifecycle import Lifecycle
from tests.support.processes.managers import federation
from tests.support.simulation.commit_checker import CommitChecker
from tests.support.simulation.platform import PlatformRun


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_the_lifecycle_of_a_workload_in_process(seed: int, tmp_path: Path) -> None:
    commit_checker = CommitChecker()

    async def scenario(platform: PlatformRun) -> None:
        await Lifecycle(platform, within=60).run()

    assert PlatformRun(seed, tmp_path / "state.db", commit_checker=commit_checker).run(scenario)
    assert commit_checker.broken == []


@pytest.mark.parametrize("seed", [0, 1])
def test_a_project_is_deleted_with_everything_in_it(seed: int, tmp_path: Path) -> None:
    async def scenario(platform: PlatformRun) -> None:
        await Lifecycle(platform, within=120).delete_the_project()

    assert PlatformRun(seed, tmp_path / "state.db").run(scenario)


@pytest.mark.long
@pytest.mark.realtime
@pytest.mark.timeout(300)
async def test_the_lifecycle_of_a_workload_over_https(tmp_path: Path) -> None:
    async with federation(tmp_path) as place:
        platform = Lifecycle(place, within=60)
        await platform.run()
        await platform.delete_the_project()
