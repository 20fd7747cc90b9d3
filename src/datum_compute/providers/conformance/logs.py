"""The lines that Instances write."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import timedelta
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.providers.conformance.harness import (
    Capability,
    ConformanceFailure,
    Harness,
    create,
    expect,
    promise,
    read,
    remove,
    run,
    set_gates,
    shell,
    wait,
    wait_available,
    wait_failure,
)
from datum_compute.providers.conformance.processes import IDLE, printed, wait_line
from datum_compute.providers.protocol import LogLine

LOGS, PROCESSES = Capability.LOGS, Capability.PROCESSES


async def _lines(cell: Harness, uid: str, **options: Any) -> list[LogLine]:
    return [line async for line in cell.logs().lines(uid, **options)]


async def _printing(cell: Harness, name: str, **details: Any) -> str:
    """The uid of an Instance that has written a line."""
    uid = (await run(cell, name, **details)).metadata.uid

    async def holds() -> bool:
        return bool(await _lines(cell, uid))

    await wait(cell, holds, "it prints nothing")
    return uid


@promise(LOGS)
async def lines_come_in_order_with_their_time(cell: Harness) -> None:
    lines = await _lines(cell, await _printing(cell, "timed-0"))

    times = [line.at for line in lines]
    expect(times == sorted(times), "lines are not in the order of their times")
    expect(all(at.tzinfo is not None for at in times), "a line's time has no zone")
    expect(not any("\n" in line.text for line in lines), "a line has more than one")


@promise(LOGS)
async def tail_gives_the_last_lines(cell: Harness) -> None:
    uid = await _printing(cell, "tailed-0")
    lines = await _lines(cell, uid)

    for tail in (0, 1, len(lines), len(lines) + 5):
        found = await _lines(cell, uid, tail=tail)
        wanted = lines[max(0, len(lines) - tail) :]
        expect(found == wanted, f"tail={tail} of {len(lines)} gives {len(found)} lines")


@promise(LOGS)
async def since_leaves_out_earlier_lines(cell: Harness) -> None:
    uid = await _printing(cell, "since-0")
    last = (await _lines(cell, uid))[-1]

    found = await _lines(cell, uid, since=last.at)
    expect(last in found, "the line at since is left out")
    expect(all(line.at >= last.at for line in found), "lines from before since")
    later = await _lines(cell, uid, since=last.at + timedelta(days=1))
    expect(not later, "lines from before since")


@promise(LOGS)
async def an_unknown_instance_has_no_lines(cell: Harness) -> None:
    await _printing(cell, "known-0")

    found = await _lines(cell, "no-such-uid")
    expect(not found, "lines of an Instance that does not exist")


@promise(LOGS)
async def an_instance_has_no_lines_of_others(cell: Harness) -> None:
    first, second = await _printing(cell, "mine-0"), await _printing(cell, "yours-0")
    await remove(cell, "mine-0")
    third = await _printing(cell, "mine-0")

    expect(not await _lines(cell, first), "a deleted Instance has lines")
    for uid in (second, third):
        expect(len(await _lines(cell, uid)) > 0, "no lines")
    created = (await read(cell, "mine-0")).metadata.creation_timestamp
    times = [line.at for line in await _lines(cell, third)]
    expect(created is None or min(times) >= created, "lines of its predecessor")


@promise(LOGS)
async def followed_lines_begin_with_the_first_and_end_with_the_instance(cell: Harness) -> None:
    await create(cell, "followed-0", gates=[compute.GATE_QUOTA])
    uid = (await read(cell, "followed-0")).metadata.uid
    lines = cell.logs().lines(uid, follow=True)

    async def live() -> None:
        await set_gates(cell, "followed-0", [])
        await wait_available(cell, "followed-0")
        await remove(cell, "followed-0")

    living = asyncio.create_task(live())
    try:
        async with asyncio.timeout(2 * cell.timeout_seconds):
            found = [line async for line in lines]
    except TimeoutError:
        raise ConformanceFailure("followed lines do not end with the Instance") from None
    finally:
        await living
    expect(bool(found), "no lines of an Instance that was followed before it started")


@promise(LOGS)
async def a_reader_may_stop_at_any_time(cell: Harness) -> None:
    uid = await _printing(cell, "left-0")
    async with asyncio.timeout(cell.timeout_seconds):
        async with aclosing(cell.logs().lines(uid, follow=True)) as lines:  # type: ignore[type-var]
            await anext(lines)

        async def wait_forever() -> None:
            async for _ in cell.logs().lines(uid, follow=True):
                pass

        reader = asyncio.create_task(wait_forever())
        await asyncio.sleep(1)
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)

    expect(bool(await _lines(cell, uid)), "no lines after readers have left")


@promise(LOGS)
async def two_readers_get_the_same_lines(cell: Harness) -> None:
    await create(cell, "both-0", gates=[compute.GATE_QUOTA])
    uid = (await read(cell, "both-0")).metadata.uid
    readers = [asyncio.create_task(_lines(cell, uid, follow=True)) for _ in range(2)]
    await asyncio.sleep(0)
    await set_gates(cell, "both-0", [])
    await wait_available(cell, "both-0")
    await asyncio.sleep(2)
    await remove(cell, "both-0")
    async with asyncio.timeout(cell.timeout_seconds):
        first, second = await asyncio.gather(*readers)

    expect(bool(first) and first == second, f"one reads {len(first)} lines, one {len(second)}")


@promise(LOGS, PROCESSES)
async def both_streams_are_read(cell: Harness) -> None:
    script = f"echo to stdout; echo to stderr >&2; {IDLE}"
    uid = (await create(cell, "streams-0", container=shell(script))).metadata.uid

    await wait_line(cell, uid, "to stdout")
    await wait_line(cell, uid, "to stderr")


@promise(LOGS, PROCESSES)
async def follow_without_tail_gives_only_new_lines(cell: Harness) -> None:
    script = "n=0; while :; do n=$((n+1)); echo line $n; sleep 1; done"
    uid = (await run(cell, "new-0", container=shell(script))).metadata.uid
    known = await printed(cell, uid)
    found: list[str] = []
    async with asyncio.timeout(cell.timeout_seconds):
        async for line in cell.logs().lines(uid, tail=0, follow=True):
            found.append(line.text)
            if len(found) == 3:
                break

    numbers = [int(text.split()[1]) for text in found]
    expect(numbers[0] > len(known), f"{found[0]!r} was there before")
    expect(numbers == list(range(numbers[0], numbers[0] + 3)), f"lines are lost: {found}")


@promise(LOGS, PROCESSES)
async def the_lines_of_a_crash_can_be_read(cell: Harness) -> None:
    uid = (await create(cell, "last-0", container=shell("echo cannot go on; exit 1"))).metadata.uid
    await wait_failure(cell, "last-0", compute.REASON_INSTANCE_CRASHING)

    await wait_line(cell, uid, "cannot go on")


@promise(LOGS, PROCESSES)
async def a_line_that_is_no_text_does_not_end_the_logs(cell: Harness) -> None:
    script = f"printf '\\377\\376\\n\\n'; echo after; {IDLE}"
    uid = (await create(cell, "binary-0", container=shell(script))).metadata.uid

    await wait_line(cell, uid, "after")


@promise(LOGS, PROCESSES)
async def a_long_line_is_read_to_its_end(cell: Harness) -> None:
    script = f'x=0123456789; for n in 1 2 3 4 5 6 7 8 9 10; do x=$x$x; done; echo "$x"; {IDLE}'
    uid = (await create(cell, "long-0", container=shell(script))).metadata.uid
    wanted = "0123456789" * 1024

    async def holds() -> bool:
        return "".join(await printed(cell, uid)) == wanted

    await wait(cell, holds, "a line of 10 KiB is not read to its end")


@promise(LOGS, PROCESSES)
async def lines_written_while_the_provider_was_down_can_be_read(cell: Harness) -> None:
    script = f"echo before; sleep 3; echo meanwhile; {IDLE}"
    uid = (await create(cell, "unread-0", container=shell(script))).metadata.uid
    await wait_line(cell, uid, "before")
    await cell.stop()
    await asyncio.sleep(4)
    await cell.start()

    await wait_line(cell, uid, "meanwhile")
    expect("before" in await printed(cell, uid), "earlier lines are lost")


@promise(LOGS, PROCESSES)
async def a_reader_that_follows_goes_on_over_a_restart_of_the_process(cell: Harness) -> None:
    uid = (await run(cell, "onward-0", container=shell(f"echo begun; {IDLE}"))).metadata.uid
    found: list[str] = []

    async def follow() -> None:
        async for line in cell.logs().lines(uid, follow=True):
            found.append(line.text)
            if found.count("begun") == 2:
                return

    reader = asyncio.create_task(follow())

    async def once() -> bool:
        return "begun" in found

    await wait(cell, once, "the first line does not come")
    await cell.kill(uid, "app")
    try:
        async with asyncio.timeout(cell.timeout_seconds):
            await reader
    except TimeoutError:
        raise ConformanceFailure(f"the reader has only {found}") from None
