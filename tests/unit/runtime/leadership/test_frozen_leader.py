"""Two managers, one of them frozen at any step for longer than the lease: no double effect.

The frozen one may have read, decided and even called its client before it froze. Whatever
it does when it resumes, nothing of it may reach the server once the other leads.
"""

from __future__ import annotations

import asyncio
from functools import cache, partial
from typing import Any

import pytest

from datum_compute.api import core, crds
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.fleets.single import SingleFleet
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.request import Request
from datum_compute.runtime.watches.mapping import itself
from datum_compute.testing.server import embedded_server
from tests.support.runtime.frozen_process import (
    FROZEN_SECONDS,
    HandledRequest,
    Process,
    check,
    run_with_freeze,
    steps_of,
    stop_managers,
)

JOBS = 4
SHARES = 4
"""Tests that all steps are divided among, so that they may run at once."""

definitions = cache(crds.crds_for)  # shared by a hundred servers


def toy(process: Process) -> Controller:
    """For every job: a receipt with its own name, a count, and a note on the job."""
    cell = SingleFleet("cell", "single", process.client("cell/dfw"), process.env)

    async def reconcile(request: Request) -> None:
        cluster = cell.get(request.cluster)
        assert cluster is not None
        job = cluster.cache(core.CONFIG_MAPS).get(request.name, request.namespace)
        if job is None or not job.name.startswith("job-") or job.metadata.annotations:
            return
        body = {"metadata": {"name": f"receipt-{job.name}"}}
        try:
            await cluster.client.create(core.CONFIG_MAPS, body, request.namespace)
        except errors.AlreadyExists:
            pass
        await asyncio.sleep(1.7)  # long enough that renewals happen meanwhile
        note = {"metadata": {"annotations": {"done": "yes"}}}
        await cluster.client.patch(core.CONFIG_MAPS, job.name, merge(note), request.namespace)

    return Controller("toy", cell, reconcile, watches=[Watch(cell, core.CONFIG_MAPS, itself)])


async def two_toys(*, fenced: bool = True) -> list[HandledRequest]:
    log: list[HandledRequest] = []
    async with embedded_server(cells=("dfw",), projects=(), crds_for=definitions) as embedded:
        admin = embedded.client("cell/dfw")
        one = Process("one", embedded, log, seed=1, fenced=fenced)
        two = Process("two", embedded, log, seed=2, fenced=fenced)
        tasks = [one.start(toy(one))]
        await asyncio.sleep(0.5)
        tasks.append(two.start(toy(two)))
        for number in range(JOBS):
            await admin.create(core.CONFIG_MAPS, {"metadata": {"name": f"job-{number}"}}, "default")
            await asyncio.sleep(2.0)
        await asyncio.sleep(2 * FROZEN_SECONDS)
        for number in range(JOBS):
            job = await admin.get(core.CONFIG_MAPS, f"job-{number}", "default")
            assert job.metadata.annotations == {"done": "yes"}
            await admin.get(core.CONFIG_MAPS, f"receipt-job-{number}", "default")
        await stop_managers(tasks)
    return log


def freeze_at(main: Any, step: int) -> None:
    log, loop = run_with_freeze(main, victim="one", step=step, seconds=FROZEN_SECONDS)
    assert loop.froze
    try:
        check(log)
    except AssertionError as error:
        raise AssertionError(f"frozen at step {step}: {error}") from error


def test_a_frozen_leader_writes_nothing_once_another_leads() -> None:
    steps = steps_of(two_toys)

    assert steps > 200
    # Most steps are at the beginning; after that it mostly renews.
    for step in (*range(20, 100, 2), *range(100, steps, 40)):
        freeze_at(two_toys, step)


@pytest.mark.long
@pytest.mark.parametrize("share", range(SHARES))
def test_a_frozen_leader_writes_nothing_wherever_it_freezes(share: int) -> None:
    for step in range(share, steps_of(two_toys), SHARES):
        freeze_at(two_toys, step)


def test_without_the_fence_a_frozen_leader_would_write() -> None:
    """The scenario can fail: some step of these is between a decision and its write."""
    unfenced = partial(two_toys, fenced=False)

    with pytest.raises(AssertionError, match="while two leads"):
        for step in range(20, 100):
            freeze_at(unfenced, step)
