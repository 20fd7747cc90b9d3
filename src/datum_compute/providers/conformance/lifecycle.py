"""Starting, reporting, restarts of the provider, many Instances at once."""

from __future__ import annotations

import asyncio

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.core.objects import NAMESPACES
from datum_compute.client import errors
from datum_compute.providers.conformance.harness import (
    STEP_SECONDS,
    Capability,
    Harness,
    available,
    build_instance,
    condition,
    create,
    delete,
    expect,
    ids,
    patch,
    promise,
    read,
    remove,
    run,
    set_gates,
    settle,
    wait,
    wait_available,
    wait_deleted,
    wait_failure,
)

MANY = 8


# Gates.


@promise()
async def a_gated_instance_is_left_alone(cell: Harness) -> None:
    uid = (await create(cell, "gated-0", gates=[compute.GATE_QUOTA])).metadata.uid
    await settle(cell)
    found = await read(cell, "gated-0")

    expect(cell.finalizer not in found.metadata.finalizers, "finalizer on a gated Instance")
    programmed = condition(found, compute.CONDITION_PROGRAMMED).status
    expect(programmed == conditions.UNKNOWN, "Programmed set behind a gate")
    expect(not await cell.running(uid), "it runs behind a gate")


@promise()
async def an_unknown_gate_holds_an_instance_too(cell: Harness) -> None:
    uid = (await create(cell, "odd-0", gates=["example.com/odd"])).metadata.uid
    await settle(cell)

    expect(not await cell.running(uid), "it runs behind a gate that the provider does not know")
    await set_gates(cell, "odd-0", [])
    await wait_available(cell, "odd-0")


@promise()
async def the_last_gate_starts_it(cell: Harness) -> None:
    await create(cell, "started-0", gates=[compute.GATE_NETWORK, compute.GATE_QUOTA])
    await set_gates(cell, "started-0", [compute.GATE_QUOTA])
    await settle(cell)
    held = await read(cell, "started-0")
    await set_gates(cell, "started-0", [])

    expect(cell.finalizer not in held.metadata.finalizers, "started behind a gate")
    await wait_available(cell, "started-0")


@promise()
async def a_gate_that_is_set_again_does_not_stop_what_runs(cell: Harness) -> None:
    uid = (await run(cell, "again-0")).metadata.uid
    before = await ids(cell, uid)
    await set_gates(cell, "again-0", [compute.GATE_QUOTA])
    await settle(cell)

    expect(await ids(cell, uid) == before, "a gate stopped a running Instance")
    status = available(await read(cell, "again-0")).status
    expect(status == conditions.TRUE, "a gate withdrew Available")


# Reports.


@promise()
async def a_running_instance_reports_both_conditions_and_its_template(cell: Harness) -> None:
    found = await run(cell, "running-0", template_hash="abc123")

    programmed = condition(found, compute.CONDITION_PROGRAMMED).status
    expect(programmed == conditions.TRUE, "not Programmed")
    observed = found.view(compute.Instance).observed_template_hash
    expect(observed == "abc123", f"observedTemplateHash is {observed!r}")


@promise()
async def what_runs_is_one_container_of_the_image(cell: Harness) -> None:
    found = await cell.running((await run(cell, "one-0")).metadata.uid)

    seen = [(each.container, each.running) for each in found]
    expect(seen == [("app", True)], f"what runs is {seen}")
    expect(cell.image in found[0].image, f"it runs image {found[0].image}")


@promise()
async def what_runs_is_held_by_the_finalizer_of_the_provider(cell: Harness) -> None:
    await create(cell, "held-0")
    uid = (await read(cell, "held-0")).metadata.uid

    async def runs() -> bool:
        started = bool(await cell.running(uid))
        held = cell.finalizer in (await read(cell, "held-0")).metadata.finalizers
        expect(held or not started, "it runs without the finalizer")
        return started

    await wait(cell, runs, "it does not run")


@promise()
async def ready_and_the_conditions_of_others_are_not_touched(cell: Harness) -> None:
    await create(cell, "others-0", gates=[compute.GATE_QUOTA])
    ours = conditions.with_condition(
        (await read(cell, "others-0")).view(compute.Instance).status.conditions,
        compute.CONDITION_QUOTA_GRANTED,
        conditions.TRUE,
        compute.REASON_QUOTA_AVAILABLE,
        "granted",
        now=conditions.EPOCH,
    )
    await patch(cell, "others-0", {"status": {"conditions": conditions.to_wire(ours)}}, "status")
    await set_gates(cell, "others-0", [])
    found = await wait_available(cell, "others-0")

    ready = condition(found, compute.CONDITION_READY).status
    expect(ready == conditions.UNKNOWN, "Ready was written")
    granted = condition(found, compute.CONDITION_QUOTA_GRANTED).status
    expect(granted == conditions.TRUE, f"QuotaGranted became {granted}")


