"""Instances that are processes: what they are given, what they may do, and how they end."""

from __future__ import annotations

import asyncio

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.providers.conformance.harness import (
    Body,
    Capability,
    Harness,
    available,
    create,
    expect,
    ids,
    promise,
    read,
    run,
    settle,
    shell,
    wait,
    wait_available,
    wait_failure,
)

PROCESSES, LOGS = Capability.PROCESSES, Capability.LOGS
IDLE = "while :; do sleep 1; done"


async def printed(cell: Harness, uid: str) -> list[str]:
    return [line.text async for line in cell.logs().lines(uid)]


async def wait_line(cell: Harness, uid: str, wanted: str) -> None:
    async def holds() -> bool:
        return wanted in await printed(cell, uid)

    try:
        await wait(cell, holds, "")
    except AssertionError:
        found = await printed(cell, uid)
        expect(False, f"{wanted!r} is not among the printed lines {found}")


# What a process is given.


@promise(PROCESSES, LOGS)
async def command_and_args_are_handed_over_as_written(cell: Harness) -> None:
    script = f'echo "$#:$1:$2"; {IDLE}'
    container = {"command": ["/bin/sh", "-c", script, "sh"], "args": ["a b", "$HOME"]}
    uid = (await create(cell, "args-0", container=container)).metadata.uid

    await wait_line(cell, uid, "2:a b:$HOME")


@promise(PROCESSES, LOGS)
async def args_alone_replace_those_of_the_image(cell: Harness) -> None:
    container = {"args": ["/bin/sh", "-c", f"echo by args; {IDLE}"]}
    uid = (await create(cell, "bare-args-0", container=container)).metadata.uid

    await wait_line(cell, uid, "by args")


@promise(PROCESSES, LOGS)
async def a_command_without_args_does_not_get_those_of_the_image(cell: Harness) -> None:
    container = {"command": ["/bin/sh", "-c", f'echo "given $#"; {IDLE}', "sh"]}
    uid = (await create(cell, "no-args-0", container=container)).metadata.uid

    await wait_line(cell, uid, "given 0")


@promise(PROCESSES, LOGS)
async def variables_are_handed_over_as_written(cell: Harness) -> None:
    value = "a=b 'c' \"d\" $HOME"
    container = {
        **shell(f'echo "[$ODD][$EMPTY]"; {IDLE}'),
        "env": [{"name": "ODD", "value": value}, {"name": "EMPTY", "value": ""}],
    }
    uid = (await create(cell, "env-0", container=container)).metadata.uid

    await wait_line(cell, uid, f"[{value}][]")


