"""Sleep: an idle Instance runs nothing, is Available all the same, and answers a connection."""

from __future__ import annotations

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client.remote_command import CommandRequest
from datum_compute.providers.conformance import commands
from datum_compute.providers.conformance.harness import (
    Body,
    Capability,
    Harness,
    addresses,
    available,
    condition,
    expect,
    ids,
    patch,
    promise,
    read,
    remove,
    run,
    settle,
    shell,
    wait,
    wait_available,
    wait_failure,
)
from datum_compute.providers.conformance.networks import join, start
from datum_compute.providers.conformance.suspension import resume, stop

SLEEP = Capability.SLEEP
PUBLISHED = Capability.PUBLISHED
PORT = 80
PORTS: Body = {"ports": [{"name": "http", "port": PORT}]}
SOON = {compute.ANNOTATION_SLEEP_AFTER: "1s"}
LATER = {compute.ANNOTATION_SLEEP_AFTER: "5s"}
"""Longer than it takes to ask an Instance something twice."""


async def start_sleeper(cell: Harness, name: str, after: dict[str, str] = SOON) -> Object:
    """One that serves HTTP, on the network of the cell."""
    return await start(cell, name, container=PORTS, annotations=after)


async def wait_asleep(cell: Harness, name: str) -> Object:
    async def holds() -> bool:
        found = await read(cell, name)
        asleep = condition(found, compute.CONDITION_ASLEEP).status == conditions.TRUE
        return asleep and not await ids(cell, found.metadata.uid)

    await wait(cell, holds, f"{name} is not asleep")
    return await read(cell, name)


async def ask(cell: Harness, found: Object) -> str:
    return await cell.answer(addresses(found)[1], PORT)


def expect_asleep(found: Object) -> None:
    expect(available(found).status == conditions.TRUE, "it is not Available")
    state = condition(found, compute.CONDITION_ASLEEP)
    reason = (state.status, state.reason)
    expect(reason == (conditions.TRUE, compute.REASON_ASLEEP), f"Asleep is {reason}")


@promise(SLEEP)
async def an_idle_instance_sleeps_and_is_available(cell: Harness) -> None:
    await join(cell)
    before = await start_sleeper(cell, "idle-0")
    said = condition(before, compute.CONDITION_ASLEEP).status
    expect(bool(said), "it does not say whether it sleeps")
    after = await wait_asleep(cell, "idle-0")

    expect_asleep(after)
    expect(addresses(after) == addresses(before), "its addresses have changed")


@promise()
async def an_instance_that_may_not_sleep_says_nothing_about_it(cell: Harness) -> None:
    found = await run(cell, "wakeful-0")
    expect(condition(found, compute.CONDITION_ASLEEP).status == "", "it has a condition Asleep")


@promise(SLEEP)
async def nothing_is_written_while_an_instance_sleeps(cell: Harness) -> None:
    await join(cell)
    await start_sleeper(cell, "still-asleep-0")
    before = await wait_asleep(cell, "still-asleep-0")
    await settle(cell)
    after = await read(cell, "still-asleep-0")

    same = before.metadata.resource_version == after.metadata.resource_version
    expect(same, "a sleeping Instance was written")


@promise(SLEEP)
async def an_instance_sleeps_on_over_a_restart_of_the_provider(cell: Harness) -> None:
    await join(cell)
    await start_sleeper(cell, "asleep-over-0")
    before = await wait_asleep(cell, "asleep-over-0")
    await cell.restart()
    await settle(cell)
    after = await read(cell, "asleep-over-0")

    expect(bytes(before.status) == bytes(after.status), "status changed over a restart")
    expect(not await ids(cell, after.metadata.uid), "it runs")


@promise(SLEEP)
async def a_sleeping_instance_is_stopped_and_started(cell: Harness) -> None:
    await join(cell)
    await start_sleeper(cell, "asleep-stopped-0")
    await wait_asleep(cell, "asleep-stopped-0")
    found = await stop(cell, "asleep-stopped-0")
    state = condition(found, compute.CONDITION_ASLEEP).status
    expect(state != conditions.TRUE, "what is stopped is asleep too")
    await resume(cell, "asleep-stopped-0")

    await wait_asleep(cell, "asleep-stopped-0")


@promise(SLEEP)
async def a_sleeping_instance_is_deleted_as_any_other(cell: Harness) -> None:
    await join(cell)
    uid = (await start_sleeper(cell, "asleep-deleted-0")).metadata.uid
    await wait_asleep(cell, "asleep-deleted-0")
    await remove(cell, "asleep-deleted-0")

    expect(not await cell.running(uid), "something of it is left")


@promise(SLEEP)
async def an_annotation_holds_an_instance_awake(cell: Harness) -> None:
    await join(cell)
    held = {compute.ANNOTATION_AWAKE_UNTIL: "9000-01-01T00:00:00Z"}
    await start_sleeper(cell, "held-0", {**SOON, **held})
    await settle(cell)
    state = condition(await read(cell, "held-0"), compute.CONDITION_ASLEEP)
    expect(state.status == conditions.FALSE, f"Asleep became {state.status}")
    past = {compute.ANNOTATION_AWAKE_UNTIL: "2000-01-01T00:00:00Z"}
    await patch(cell, "held-0", {"metadata": {"annotations": past}})

    await wait_asleep(cell, "held-0")


