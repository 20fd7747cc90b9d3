"""The lifecycle of a workload on the assembled platform, without faults."""

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


async def deploy_change_scale_destroy(platform: PlatformRun) -> None:
    await apply(platform, workload("acme/web:1", 2))
    await eventually("deployed", lambda: missing_for_image(platform, "acme/web:1", 4))
    await apply(platform, workload("acme/web:2", 2))
    await eventually("updated", lambda: missing_for_image(platform, "acme/web:2", 4))
    await apply(platform, workload("acme/web:2", 3))
    await eventually("scaled up", lambda: missing_for_image(platform, "acme/web:2", 6))
    await apply(platform, workload("acme/web:2", 1))
    await eventually("scaled down", lambda: missing_for_image(platform, "acme/web:2", 2))
    await apply(platform, workload("acme/web:2", 1, cities=("LHR",)))
    await eventually("removed from a city", lambda: missing_for_image(platform, "acme/web:2", 1))
    try:
        await platform.project.delete(compute.WORKLOADS, "web", NAMESPACE)
    except errors.NotFound:
        pass  # it was deleted in an earlier run
    await eventually("destroyed", lambda: leftovers(platform))


def test_deploy_change_scale_and_destroy_leave_nothing_behind(tmp_path: Path) -> None:
    assert PlatformRun(0, tmp_path / "state.db").run(deploy_change_scale_destroy)


def test_two_equal_seeds_make_the_same_number_of_commits(tmp_path: Path) -> None:
    first, second = PlatformRun(7, tmp_path / "a.db"), PlatformRun(7, tmp_path / "b.db")

    assert first.run(deploy_change_scale_destroy)
    assert second.run(deploy_change_scale_destroy)

    assert first.commits == second.commits