@promise(PROCESSES, LOGS)
async def variables_can_be_fields_of_the_instance(cell: Harness) -> None:
    paths = ("metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels['team']")
    container = {
        **shell(f'echo "$V0 $V1 $V2 $V3"; {IDLE}'),
        "env": [
            {"name": f"V{number}", "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for number, path in enumerate(paths)
        ],
    }
    labels = {"team": "red"}
    uid = (await create(cell, "fields-0", container=container, labels=labels)).metadata.uid

    await wait_line(cell, uid, f"fields-0 {cell.namespace} {uid} red")


@promise(PROCESSES)
async def an_unknown_field_of_the_instance_is_refused(cell: Harness) -> None:
    source = {"fieldRef": {"fieldPath": "spec.nodeName"}}
    container = {"env": [{"name": "NODE", "valueFrom": source}]}
    await create(cell, "unknown-0", container=container)
    state = await wait_failure(cell, "unknown-0", compute.REASON_CONFIGURATION_ERROR)

    expect("spec.nodeName" in state.message, f"the message is {state.message!r}")


@promise(PROCESSES)
async def labels_and_annotations_of_users_are_not_passed_on(cell: Harness) -> None:
    """What runs an Instance may act on its own labels: users have no way to set them."""
    found = await run(
        cell,
        "private-0",
        labels={"example.com/label": "tenant-label"},
        annotations={"example.com/annotation": "tenant-annotation"},
    )

    for each in await cell.running(found.metadata.uid):
        expect(bool(each.description), "the harness does not describe what runs")
        for value in ("tenant-label", "tenant-annotation"):
            expect(value not in each.description, f"{value} was passed on")


@promise(PROCESSES)
async def an_instance_has_the_size_of_its_type(cell: Harness) -> None:
    [found] = await cell.running((await run(cell, "sized-0")).metadata.uid)

    size = (found.millicores, found.memory_bytes)
    expect(size == (1000, 2048 * 2**20), f"millicores and bytes of memory are {size}")


@promise(PROCESSES)
async def the_limits_of_a_container_go_before_those_of_the_type(cell: Harness) -> None:
    container = {"resources": {"limits": {"cpu": "250m", "memory": "64Mi"}}}
    [found] = await cell.running((await run(cell, "small-0", container=container)).metadata.uid)

    size = (found.millicores, found.memory_bytes)
    expect(size == (250, 64 * 2**20), f"millicores and bytes of memory are {size}")


@promise(PROCESSES, LOGS)
async def a_process_cannot_gain_privileges(cell: Harness) -> None:
    script = (
        "while read -r key value; do"
        ' case $key in NoNewPrivs:) echo "privileges $value";; esac;'
        f" done < /proc/self/status; {IDLE}"
    )
    uid = (await create(cell, "meek-0", container=shell(script))).metadata.uid

    await wait_line(cell, uid, "privileges 1")


@promise(PROCESSES, LOGS)
async def a_process_finds_no_credentials(cell: Harness) -> None:
    paths = "/var/run/secrets/kubernetes.io /run/podman/podman.sock /var/run/docker.sock"
    script = f'for path in {paths}; do if [ -e $path ]; then echo "found $path"; fi; done; '
    script += f"echo looked; {IDLE}"
    uid = (await create(cell, "curious-0", container=shell(script))).metadata.uid
    await wait_line(cell, uid, "looked")

    found = [line for line in await printed(cell, uid) if line.startswith("found")]
    expect(not found, f"credentials in reach: {found}")


# How processes end.


@promise(PROCESSES)
async def the_message_of_a_crash_has_the_exit_code(cell: Harness) -> None:
    await create(cell, "coded-0", container=shell("exit 42"))
    state = await wait_failure(cell, "coded-0", compute.REASON_INSTANCE_CRASHING)

    expect("42" in state.message, f"the message is {state.message!r}")
    expect("app" in state.message, f"the container is not named: {state.message!r}")


@promise(PROCESSES)
async def a_process_that_ends_well_is_a_crash_too(cell: Harness) -> None:
    await create(cell, "done-0", container=shell("exit 0"))

    await wait_failure(cell, "done-0", compute.REASON_INSTANCE_CRASHING)


@promise(PROCESSES)
async def a_crashed_process_is_started_again_with_growing_delay(cell: Harness) -> None:
    uid = (await create(cell, "looping-0", container=shell("exit 1"))).metadata.uid
    await wait_failure(cell, "looping-0", compute.REASON_INSTANCE_CRASHING)
    starts: set[str] = set()
    now = asyncio.get_running_loop().time
    begun = now()
    # A kubelet's second delay is 10 s, and it looks again only some seconds after it is over.
    while now() < begun + 15 or len(starts) < 2:
        expect(now() < begun + 60, "it was not started again")
        starts.update(each.started_at for each in await cell.running(uid))
        await asyncio.sleep(0.1)

    expect(len(starts) < 6, f"{len(starts)} starts in {now() - begun:.0f}s")


@promise(PROCESSES)
async def a_crashing_instance_stays_so_while_it_is_started_again(cell: Harness) -> None:
    await create(cell, "flapping-0", container=shell("sleep 0.2; exit 1"))
    await wait_failure(cell, "flapping-0", compute.REASON_INSTANCE_CRASHING)
    deadline = asyncio.get_running_loop().time() + 2 * cell.settle_seconds
    while asyncio.get_running_loop().time() < deadline:
        now = available(await read(cell, "flapping-0"))
        reason = compute.REASON_INSTANCE_CRASHING
        expect(now.reason == reason, f"it reports {now.status} {now.reason} between crashes")
        await asyncio.sleep(0.05)


@promise(PROCESSES)
async def a_process_out_of_memory_is_reported_as_such(cell: Harness) -> None:
    container = {
        **shell("x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done"),
        "resources": {"limits": {"memory": "64Mi"}},
    }
    await create(cell, "hungry-0", container=container)
    state = await wait_failure(cell, "hungry-0", compute.REASON_INSTANCE_CRASHING)

    expect("out of memory" in state.message, f"the message is {state.message!r}")
    expect("64" in state.message, f"the limit is not named: {state.message!r}")


@promise(PROCESSES)
async def a_killed_process_is_started_again(cell: Harness) -> None:
    uid = (await run(cell, "killed-0")).metadata.uid
    [before] = await cell.running(uid)
    await cell.kill(uid, "app")

    async def restarted() -> bool:
        found = await cell.running(uid)
        return [each.running for each in found] == [True] and found[0] != before

    await wait(cell, restarted, "a killed process is not started again")
    await wait_available(cell, "killed-0")


@promise(PROCESSES)
async def a_process_killed_while_the_provider_is_down_is_started_again(cell: Harness) -> None:
    uid = (await run(cell, "unattended-0")).metadata.uid
    await cell.stop()
    await cell.kill(uid, "app")
    await cell.start()

    async def restarted() -> bool:
        return len(await ids(cell, uid)) == 1

    await wait(cell, restarted, "it is not started again")
    await wait_available(cell, "unattended-0")


@promise(PROCESSES)
async def what_an_operator_removes_by_hand_is_made_again(cell: Harness) -> None:
    uid = (await run(cell, "remade-0")).metadata.uid
    before = await ids(cell, uid)
    await cell.discard(uid)

    async def remade() -> bool:
        found = await ids(cell, uid)
        return len(found) == 1 and found != before

    await wait(cell, remade, "it is not made again")
    await wait_available(cell, "remade-0")


@promise(PROCESSES)
async def the_crash_of_one_instance_does_not_touch_another(cell: Harness) -> None:
    calm = (await run(cell, "calm-0")).metadata.uid
    before = list(await cell.running(calm))
    await create(cell, "restless-0", container=shell("exit 1"))
    await wait_failure(cell, "restless-0", compute.REASON_INSTANCE_CRASHING)
    await settle(cell)

    expect(list(await cell.running(calm)) == before, "the other one was touched")


# Several containers.


def _pair(script: str) -> list[Body]:
    return [{"name": "beside", **shell(script)}]


@promise(PROCESSES)
async def all_containers_of_an_instance_run(cell: Harness) -> None:
    found = await cell.running((await run(cell, "pair-0", others=_pair(IDLE))).metadata.uid)

    seen = sorted((each.container, each.running) for each in found)
    expect(seen == [("app", True), ("beside", True)], f"what runs is {seen}")


@promise(PROCESSES, LOGS)
async def containers_of_an_instance_share_the_network(cell: Harness) -> None:
    script = (
        f"while ! wget -q -O - http://127.0.0.1:80/ > /tmp/x; do sleep 1; done; echo yes; {IDLE}"
    )
    script = script.replace("/tmp/x", "/dev/null")
    uid = (await create(cell, "shared-0", others=_pair(script))).metadata.uid

    await wait_line(cell, uid, "yes")


@promise(PROCESSES, LOGS)
async def each_container_has_variables_of_its_own(cell: Harness) -> None:
    first = {**shell(f'echo "app $WHO"; {IDLE}'), "env": [{"name": "WHO", "value": "one"}]}
    second = {**_pair(f'echo "beside $WHO"; {IDLE}')[0], "env": [{"name": "WHO", "value": "two"}]}
    uid = (await create(cell, "own-0", container=first, others=[second])).metadata.uid

    await wait_line(cell, uid, "app one")
    await wait_line(cell, uid, "beside two")


@promise(PROCESSES)
async def an_instance_is_not_available_without_one_of_its_containers(cell: Harness) -> None:
    await create(cell, "partial-0", others=_pair("exit 7"))
    state = await wait_failure(cell, "partial-0", compute.REASON_INSTANCE_CRASHING)

    expect("beside" in state.message, f"the container is not named: {state.message!r}")
    expect("7" in state.message, f"the exit code is not named: {state.message!r}")


@promise(PROCESSES)
async def one_image_of_several_that_is_missing_is_reported(cell: Harness) -> None:
    others = [{"name": "beside", "image": "localhost/no-such-image:2"}]
    await create(cell, "imageless-0", others=others)
    state = await wait_failure(cell, "imageless-0", compute.REASON_IMAGE_UNAVAILABLE)

    expect("no-such-image:2" in state.message, f"the message is {state.message!r}")


@promise(PROCESSES)
async def a_killed_container_of_several_is_started_again(cell: Harness) -> None:
    uid = (await run(cell, "mended-0", others=_pair(IDLE))).metadata.uid
    await cell.kill(uid, "app")

    async def withdrawn() -> bool:
        return available(await read(cell, "mended-0")).status != conditions.TRUE

    await wait(cell, withdrawn, "Available although a container was killed")
    await wait_available(cell, "mended-0")
    expect(len(await ids(cell, uid)) == 2, "not both containers run")
