"""Lesson 21: a restart changed no visible counter, so its end could not be seen.

So: ``updatedReplicas`` and ``observedGeneration`` follow a restart, and the Up-to-date column
shows them.
"""

from __future__ import annotations

import asyncio

from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import merge
from datum_compute.providers.simulated.behaviour import START_SECONDS
from tests.support.cli.session import CliSession, cli_session

RESTARTED = compute.ANNOTATION_RESTARTED_AT


def _status(at: CliSession) -> tuple[compute.WorkloadStatus, int]:
    obj = at.act(at.client().get(compute.WORKLOADS, "web", "default"))
    return obj.view(compute.Workload).status, obj.metadata.generation


def _annotate(at: CliSession, **annotations: str) -> None:
    body = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
    at.act(at.client().patch(compute.WORKLOADS, "web", merge(body), "default"))


def _up_to_date(at: CliSession) -> str:
    header, row, *_ = at.run("workloads list").out.splitlines()
    return row[header.index("UP-TO-DATE") :].split()[0]


def test_lesson_21_updated_replicas_follow_a_restart_to_its_end() -> None:
    with cli_session("DFW") as at:
        assert at.run("deploy web --image acme/web:1 --city DFW --min 3 --yes").code == 0
        _annotate(at, **{START_SECONDS: "10"})
        at.wait(120)
        assert _up_to_date(at) == "3/3"
        _annotate(at, **{RESTARTED: "2026-01-01T00:10:00Z"})
        seen: list[int] = []
        for _ in range(60):
            at.act(asyncio.sleep(1))
            status, generation = _status(at)
            if status.observed_generation == generation:
                seen.append(status.updated_replicas)
                assert _up_to_date(at) == f"{status.updated_replicas}/3"

        assert sorted(set(seen)) == [1, 2, 3], "one after the other, from the first look on"
        assert seen == sorted(seen), "it only goes forward"


def test_lesson_21_nothing_is_up_to_date_until_the_cell_has_seen_the_restart() -> None:
    """Counters from before the restart do not count for it."""
    with cli_session("DFW") as at:
        assert at.run("deploy web --image acme/web:1 --city DFW --min 2 --yes").code == 0
        at.wait(5)
        status, generation = _status(at)
        assert (status.observed_generation, status.updated_replicas) == (generation, 2)
        at.platform.partitions.disconnect("dfw")  # the cell does not see the restart
        _annotate(at, **{RESTARTED: "2026-01-01T00:10:00Z"})
        at.wait(600)

        status, generation = _status(at)
        assert status.observed_generation == generation
        assert (status.updated_replicas, status.ready_replicas) == (0, 2)
