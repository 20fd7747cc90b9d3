"""Each reconcile of the product's controllers on stale views of a federation: it deletes nothing
that is wanted, creates nothing that never was, and releases nothing too early."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import pytest

from datum_compute.testing import loop
from tests.support.federation import crash_scenarios as scenarios
from tests.support.federation.stage import Stage, stage
from tests.support.federation.stale_views import CONTROLLERS, StaleViews

LAGS = 40
"""About as many events as a change of the image takes."""
PAUSES = (0.001, 0.02, 0.3, 1.0, 4.0, 40.0)
"""Seconds between two checks after each operation."""

Operation = Callable[[Stage], Awaitable[None]]

ALL_SEEDS = [pytest.param(seed, 1.0, marks=pytest.mark.long) for seed in range(2, 12)]


async def scale_up_beyond_the_quota(on: Stage) -> None:
    await scenarios.change(on, replace(scenarios.WEB, image="acme/web:2", minimum=4))


OPERATIONS: tuple[Operation, ...] = (
    scenarios.create,
    scenarios.scale_up,
    scenarios.lose_a_claim,
    scenarios.change_the_image,
    scenarios.scale_down,
    scale_up_beyond_the_quota,
    scenarios.restart,
    scenarios.destroy,
    scenarios.delete_and_recreate,
    scenarios.destroy,
)


async def run(
    seed: int, share: float, operations: Sequence[Operation], *, trusts_caches: bool = False
) -> StaleViews:
    async with stage(cities=("DFW",), grant={"instances": 3}, seed=seed) as on:
        views = StaleViews(on, lags=LAGS, share=share, seed=seed, trusts_caches=trusts_caches)
        async with views.recording():
            for operation in operations:
                await operation(on)
                for pause in PAUSES:
                    await asyncio.sleep(pause)
                    await views.check()
    return views


@pytest.mark.parametrize(("seed", "share"), [(1, 0.1), *ALL_SEEDS])
def test_no_stale_view_causes_a_wrong_write(seed: int, share: float) -> None:
    views = loop.run(run(seed, share, OPERATIONS), seed=seed)

    assert views.wrong == []
    # They ran, and wrote, without a wrong write.
    assert min(views.counts[f"{name} runs"] for name in CONTROLLERS) > 20
    assert min(views.counts[verb] for verb in ("create", "patch", "refused")) > 0


def test_controllers_without_live_reads_break_a_rule() -> None:
    views = loop.run(run(1, 0.1, OPERATIONS[:4], trusts_caches=True), seed=1)

    for controller in ("projector", "instance"):
        assert any(each.startswith(f"{controller}: delete of") for each in views.wrong)
