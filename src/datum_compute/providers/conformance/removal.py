"""Deletion: what runs is removed, whatever state it is in, and then the finalizer."""

from __future__ import annotations

import asyncio

from datum_compute.api.compute import v1alpha as compute
from datum_compute.providers.conformance.harness import (
    FAILURES,
    Capability,
    Harness,
    create,
    delete,
    expect,
    patch,
    promise,
    read,
    remove,
    run,
    shell,
    wait,
    wait_available,
    wait_deleted,
    wait_failure,
)

FOREIGN_FINALIZER = "conformance.compute.datumapis.com/hold"


async def _expect_nothing(cell: Harness, uid: str) -> None:
    found = await cell.running(uid)
    expect(not found, f"{len(found)} of a deleted Instance are left")


@promise()
async def a_deleted_instance_leaves_nothing(cell: Harness) -> None:
    uid = (await run(cell, "gone-0")).metadata.uid
    await remove(cell, "gone-0")

    await _expect_nothing(cell, uid)


@promise()
async def a_deletion_releases_only_the_finalizer_of_the_provider(cell: Harness) -> None:
    uid = (await run(cell, "deleted-0", finalizers=[FOREIGN_FINALIZER])).metadata.uid
    await delete(cell, "deleted-0")

    async def released() -> bool:
        return cell.finalizer not in (await read(cell, "deleted-0")).metadata.finalizers

    await wait(cell, released, "the provider's finalizer stays")
    left = await read(cell, "deleted-0")
    expect(FOREIGN_FINALIZER in left.metadata.finalizers, "a foreign finalizer was released")
    await _expect_nothing(cell, uid)
    await patch(cell, "deleted-0", {"metadata": {"finalizers": []}})
    await wait_deleted(cell, "deleted-0")


@promise()
async def a_released_instance_that_another_holds_is_not_started_again(cell: Harness) -> None:
    uid = (await run(cell, "ghost-0", finalizers=[FOREIGN_FINALIZER])).metadata.uid
    await delete(cell, "ghost-0")

    async def released() -> bool:
        return cell.finalizer not in (await read(cell, "ghost-0")).metadata.finalizers

    await wait(cell, released, "the provider's finalizer stays")
    await patch(cell, "ghost-0", {"metadata": {"annotations": {"example.com/note": "late"}}})
    await cell.restart()
    await asyncio.sleep(cell.settle_seconds)

    await _expect_nothing(cell, uid)
    await patch(cell, "ghost-0", {"metadata": {"finalizers": []}})


@promise()
async def an_instance_deleted_while_gated_is_released(cell: Harness) -> None:
    await create(cell, "unborn-0", gates=[compute.GATE_QUOTA])

    await remove(cell, "unborn-0")


@promise()
async def an_instance_of_which_nothing_exists_is_released(cell: Harness) -> None:
    """Its finalizer was stored, and the provider was killed before it started anything."""
    await create(cell, "nothing-0", gates=[compute.GATE_QUOTA], finalizers=[cell.finalizer])

    await remove(cell, "nothing-0")


@promise()
async def an_instance_deleted_while_it_starts_leaves_nothing(cell: Harness) -> None:
    uid = (await create(cell, "early-0")).metadata.uid

    async def held() -> bool:
        return cell.finalizer in (await read(cell, "early-0")).metadata.finalizers

    await wait(cell, held, "it is not started")
    await remove(cell, "early-0")
    await asyncio.sleep(cell.settle_seconds)

    await _expect_nothing(cell, uid)


@promise()
async def an_instance_that_cannot_run_can_be_deleted(cell: Harness) -> None:
    final = [each for each in FAILURES if each in compute.PROVIDER_FAILURES]
    for number, reason in enumerate(final):
        name = f"hopeless-{number}"
        uid = (await create(cell, name, change=cell.failure(reason).apply)).metadata.uid
        await wait_failure(cell, name, reason)
        await remove(cell, name)

        await _expect_nothing(cell, uid)


@promise()
async def an_instance_deleted_while_the_provider_is_down_is_released(cell: Harness) -> None:
    uid = (await run(cell, "down-0")).metadata.uid
    await cell.stop()
    await delete(cell, "down-0")
    await cell.start()

    await wait_deleted(cell, "down-0")
    await _expect_nothing(cell, uid)


@promise()
async def a_teardown_that_the_provider_did_not_finish_is_finished(cell: Harness) -> None:
    """Stopped in the middle of it."""
    uid = (await run(cell, "halfway-0")).metadata.uid
    await delete(cell, "halfway-0")
    await asyncio.sleep(0)
    await cell.restart()

    await wait_deleted(cell, "halfway-0")
    await _expect_nothing(cell, uid)


@promise()
async def a_deleted_instance_can_be_fixed_by_a_successor(cell: Harness) -> None:
    reason = compute.REASON_IMAGE_UNAVAILABLE
    await create(cell, "fixed-0", change=cell.failure(reason).apply)
    await wait_failure(cell, "fixed-0", reason)
    await remove(cell, "fixed-0")

    await run(cell, "fixed-0")


@promise(Capability.PROCESSES)
async def a_process_that_ignores_the_request_to_end_is_killed(cell: Harness) -> None:
    script = "trap '' TERM; while :; do sleep 1; done"
    uid = (await run(cell, "deaf-0", container=shell(script))).metadata.uid
    await remove(cell, "deaf-0")

    await _expect_nothing(cell, uid)


@promise(Capability.PROCESSES)
async def what_an_operator_removed_by_hand_can_be_deleted(cell: Harness) -> None:
    uid = (await run(cell, "empty-0")).metadata.uid
    await cell.stop()
    await cell.discard(uid)
    await delete(cell, "empty-0")
    await cell.start()

    await wait_deleted(cell, "empty-0")
    await _expect_nothing(cell, uid)


@promise(Capability.PROCESSES)
async def several_containers_are_removed_together(cell: Harness) -> None:
    beside = {"name": "beside", **shell("while :; do sleep 1; done")}
    uid = (await run(cell, "pair-0", others=[beside])).metadata.uid
    await remove(cell, "pair-0")

    await _expect_nothing(cell, uid)


@promise(Capability.PROCESSES)
async def one_that_waits_for_its_restart_can_be_deleted(cell: Harness) -> None:
    uid = (await create(cell, "waiting-0", container=shell("sleep 1; exit 1"))).metadata.uid
    await wait_failure(cell, "waiting-0", compute.REASON_INSTANCE_CRASHING)
    await remove(cell, "waiting-0")
    await asyncio.sleep(cell.settle_seconds)

    await _expect_nothing(cell, uid)


@promise()
async def a_name_is_free_again_at_once(cell: Harness) -> None:
    for _ in range(3):
        await create(cell, "quick-0")
        await remove(cell, "quick-0")
    uid = (await create(cell, "quick-0")).metadata.uid
    await wait_available(cell, "quick-0")

    found = await cell.running(uid)
    expect(len(found) == 1, f"{len(found)} of the last one are there")
