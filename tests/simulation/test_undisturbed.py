"""A workload's whole life on the assembled platform, undisturbed."""

from __future__ import annotations

from pathlib import Path

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


async def deploy_change_scale_destroy(life: PlatformRun) -> None:
    await apply(life, workload("acme/web:1", 2))
    await eventually("deployed", lambda: missing_for_image(life, "acme/web:1", 4))
    await apply(life, workload("acme/web:2", 2))
    await eventually("updated", lambda: missing_for_image(life, "acme/web:2", 4))
    await apply(life, workload("acme/web:2", 3))
    await eventually("scaled up", lambda: missing_for_image(life, "acme/web:2", 6))
    await apply(life, workload("acme/web:2", 1))
    await eventually("scaled down", lambda: missing_for_image(life, "acme/web:2", 2))
    await apply(life, workload("acme/web:2", 1, cities=("LHR",)))
    await eventually("left a city", lambda: missing_for_image(life, "acme/web:2", 1))
    try:
        await life.project.delete(compute.WORKLOADS, "web", NAMESPACE)
    except errors.NotFound:
        pass  # the story was told before
    await eventually("destroyed", lambda: leftovers(life))


def test_deploy_change_scale_and_destroy_leave_nothing_behind(tmp_path: Path) -> None:
    assert PlatformRun(0, tmp_path / "state.db").run(deploy_change_scale_destroy)


def test_two_equal_seeds_make_the_same_number_of_commits(tmp_path: Path) -> None:
    first, second = PlatformRun(7, tmp_path / "a.db"), PlatformRun(7, tmp_path / "b.db")

    assert first.run(deploy_change_scale_destroy)
    assert second.run(deploy_change_scale_destroy)

    assert first.commits == second.commits
