"""What cannot run is reported with a declared reason, and what is not offered is refused."""

from __future__ import annotations

import asyncio

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.providers.conformance.harness import (
    Body,
    Capability,
    Harness,
    available,
    condition,
    create,
    expect,
    promise,
    read,
    wait,
    wait_available,
    wait_failure,
)


async def _expect_failure(cell: Harness, reason: str) -> None:
    failure = cell.failure(reason)
    name = f"{reason.lower()}-0"
    await create(cell, name, template_hash="tried", change=failure.apply)
    state = await wait_failure(cell, name, reason)

    expect(failure.words in state.message, f"the message is {state.message!r}")
    observed = (await read(cell, name)).view(compute.Instance).observed_template_hash
    expect(observed == "tried", f"observedTemplateHash of a failed one is {observed!r}")


@promise()
async def an_image_that_cannot_be_had_is_reported(cell: Harness) -> None:
    await _expect_failure(cell, compute.REASON_IMAGE_UNAVAILABLE)


@promise()
async def a_template_that_cannot_run_is_reported(cell: Harness) -> None:
    await _expect_failure(cell, compute.REASON_CONFIGURATION_ERROR)


@promise()
async def an_instance_that_crashes_is_reported(cell: Harness) -> None:
    await _expect_failure(cell, compute.REASON_INSTANCE_CRASHING)


@promise(Capability.CAPACITY)
async def an_instance_too_large_for_the_site_is_reported(cell: Harness) -> None:
    await _expect_failure(cell, compute.REASON_INSUFFICIENT_CAPACITY)


@promise()
async def what_never_ran_is_not_programmed(cell: Harness) -> None:
    reason = compute.REASON_IMAGE_UNAVAILABLE
    await create(cell, "never-0", change=cell.failure(reason).apply)
    await wait_failure(cell, "never-0", reason)

    programmed = condition(await read(cell, "never-0"), compute.CONDITION_PROGRAMMED)
    expect(programmed.status == conditions.FALSE, f"Programmed is {programmed.status}")
    expect(programmed.reason == reason, f"Programmed has reason {programmed.reason}")


@promise()
async def nothing_runs_of_what_cannot_run(cell: Harness) -> None:
    for reason in (compute.REASON_IMAGE_UNAVAILABLE, compute.REASON_CONFIGURATION_ERROR):
        name = f"unable-{reason.lower()}"
        uid = (await create(cell, name, change=cell.failure(reason).apply)).metadata.uid
        await wait_failure(cell, name, reason)

        found = [each for each in await cell.running(uid) if each.running]
        expect(not found, f"something runs in spite of {reason}")


@promise()
async def a_failure_is_not_withdrawn_while_it_is_tried_again(cell: Harness) -> None:
    reason = compute.REASON_IMAGE_UNAVAILABLE
    await create(cell, "steady-0", change=cell.failure(reason).apply)
    before = await wait_failure(cell, "steady-0", reason)
    deadline = asyncio.get_running_loop().time() + cell.settle_seconds + cell.retry_seconds
    while asyncio.get_running_loop().time() < deadline:
        now = available(await read(cell, "steady-0"))
        expect(now == before, f"{before.reason} became {now.status} {now.reason}")
        await asyncio.sleep(0.05)


@promise(Capability.VIRTUAL_MACHINES)
async def a_virtual_machine_runs(cell: Harness) -> None:
    await create(cell, "machine-0", change=_virtual_machine)
    await wait_available(cell, "machine-0")


@promise(Capability.DISKS)
async def an_instance_with_a_disk_runs(cell: Harness) -> None:
    await create(cell, "disk-0", change=_disk)
    await wait_available(cell, "disk-0")


async def a_virtual_machine_is_refused(cell: Harness) -> None:
    """How a provider shows that it lacks virtual machines."""
    await _expect_refused(cell, _virtual_machine, "virtual machine")


async def a_disk_is_refused(cell: Harness) -> None:
    """How a provider shows that it lacks disks."""
    await _expect_refused(cell, _disk, "disk")


async def _expect_refused(cell: Harness, change: object, words: str) -> None:
    uid = (await create(cell, "refused-0", change=change)).metadata.uid
    state = await wait_failure(cell, "refused-0", compute.REASON_CONFIGURATION_ERROR)

    expect(words in state.message, f"the message is {state.message!r}")
    expect(not await cell.running(uid), "it runs all the same")

    async def steady() -> bool:
        return available(await read(cell, "refused-0")) == state

    await asyncio.sleep(cell.settle_seconds)
    await wait(cell, steady, "the refusal was withdrawn")


def _disk(body: Body) -> None:
    body["spec"]["volumes"] = [
        {
            "name": "boot",
            "disk": {"template": {"spec": {"resources": {"requests": {"storage": "1Gi"}}}}},
        }
    ]


def _virtual_machine(body: Body) -> None:
    _disk(body)
    runtime = body["spec"]["runtime"]
    del runtime["sandbox"]
    runtime["virtualMachine"] = {"volumeAttachments": [{"name": "boot"}]}
