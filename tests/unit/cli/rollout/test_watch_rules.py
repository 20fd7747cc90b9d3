"""Rules of watching a rollout, one per test."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.compute.reasons import REASONS
from datum_compute.cli.errors import Exit
from datum_compute.cli.explain.reasons import explain
from datum_compute.cli.explain.suggestions import command
from datum_compute.cli.rollout.reads import MAX_LIST_FAILURES
from datum_compute.client.protocol import merge
from datum_compute.client.transport import HttpRequest
from tests.support.cli.rollout_plane import NAME, NAMESPACE, placement, rollout_plane
from tests.support.client.intercepted_transport import (
    Rule,
    SentRequest,
    is_watch,
    linked_client,
    record,
    refuse,
)

RESTART = {
    "template": {"metadata": {"annotations": {compute.ANNOTATION_RESTARTED_AT: "2026-01-01"}}}
}
SCALE = {"placements": [placement("default", ["DFW"], 2)]}
IMAGE = {
    "template": {
        "spec": {"runtime": {"sandbox": {"containers": [{"name": "app", "image": "a:2"}]}}}
    }
}


@pytest.mark.parametrize("change", [IMAGE, RESTART], ids=["update-or-undo", "restart"])
async def test_a_stale_status_after_update_restart_or_undo_is_not_done(
    change: dict[str, Any],
) -> None:
    """The counters of the previous spec look complete; they do not count."""
    async with rollout_plane() as on:
        await on.create()
        name = await on.deploy()
        await on.done(name)
        await on.observe()
        assert await on.watch() == 0
        await on.change(change)

        async def controllers() -> None:
            await asyncio.sleep(5)
            template = {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}}
            await on.client.patch(compute.WORKLOAD_DEPLOYMENTS, name, merge(template), NAMESPACE)
            await on.observe()
            await asyncio.sleep(5)  # the cell has not seen it: its report is older
            await on.report(name, ready=2, updated=2, replicas=2, behind=1)
            await asyncio.sleep(5)
            await on.report(name, ready=2, updated=1, replicas=2)
            await asyncio.sleep(5)
            await on.done(name)

        seconds, _ = await asyncio.gather(on.watch(), controllers())

        assert seconds == pytest.approx(20, abs=0.5)


async def test_an_added_city_without_a_deployment_is_pending() -> None:
    """A city that was added and has no deployment yet is Pending."""
    async with rollout_plane() as on:
        await on.create(("DFW", "LHR"))
        await on.done(await on.deploy("DFW"))

        async def controllers() -> None:
            await asyncio.sleep(3)
            late = await on.deploy("LHR")
            await on.observe()
            await asyncio.sleep(3)
            await on.done(late)

        seconds, _ = await asyncio.gather(on.watch(), controllers())

        assert seconds == pytest.approx(6, abs=0.5)
        assert "  default     LHR    0/2       0/2     Pending" in on.lines


async def test_two_placements_in_one_city_have_a_row_each() -> None:
    """Both have a row of their own, and both must be done."""
    async with rollout_plane() as on:
        await on.create()
        both = [placement("blue", ["DFW"], 2), placement("green", ["DFW"], 2)]
        await on.change({"placements": both})
        await on.done(await on.deploy("DFW", "blue"))
        green = await on.deploy("DFW", "green")
        await on.observe()

        async def cell() -> None:
            await asyncio.sleep(4)
            await on.done(green)

        seconds, _ = await asyncio.gather(on.watch(), cell())

        assert seconds == pytest.approx(4, abs=0.5)
        assert [line.split()[:2] for line in on.lines[1:]] == [
            ["blue", "DFW"],
            ["green", "DFW"],
            ["green", "DFW"],
        ]


async def test_a_stalled_rollout_is_blocked_until_it_moves() -> None:
    """Without progress for 30 s a city is Blocked, and Creating when it goes on."""
    async with rollout_plane() as on:
        await on.create()
        name = await on.deploy()
        await on.observe()
        await on.report(name, ready=1, updated=1, replicas=2, reason="PendingProgramming")

        async def cell() -> None:
            await asyncio.sleep(29)
            assert not any("Blocked" in line for line in on.lines)
            await asyncio.sleep(2)
            assert on.lines[-1].endswith("Blocked    the message of PendingProgramming")
            await on.report(name, ready=1, updated=2, replicas=2, reason="PendingProgramming")
            await asyncio.sleep(1)
            assert "Creating" in on.lines[-1]
            await on.done(name)

        seconds, _ = await asyncio.gather(on.watch(), cell())

        assert seconds == pytest.approx(32, abs=0.5)


async def test_a_changed_message_does_not_count_as_progress() -> None:
    async with rollout_plane() as on:
        await on.create()
        name = await on.deploy()
        await on.observe()

        async def cell() -> None:
            for second in range(0, 36, 3):
                await on.report(
                    name,
                    ready=1,
                    updated=1,
                    replicas=2,
                    reason="PendingProgramming",
                    message=f"asked {second}s ago",
                )
                await asyncio.sleep(3)

        failed, _ = await asyncio.gather(on.failure(timeout=36), cell())

        assert failed.exit_code == Exit.TIMED_OUT
        assert "Blocked" in on.lines[-1]


async def test_a_pending_city_with_a_reason_that_needs_action_is_blocked() -> None:
    """A reason that the user must act on also blocks a city that has not begun."""
    async with rollout_plane() as on:
        await on.create()
        name = await on.deploy()
        await on.observe()
        await on.report(name, reason="QuotaExceeded")

        failed = await on.failure()

        assert "Blocked    quota exceeded: the message of QuotaExceeded" in on.lines[-1]
        assert failed.exit_code == Exit.BLOCKED
        assert failed.suggestions == (command("quota"), command("why", NAME))


async def test_pending_without_a_report_is_blocked_after_30_seconds() -> None:
    async with rollout_plane() as on:
        await on.create()
        await on.deploy()
        await on.observe()

        failed = await on.failure(timeout=40)

        assert [line.split()[4] for line in on.lines[1:]] == ["Pending", "Blocked"]
        assert failed.exit_code == Exit.TIMED_OUT


@pytest.mark.parametrize(
    ("reason", "exit_code", "after"),
    [
        ("ImageUnavailable", Exit.ROLLOUT_FAILED, 0),
        ("InstanceCrashing", Exit.ROLLOUT_FAILED, 0),
        ("ConfigurationError", Exit.ROLLOUT_FAILED, 0),
        ("QuotaExceeded", Exit.BLOCKED, 30),
        ("ValidationFailed", Exit.BLOCKED, 30),
        ("NoMatchingLocation", Exit.BLOCKED, 30),
        ("NoCellForCity", Exit.BLOCKED, 30),
        ("AmbiguousCell", Exit.BLOCKED, 30),
    ],
)
async def test_waiting_ends_at_once_or_after_a_grace(
    reason: str, exit_code: Exit, after: float
) -> None:
    async with rollout_plane() as on:
        await on.create()
        name = await on.deploy()
        await on.observe()
        await on.report(name, reason=reason)
        started = asyncio.get_running_loop().time()

        failed = await on.failure()

        assert asyncio.get_running_loop().time() - started == pytest.approx(after, abs=0.5)
        assert failed.exit_code == exit_code
        assert f"the message of {reason}" in failed.message


async def test_failures_shorter_than_the_grace_do_not_end_the_wait() -> None:
    async with rollout_plane() as on:
        await on.create()
        name = await on.deploy()
        await on.observe()

        async def cell() -> None:
            for _ in range(3):
                await on.report(name, reason="QuotaExceeded")
                await asyncio.sleep(20)
                await on.report(name, reason="PendingProgramming")
                await asyncio.sleep(1)
            await on.done(name)

        seconds, _ = await asyncio.gather(on.watch(), cell())

        assert seconds == pytest.approx(63, abs=0.5)


async def test_a_rollout_to_zero_is_done_when_nothing_is_left() -> None:
    """With no desired replicas it is done only when none is left."""
    async with rollout_plane() as on:
        await on.create(minimum=1)
        name = await on.deploy(minimum=0)
        await on.observe()
        await on.report(name, replicas=2, desired=0)

        async def cell() -> None:
            await asyncio.sleep(3)
            await on.report(name, replicas=0, desired=0)

        seconds, _ = await asyncio.gather(on.watch(), cell())

        assert seconds == pytest.approx(3, abs=0.5)
        assert "  default     DFW    0/0       0/0     2     Updating" in on.lines


async def test_a_wait_ends_at_its_timeout_and_names_what_is_missing() -> None:
    """A wait ends when its time is up, and names what it still waits for."""
    async with rollout_plane() as on:
        await on.create(("DFW", "LHR"))
        await on.done(await on.deploy("DFW"))
        late = await on.deploy("LHR")
        await on.observe()
        await on.report(late, ready=1, updated=1, replicas=2, reason="PendingProgramming")
        started = asyncio.get_running_loop().time()

        failed = await on.failure(timeout=7)

        assert asyncio.get_running_loop().time() - started == pytest.approx(7, abs=0.1)
        assert failed.exit_code == Exit.TIMED_OUT
        assert failed.message == (
            '"web" is not ready after 7s; still waiting for LHR: the message of PendingProgramming'
        )


def is_list(request: HttpRequest) -> bool:
    plurals = (compute.WORKLOAD_DEPLOYMENTS.plural, compute.INSTANCES.plural)
    return request.path.endswith(plurals) and not is_watch(request)


async def test_persistent_list_errors_end_the_watch_with_exit_code_1() -> None:
    """Errors that persist end the watch with 1; a few are ignored."""
    async with rollout_plane() as on:
        await on.create()
        name = await on.deploy()
        await on.observe()
        lists: list[SentRequest] = []
        client, link = linked_client(
            on.embedded,
            "project/demo",
            Rule(record(lists), is_list),
            Rule(refuse(500, "InternalError", "out of order"), is_list),
        )

        failed = await on.failure(client=client)

        assert len(lists) == MAX_LIST_FAILURES
        assert failed.exit_code == Exit.FAILED
        assert "out of order" in failed.message

        async def recover() -> None:
            await asyncio.sleep(4.5)
            link.rules.clear()
            await on.done(name)

        await asyncio.gather(on.watch(client=client), recover())


async def test_columns_stay_aligned_with_their_header() -> None:
    """Every column begins under its title, however wide it becomes."""
    async with rollout_plane() as on:
        await on.create()
        wide = [placement("a-rather-long-name", ["DFW"], 2), placement("b", ["LHR"], 1000)]
        await on.change({"placements": wide})
        first = await on.deploy("DFW", "a-rather-long-name")
        second = await on.deploy("LHR", "b", minimum=1000)
        await on.observe()
        await on.report(second, ready=998, updated=999, replicas=1000, desired=1000)

        async def cell() -> None:
            await asyncio.sleep(1)
            await on.done(first)
            await on.done(second, 1000)

        await asyncio.gather(on.watch(), cell())

        header, *rows = on.lines
        starts = [header.index(title) for title in header.split()]
        assert len(rows) == 4
        for row in rows:
            cells = [row[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
            assert cells == row.split()
            assert all(row[start - 1] == " " for start in starts)


async def test_a_workload_deleted_while_watched_is_not_found_and_its_namesake_is_another() -> None:
    async with rollout_plane() as on:
        for again in (False, True):
            await on.create()
            await on.observe()

            async def delete(again: bool = again) -> None:
                await asyncio.sleep(2)
                await on.client.delete(compute.WORKLOADS, NAME, NAMESPACE)
                if again:
                    await on.create()

            failed, _ = await asyncio.gather(on.failure(), delete())

            if again:
                assert failed.exit_code == Exit.SUPERSEDED
                assert failed.message == '"web" was deleted and created again'
            else:
                assert failed.exit_code == Exit.NOT_FOUND
                assert failed.message == 'workload "web" was deleted while it was watched'


async def test_a_deployment_being_removed_is_shown_until_it_is_gone() -> None:
    async with rollout_plane() as on:
        await on.create(("DFW", "LHR"))
        await on.done(await on.deploy("DFW"))
        leaving = await on.deploy("LHR")
        await on.done(leaving)
        await on.change(SCALE)
        await on.observe()

        async def controllers() -> None:
            await asyncio.sleep(3)
            await on.client.delete(compute.WORKLOAD_DEPLOYMENTS, leaving, NAMESPACE)

        seconds, _ = await asyncio.gather(on.watch(), controllers())

        assert seconds == pytest.approx(3, abs=0.5)
        assert "  default     LHR    —         2       2     Removing" in on.lines


async def test_an_unserved_city_is_blocked_although_it_has_no_deployment() -> None:
    async with rollout_plane() as on:
        await on.create(("DFW", "XYZ"))
        await on.done(await on.deploy("DFW"))
        available = {
            "type": "Available",
            "status": "True",
            "reason": "AvailableDeploymentFound",
            "message": "Available in DFW; No available location serves XYZ",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        unserved = {
            "type": "Scheduled.XYZ",
            "status": "False",
            "reason": "NoMatchingLocation",
            "message": "No available location serves XYZ",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        await on.observe(placements=[{"name": "default", "conditions": [available, unserved]}])

        failed = await on.failure()

        assert failed.exit_code == Exit.BLOCKED
        assert failed.code == "NoMatchingLocation"
        assert "No available location serves XYZ" in failed.message


OF_A_STOP = ("Suspended", "ProjectSuspended")
"""What a deployment reports until its start reaches the cell; it ends no wait."""
NOT_HEALTHY = sorted(
    name for name, reason in REASONS.items() if not reason.healthy and name not in OF_A_STOP
)


@pytest.mark.parametrize("window", [0, 10], ids=["before it is complete", "in the window"])
@pytest.mark.parametrize("reason", NOT_HEALTHY)
async def test_a_wait_that_ends_for_a_reason_suggests_what_why_suggests(
    reason: str, window: float
) -> None:
    async with rollout_plane() as on:
        await on.create()
        name = await on.deploy()
        await on.observe()
        await on.report(name, updated=2, replicas=2, reason="" if window else reason)

        async def cell() -> None:
            await on.done(name)
            await asyncio.sleep(2)
            await on.report(name, ready=1, updated=2, replicas=2, reason=reason)

        async with asyncio.TaskGroup() as tasks:
            if window:
                tasks.create_task(cell())
            failed = await on.failure(60, window=window)

        step = explain(reason).next_command(NAME)
        assert list(failed.suggestions) == list(filter(None, {step: 0, command("why", NAME): 0}))
