"""A platform that loses its power at any commit finishes what it was doing afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.client import errors
from datum_compute.testing.expectations import eventually
from tests.support.simulation.platform import (
    NAMESPACE,
    PlatformRun,
    apply,
    leftovers,
    missing_for_image,
    workload,
)

SEEDS = 200
QUICK = 8
"""Seeds that run with the ordinary tests; the rest run with the long ones."""


async def roll_and_destroy(platform: PlatformRun, done: list[str]) -> None:
    """Operations of a user, who goes on where the last run ended."""
    if "deployed" not in done:
        await apply(platform, workload("acme/web:1", 2))
        await eventually("deployed", lambda: missing_for_image(platform, "acme/web:1", 4))
        done.append("deployed")
    if "updated" not in done:
        await apply(platform, workload("acme/web:2", 2))
        await eventually("updated", lambda: missing_for_image(platform, "acme/web:2", 4))
        done.append("updated")
    if "scaled" not in done:
        await apply(platform, workload("acme/web:2", 1))
        await eventually("scaled", lambda: missing_for_image(platform, "acme/web:2", 2))
        done.append("scaled")
    try:
        await platform.project.delete(compute.WORKLOADS, "web", NAMESPACE)
    except errors.NotFound:
        pass  # it was deleted before the power cut
    await eventually("destroyed", lambda: leftovers(platform))


def commits_of_an_undisturbed_run(seed: int, directory: Path) -> int:
    """The order of events differs by seed, and with it how many writes share a commit."""
    platform = PlatformRun(seed, directory / "undisturbed.db")
    assert platform.run(lambda platform: roll_and_destroy(platform, []))
    return platform.commits


def seeds() -> list[object]:
    return [
        pytest.param(seed, marks=[] if seed % (SEEDS // QUICK) == 0 else pytest.mark.long)
        for seed in range(SEEDS)
    ]


@pytest.mark.parametrize("seed", seeds())
def test_a_platform_finishes_its_work_after_a_power_cut(seed: int, tmp_path: Path) -> None:
    total = commits_of_an_undisturbed_run(seed, tmp_path)
    cut_at = 1 + seed * (total - 1) // (SEEDS - 1)  # from the first commit to the last
    database = tmp_path / "state.db"
    done: list[str] = []

    first = PlatformRun(seed, database, cut_at=cut_at, cut_after_commit=seed % 2 == 1)
    assert not first.run(lambda platform: roll_and_destroy(platform, done)), "the power was not cut"
    second = PlatformRun(seed + 1, database, number=1)

    assert second.run(lambda platform: roll_and_destroy(platform, done))
