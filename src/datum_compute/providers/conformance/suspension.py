"""Stopping and starting: nothing runs meanwhile, and nothing is lost."""

from __future__ import annotations

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.providers.conformance.harness import (
    Capability,
    Harness,
    addresses,
    available,
    condition,
    create,
    expect,
    ids,
    patch,
    promise,
    read,
    remove,
    run,
    set_gates,
    settle,
    shell,
    wait,
    wait_available,
    wait_failure,
)
from datum_compute.providers.conformance.networks import join, start
from datum_compute.providers.conformance.processes import IDLE, wait_line

KEPT = Capability.KEPT
MARK = {compute.ANNOTATION_SUSPENDED: compute.SUSPENDED}
SUSPENDED = conditions.ConditionState(conditions.FALSE, compute.REASON_SUSPENDED, "")


async def mark(cell: Harness, name: str, value: str | None = compute.SUSPENDED) -> None:
    annotations = {compute.ANNOTATION_SUSPENDED: value}
    await patch(cell, name, {"metadata": {"annotations": annotations}})


def is_stopped(found: Object) -> bool:
    suspended = found.view(compute.Instance).status.suspended
    return suspended and available(found)._replace(message="") == SUSPENDED


async def wait_stopped(cell: Harness, name: str) -> Object:
    async def holds() -> bool:
        return is_stopped(await read(cell, name))

    await wait(cell, holds, f"{name} is not reported as stopped")
    found = await read(cell, name)
    expect(not await ids(cell, found.metadata.uid), f"{name} is reported as stopped and runs")
    return found


async def stop(cell: Harness, name: str) -> Object:
    await mark(cell, name)
    return await wait_stopped(cell, name)


async def resume(cell: Harness, name: str) -> Object:
    await mark(cell, name, None)
    found = await wait_available(cell, name)
    expect(not found.view(compute.Instance).status.suspended, f"{name} is reported as stopped")
    return found


@promise()
async def a_stopped_instance_runs_nothing_until_it_is_started(cell: Harness) -> None:
    uid = (await run(cell, "stopped-0")).metadata.uid
    found = await stop(cell, "stopped-0")
    await settle(cell)

    programmed = condition(found, compute.CONDITION_PROGRAMMED).status
    expect(programmed == conditions.TRUE, f"Programmed became {programmed}")
    expect(cell.finalizer in found.metadata.finalizers, "the finalizer was released")
    expect(not await ids(cell, uid), "it was started again")
    await resume(cell, "stopped-0")
    expect(len(await ids(cell, uid)) == 1, "it does not run once")


@promise()
async def nothing_is_written_while_an_instance_is_stopped(cell: Harness) -> None:
    await run(cell, "silent-0")
    before = await stop(cell, "silent-0")
    await settle(cell)
    after = await read(cell, "silent-0")

    same = before.metadata.resource_version == after.metadata.resource_version
    expect(same, "a stopped Instance was written")


@promise()
async def a_stopped_instance_stays_so_over_a_restart_of_the_provider(cell: Harness) -> None:
    await run(cell, "still-0")
    before = await stop(cell, "still-0")
    await cell.restart()
    await settle(cell)
    after = await wait_stopped(cell, "still-0")

    expect(bytes(before.status) == bytes(after.status), "status changed over a restart")
    await resume(cell, "still-0")


@promise()
async def an_instance_stopped_while_the_provider_is_down_is_stopped_later(cell: Harness) -> None:
    await run(cell, "unseen-stop-0")
    await cell.stop()
    await mark(cell, "unseen-stop-0")
    await cell.start()

    await wait_stopped(cell, "unseen-stop-0")


@promise()
async def an_instance_stopped_before_it_starts_never_runs(cell: Harness) -> None:
    gates = [compute.GATE_QUOTA]
    uid = (await create(cell, "early-0", gates=gates, annotations=MARK)).metadata.uid
    await set_gates(cell, "early-0", [])
    await wait_stopped(cell, "early-0")
    await settle(cell)

    expect(not await ids(cell, uid), "it was started")
    await resume(cell, "early-0")


@promise()
async def an_instance_that_fails_is_stopped_and_no_longer_failed(cell: Harness) -> None:
    reason = compute.REASON_IMAGE_UNAVAILABLE
    await create(cell, "failing-0", change=cell.failure(reason).apply)
    await wait_failure(cell, "failing-0", reason)
    await stop(cell, "failing-0")
    await mark(cell, "failing-0", None)

    await wait_failure(cell, "failing-0", reason)


@promise()
async def an_instance_started_while_it_is_being_stopped_runs(cell: Harness) -> None:
    uid = (await run(cell, "hasty-0")).metadata.uid
    await mark(cell, "hasty-0")
    await mark(cell, "hasty-0", None)
    await settle(cell)

    await wait_available(cell, "hasty-0")
    expect(len(await ids(cell, uid)) == 1, "it does not run once")


@promise()
async def a_stopped_instance_is_deleted_as_any_other(cell: Harness) -> None:
    uid = (await run(cell, "unwanted-0")).metadata.uid
    await stop(cell, "unwanted-0")
    await remove(cell, "unwanted-0")

    expect(not await cell.running(uid), "something of it is left")


@promise(Capability.ADDRESSES, KEPT)
async def a_stopped_instance_keeps_its_address(cell: Harness) -> None:
    await join(cell)
    before = addresses(await start(cell, "homed-0"))
    await stop(cell, "homed-0")
    others = [addresses(await start(cell, "homed-1"))[0]]
    await cell.restart()
    others.append(addresses(await start(cell, "homed-2"))[0])
    after = addresses(await resume(cell, "homed-0"))

    expect(before[0] not in others, "its address was given to another")
    expect(after == before, f"its addresses went from {before} to {after}")


@promise(Capability.PROCESSES, Capability.LOGS, KEPT)
async def what_an_instance_has_written_is_there_after_a_stop(cell: Harness) -> None:
    script = f"cat /note 2>/dev/null; echo kept > /note; {IDLE}"
    uid = (await run(cell, "noting-0", container=shell(script))).metadata.uid
    await stop(cell, "noting-0")
    await resume(cell, "noting-0")

    await wait_line(cell, uid, "kept")


@promise(Capability.ENGINE)
async def a_stopped_instance_stays_so_while_the_engine_is_away(cell: Harness) -> None:
    await run(cell, "away-0")
    before = await stop(cell, "away-0")
    async with cell.away():
        await patch(cell, "away-0", {"metadata": {"annotations": {"example.com/note": "later"}}})
        await settle(cell)

    after = await wait_stopped(cell, "away-0")
    expect(bytes(before.status) == bytes(after.status), "status changed")


async def a_started_instance_is_made_anew(cell: Harness) -> None:
    """Shown by providers that lack :data:`Capability.KEPT`."""
    uid = (await run(cell, "anew-0")).metadata.uid
    before = await ids(cell, uid)
    await stop(cell, "anew-0")
    expect(not await cell.running(uid), "something of it is kept")
    await resume(cell, "anew-0")

    expect(not set(before) & set(await ids(cell, uid)), "it is the same as before")