@promise()
async def spec_labels_and_annotations_are_not_touched(cell: Harness) -> None:
    labels, annotations = {"team": "red"}, {"example.com/note": "ours"}
    before = await create(cell, "plain-0", labels=labels, annotations=annotations)
    after = await wait_available(cell, "plain-0")

    expect(bytes(before.spec) == bytes(after.spec), "the spec was written")
    expect(after.metadata.labels == labels, f"labels became {after.metadata.labels}")
    expect(after.metadata.annotations == annotations, "annotations were written")


@promise()
async def nothing_is_written_while_nothing_changes(cell: Harness) -> None:
    before = await run(cell, "idle-0")
    await settle(cell)
    after = await read(cell, "idle-0")

    same = before.metadata.resource_version == after.metadata.resource_version
    expect(same, "an idle Instance was written")


@promise()
async def a_report_that_another_writer_changed_is_put_back(cell: Harness) -> None:
    found = await run(cell, "changed-0")
    changed = conditions.with_condition(
        found.view(compute.Instance).status.conditions,
        compute.CONDITION_AVAILABLE,
        conditions.FALSE,
        compute.REASON_INSTANCE_CRASHING,
        "not so",
        now=conditions.EPOCH,
    )
    await patch(
        cell, "changed-0", {"status": {"conditions": conditions.to_wire(changed)}}, "status"
    )

    await wait_available(cell, "changed-0")


@promise()
async def a_finalizer_that_was_taken_away_is_put_back(cell: Harness) -> None:
    uid = (await run(cell, "bare-0")).metadata.uid
    before = await ids(cell, uid)
    await patch(cell, "bare-0", {"metadata": {"finalizers": []}})

    async def held() -> bool:
        return cell.finalizer in (await read(cell, "bare-0")).metadata.finalizers

    await wait(cell, held, "a running Instance stays without finalizer")
    expect(await ids(cell, uid) == before, "it was started again")


@promise()
async def another_annotation_disturbs_nothing_that_runs(cell: Harness) -> None:
    uid = (await run(cell, "noted-0")).metadata.uid
    before = await ids(cell, uid)
    await patch(cell, "noted-0", {"metadata": {"annotations": {"example.com/note": "later"}}})
    await settle(cell)

    expect(await ids(cell, uid) == before, "it was started again")
    status = available(await read(cell, "noted-0")).status
    expect(status == conditions.TRUE, "Available was withdrawn")


# Restarts of the provider.


@promise()
async def a_restart_of_the_provider_disturbs_nothing(cell: Harness) -> None:
    before = await run(cell, "kept-0")
    ran = await ids(cell, before.metadata.uid)
    await cell.restart()
    await settle(cell)
    after = await read(cell, "kept-0")

    expect(bytes(before.status) == bytes(after.status), "status changed over a restart")
    expect(await ids(cell, before.metadata.uid) == ran, "it was started again")


@promise()
async def several_restarts_in_a_row_double_nothing(cell: Harness) -> None:
    uid = (await create(cell, "doubled-0")).metadata.uid
    for _ in range(3):
        await cell.restart()
    await wait_available(cell, "doubled-0")
    await settle(cell)

    found = await cell.running(uid)
    expect(len(found) == 1, f"{len(found)} of one Instance are there")


@promise()
async def an_instance_created_while_the_provider_is_down_starts_later(cell: Harness) -> None:
    await cell.stop()
    await create(cell, "later-0")
    await cell.start()

    await wait_available(cell, "later-0")


@promise()
async def a_gate_removed_while_the_provider_is_down_starts_it_later(cell: Harness) -> None:
    await create(cell, "opened-0", gates=[compute.GATE_QUOTA])
    await cell.stop()
    await set_gates(cell, "opened-0", [])
    await cell.start()

    await wait_available(cell, "opened-0")


@promise()
async def a_failure_is_still_reported_after_a_restart(cell: Harness) -> None:
    reason = compute.REASON_IMAGE_UNAVAILABLE
    await create(cell, "lost-0", change=cell.failure(reason).apply)
    before = await wait_failure(cell, "lost-0", reason)
    await cell.restart()
    await settle(cell)

    after = await wait_failure(cell, "lost-0", reason)
    expect(after == before, f"it reports {after.message!r} after {before.message!r}")


# Successors.


@promise()
async def a_successor_of_the_same_name_runs_its_own_template(cell: Harness) -> None:
    first = await run(cell, "reused-0", template_hash="first")
    ran = await ids(cell, first.metadata.uid)
    await remove(cell, "reused-0")
    second = await run(cell, "reused-0", template_hash="second")

    observed = second.view(compute.Instance).observed_template_hash
    expect(observed == "second", f"the template that runs is {observed!r}")
    shared = set(ran) & set(await ids(cell, second.metadata.uid))
    expect(not shared, "it runs what its predecessor ran")


@promise()
async def a_successor_never_adopts_what_its_predecessor_left(cell: Harness) -> None:
    """The predecessor is deleted by force while the provider is down, so it is still there."""
    first = (await run(cell, "left-0", template_hash="first")).metadata.uid
    ran = await ids(cell, first)
    await cell.stop()
    await patch(cell, "left-0", {"metadata": {"finalizers": []}})
    await remove(cell, "left-0")
    second = (await create(cell, "left-0", template_hash="second")).metadata.uid
    await cell.start()
    found = await wait_available(cell, "left-0")

    observed = found.view(compute.Instance).observed_template_hash
    expect(observed == "second", f"the template that runs is {observed!r}")
    expect(len(await ids(cell, second)) == 1, "the successor has nothing of its own")
    expect(not set(ran) & set(await ids(cell, second)), "it adopted what was left")


