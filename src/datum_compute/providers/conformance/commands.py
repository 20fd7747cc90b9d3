"""Commands that run in an Instance beside its own process."""

from __future__ import annotations

import asyncio

from datum_compute.client.remote_command import (
    STDERR,
    STDOUT,
    CommandFailed,
    CommandRequest,
    CommandSession,
)
from datum_compute.providers.conformance.harness import (
    Capability,
    ConformanceFailure,
    Harness,
    expect,
    promise,
    remove,
    run,
    shell,
)
from datum_compute.providers.conformance.processes import IDLE
from datum_compute.providers.protocol import ExecRefused, ExecSource

COMMANDS = Capability.COMMANDS


async def no_command_can_be_run(cell: Harness) -> None:
    """How a provider shows that it lacks this."""
    expect(not isinstance(cell.logs(), ExecSource), "it offers to run commands")


async def start(cell: Harness, name: str, *words: str, stdin: bool = False) -> CommandSession:
    uid = (await run(cell, name, container=shell(IDLE))).metadata.uid
    return await cell.commands().exec(uid, CommandRequest(words, "app", stdin=stdin))


async def read(cell: Harness, session: CommandSession) -> dict[int, bytes]:
    found = {STDOUT: b"", STDERR: b""}
    try:
        async with asyncio.timeout(cell.timeout_seconds):
            async for channel, data in session:
                found[channel] += data
    except TimeoutError:
        raise ConformanceFailure(f"the output does not end; it is {found}") from None
    return found


@promise(COMMANDS)
async def a_command_has_its_streams_and_its_exit_code(cell: Harness) -> None:
    script = "echo out; echo err >&2; exit 7"
    session = await start(cell, "streams-0", "/bin/sh", "-c", script)
    found = await read(cell, session)
    code = await session.exit_code()
    await session.aclose()

    expect(found == {STDOUT: b"out\n", STDERR: b"err\n"}, f"its output is {found}")
    expect(code == 7, f"its exit code is {code}, not 7")


@promise(COMMANDS)
async def input_reaches_a_command_and_ends_it(cell: Harness) -> None:
    session = await start(cell, "input-0", "/bin/sh", "-c", "cat; echo done", stdin=True)
    await session.send(b"one\n")
    await session.send(b"two\n")
    await session.end_input()
    found = await read(cell, session)
    code = await session.exit_code()
    await session.aclose()

    expect(found[STDOUT] == b"one\ntwo\ndone\n", f"its output is {found}")
    expect(code == 0, f"its exit code is {code}, not 0")


@promise(COMMANDS)
async def a_program_that_is_not_there_is_named(cell: Harness) -> None:
    try:
        session = await start(cell, "absent-0", "/nosuch")
        await read(cell, session)
        code = await session.exit_code()
    except (ExecRefused, CommandFailed) as error:
        expect("/nosuch" in str(error), f"the error is {error}")
        return
    raise ConformanceFailure(f"no error; the exit code is {code}")


@promise(COMMANDS)
async def a_command_in_an_unknown_container_or_instance_is_refused(cell: Harness) -> None:
    uid = (await run(cell, "other-0", container=shell(IDLE))).metadata.uid
    for asked, container in ((uid, "nosuch"), ("6c1d1e2a-0000-4000-8000-000000000000", "app")):
        try:
            await cell.commands().exec(asked, CommandRequest(("/bin/sh",), container))
        except ExecRefused:
            continue
        raise ConformanceFailure(f"a command runs in container {container} of {asked}")


@promise(COMMANDS)
async def a_command_ends_with_its_instance(cell: Harness) -> None:
    session = await start(cell, "ending-0", "/bin/sh", "-c", IDLE)
    reading = asyncio.create_task(read(cell, session))
    await remove(cell, "ending-0")
    try:
        await reading
    except CommandFailed:
        pass  # the connection broke off
    finally:
        await session.aclose()