@promise(SLEEP, PUBLISHED)
async def a_connection_wakes_a_sleeping_instance(cell: Harness) -> None:
    await join(cell)
    await start_sleeper(cell, "woken-0", LATER)
    found = await wait_asleep(cell, "woken-0")
    before = await cell.running(found.metadata.uid)
    expect(await ask(cell, found) == "hello from woken-0\n", "it does not answer")

    async def awake() -> bool:
        state = condition(await read(cell, "woken-0"), compute.CONDITION_ASLEEP)
        return state.status == conditions.FALSE

    await wait(cell, awake, "it is not reported awake")
    expect(available(await read(cell, "woken-0")).status == conditions.TRUE, "it is not Available")
    after = await cell.running(found.metadata.uid)
    expect([each.id for each in before] == [each.id for each in after], "it was made anew")
    await wait_asleep(cell, "woken-0")


@promise(SLEEP, PUBLISHED, Capability.COMMANDS)
async def a_command_wakes_a_sleeping_instance_and_keeps_it_awake(cell: Harness) -> None:
    await join(cell)
    await start_sleeper(cell, "commanded-0")
    found = await wait_asleep(cell, "commanded-0")
    uid = found.metadata.uid
    session = await cell.commands().exec(uid, CommandRequest(("/bin/cat",), "app", stdin=True))
    await settle(cell)
    expect(len(await ids(cell, uid)) == 1, "it sleeps while a command runs")
    await session.end_input()
    await commands.read(cell, session)
    await session.aclose()

    await wait_asleep(cell, "commanded-0")


@promise(SLEEP, PUBLISHED)
async def an_instance_that_slept_before_a_restart_wakes(cell: Harness) -> None:
    await join(cell)
    await start_sleeper(cell, "woken-later-0")
    found = await wait_asleep(cell, "woken-later-0")
    await cell.restart()

    expect(await ask(cell, found) == "hello from woken-later-0\n", "it does not answer")


@promise(SLEEP, PUBLISHED, Capability.ENGINE)
async def an_instance_sleeps_on_over_a_restart_of_everything(cell: Harness) -> None:
    await join(cell)
    await start_sleeper(cell, "asleep-all-0")
    found = await wait_asleep(cell, "asleep-all-0")
    await cell.stop()
    async with cell.away():
        await cell.start()
        await settle(cell)
        expect_asleep(await read(cell, "asleep-all-0"))

    async def answers() -> bool:
        try:
            return await ask(cell, found) == "hello from asleep-all-0\n"
        except OSError:
            return False  # the provider has not found the engine again yet

    await wait(cell, answers, "it does not answer")


@promise(SLEEP, PUBLISHED, Capability.ENGINE)
async def an_instance_whose_containers_are_removed_while_it_sleeps_wakes(cell: Harness) -> None:
    await join(cell)
    await start_sleeper(cell, "discarded-asleep-0")
    found = await wait_asleep(cell, "discarded-asleep-0")
    await cell.discard(found.metadata.uid)

    expect(await ask(cell, found) == "hello from discarded-asleep-0\n", "it does not answer")


@promise(SLEEP, PUBLISHED, Capability.PROCESSES, slow=True)
async def a_waking_that_fails_is_reported_within_its_deadline(cell: Harness) -> None:
    await join(cell)
    script = "if test -e /slept; then while :; do sleep 1; done; fi; echo > /slept; httpd -f -p 80"
    container = {**PORTS, **shell(script)}
    deadline = {compute.ANNOTATION_WAKE_DEADLINE: "2s"}
    await start(cell, "lazy-0", container=container, annotations={**SOON, **deadline})
    found = await wait_asleep(cell, "lazy-0")

    async def stopped() -> bool:
        running = await cell.running(found.metadata.uid)
        return all('"paused"' not in each.description for each in running)

    await wait(cell, stopped, "it is not stopped after ten times its idle time")
    try:
        answer = await ask(cell, found)
    except OSError:
        answer = ""
    expect(not answer, "it has answered")
    failure = await wait_failure(cell, "lazy-0", compute.REASON_WAKE_FAILED)
    expect("waited for 2s" in failure.message, f"the message is {failure.message!r}")


async def sleep_is_refused_in_words(cell: Harness) -> None:
    """Shown by providers that lack :data:`Capability.SLEEP`."""
    await run(cell, "sleepless-0", container=PORTS, annotations=SOON)
    await settle(cell)
    found = await wait_available(cell, "sleepless-0")

    state = condition(found, compute.CONDITION_ASLEEP)
    expect(
        (state.status, state.reason) == (conditions.FALSE, compute.REASON_SLEEP_NOT_SUPPORTED),
        f"Asleep is {state}",
    )
    expect(len(await ids(cell, found.metadata.uid)) == 1, "it does not run")