# Several Instances.


@promise()
async def many_instances_start_at_once(cell: Harness) -> None:
    names = [f"many-{number}" for number in range(MANY)]
    created = await asyncio.gather(*(create(cell, name) for name in names))
    await asyncio.gather(*(wait_available(cell, name) for name in names))

    found = [await ids(cell, each.metadata.uid) for each in created]
    expect(all(len(each) == 1 for each in found), f"they run {found}")
    expect(len({each[0] for each in found}) == MANY, "two Instances share what runs")


@promise()
async def an_instance_that_fails_does_not_hold_up_others(cell: Harness) -> None:
    reasons = (compute.REASON_IMAGE_UNAVAILABLE, compute.REASON_CONFIGURATION_ERROR)
    for number, reason in enumerate(reasons):
        await create(cell, f"bad-{number}", change=cell.failure(reason).apply)
    for number in range(3):
        await create(cell, f"good-{number}")

    for number in range(3):
        await wait_available(cell, f"good-{number}")
    for number, reason in enumerate(reasons):
        await wait_failure(cell, f"bad-{number}", reason)


@promise()
async def the_end_of_one_instance_leaves_the_others_alone(cell: Harness) -> None:
    uids = [(await run(cell, f"stays-{number}")).metadata.uid for number in range(3)]
    before = [await ids(cell, uid) for uid in uids]
    await remove(cell, "stays-1")
    await settle(cell)

    after = [await ids(cell, uid) for uid in uids]
    expect(after == [before[0], [], before[2]], f"what runs went from {before} to {after}")


@promise()
async def instances_created_and_deleted_together_end_as_written(cell: Harness) -> None:
    names = [f"mixed-{number}" for number in range(MANY)]
    created = await asyncio.gather(*(create(cell, name) for name in names))
    await asyncio.sleep(STEP_SECONDS)
    await asyncio.gather(*(delete(cell, name) for name in names[::2]))
    await asyncio.gather(*(wait_deleted(cell, name) for name in names[::2]))
    await asyncio.gather(*(wait_available(cell, name) for name in names[1::2]))

    for each in created[::2]:
        expect(not await cell.running(each.metadata.uid), "a deleted Instance runs")
    for each in created[1::2]:
        expect(len(await ids(cell, each.metadata.uid)) == 1, "an Instance does not run once")


@promise()
async def one_name_in_two_namespaces_is_two_instances(cell: Harness) -> None:
    other = "conformance-other"
    try:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}}
        await cell.client.create(NAMESPACES, namespace)
    except errors.AlreadyExists:
        pass
    first = (await run(cell, "twin-0")).metadata.uid
    body = build_instance(cell, "twin-0")
    body["metadata"]["namespace"] = other
    second = (await cell.client.create(compute.INSTANCES, body, other)).metadata.uid

    async def both() -> bool:
        found = await cell.client.get(compute.INSTANCES, "twin-0", other)
        return available(found).status == conditions.TRUE

    await wait(cell, both, "the one in the other namespace is not Available")
    ran = await ids(cell, first) + await ids(cell, second)
    expect(len(set(ran)) == 2, f"what runs is {ran}")
    await cell.client.delete(compute.INSTANCES, "twin-0", other)

    async def alone() -> bool:
        return not await cell.running(second)

    await wait(cell, alone, "the deleted one still runs")
    expect(await ids(cell, first) == ran[:1], "the other one was disturbed")


# What runs the Instances is away.


@promise(Capability.ENGINE)
async def nothing_is_withdrawn_while_the_engine_is_away(cell: Harness) -> None:
    before = await run(cell, "unseen-0")
    async with cell.away():
        await settle(cell)
        during = await read(cell, "unseen-0")
    await settle(cell)

    expect(bytes(before.status) == bytes(during.status), "absence was taken for a failure")
    expect(len(await ids(cell, before.metadata.uid)) == 1, "it does not run once")


@promise(Capability.ENGINE)
async def an_instance_created_while_the_engine_is_away_starts_later(cell: Harness) -> None:
    async with cell.away():
        await create(cell, "patient-0")
        await settle(cell)
        status = available(await read(cell, "patient-0")).status
        expect(status != conditions.FALSE, "the Instance is blamed for an engine that is away")

    await wait_available(cell, "patient-0")


@promise(Capability.ENGINE)
async def an_instance_deleted_while_the_engine_is_away_is_removed_later(cell: Harness) -> None:
    uid = (await run(cell, "stuck-0")).metadata.uid
    async with cell.away():
        await delete(cell, "stuck-0")
        await settle(cell)
        held = cell.finalizer in (await read(cell, "stuck-0")).metadata.finalizers
        expect(held, "the finalizer was released while nothing could be removed")

    await wait_deleted(cell, "stuck-0")
    expect(not await cell.running(uid), "a deleted Instance runs")
