"""``exec`` and ``ssh`` on a platform whose provider runs commands, and on those that do not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from datum_compute.api import core
from datum_compute.cli.tables import INSTANCES
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.remote_command import CommandFailed, CommandRequest, start_command
from datum_compute.client.transport import HttpRequest, HttpResponse
from tests.support.cli.intercepted_session import InterceptedSession
from tests.support.cli.session import CliSession, cli_session
from tests.support.providers.commands import ScriptedCommands

DFW, LHR = "api-default-dfw-0", "api-default-lhr-0"


@pytest.fixture
def here() -> Iterator[CliSession]:
    with cli_session() as session:
        session.run("deploy api --image=a:1 --city=DFW,LHR")
        yield session


@pytest.fixture
def commands(here: CliSession) -> ScriptedCommands:
    found = ScriptedCommands()
    for cell in ("dfw", "lhr"):
        here.platform.providers.set_provider(cell, found)
    return found


async def opened(here: CliSession, name: str = DFW) -> object:
    client = here.client()
    assert isinstance(client, ApiClient)
    request = CommandRequest(("flood",))
    return await start_command(client, INSTANCES, name, "default", request, here.env)


def test_a_pipe_is_passed_on_and_the_exit_code_returned(
    here: CliSession, commands: ScriptedCommands
) -> None:
    done = here.run(f"exec -i {DFW} --container app -- sh -c 'a b'", stdin="exit 7")
    quiet = here.run(f"exec {LHR} -- false")

    assert (done.code, done.out, done.err) == (7, "", "ready\n")
    assert (quiet.code, quiet.out, quiet.err) == (1, "", "")
    assert commands.requests == [
        CommandRequest(("sh", "-c", "a b"), "app", stdin=True),
        CommandRequest(("false",), "app"),
    ]
    assert commands.open == []


def test_the_name_of_a_workload_leads_to_its_instances(here: CliSession) -> None:
    refused = here.run("exec api -- ls")

    assert refused.code == 5
    assert refused.err == (
        'Error: instance "api" not found in project demo\n'
        "Try:  datumctl-compute instances --workload api\n"
    )


def test_words_after_the_dashes_are_the_commands_own(
    here: CliSession, commands: ScriptedCommands
) -> None:
    done = here.run(f"exec {DFW} -- false -o json --project x -- -i")
    assert (done.code, done.err) == (1, "")
    assert commands.requests[0].command == ("false", "-o", "json", "--project", "x", "--", "-i")


def test_ssh_takes_an_available_instance_and_says_which(
    here: CliSession, commands: ScriptedCommands
) -> None:
    first = here.run("ssh api", stdin="exit 3")
    city = here.run("ssh api --city lhr", stdin="exit")
    here.run("scale api --min 0 --no-wait")

    assert (first.code, first.err) == (3, f"/bin/sh in {DFW}\nready\n")
    assert (city.code, city.err) == (0, f"/bin/sh in {LHR}\nready\n")
    assert {each.command for each in commands.requests} == {("/bin/sh",)}
    assert here.run("ssh api --city XYZ").code == 5


def test_two_hundred_attempts_leave_three_sessions_and_no_trace(
    here: CliSession, commands: ScriptedCommands
) -> None:
    async def attempts() -> list[object]:
        return await asyncio.gather(*(opened(here) for _ in range(200)), return_exceptions=True)

    found = here.act(attempts())
    refused = [each for each in found if isinstance(each, errors.Throttled)]
    running = [each for each in found if not isinstance(each, BaseException)]
    other = here.act(opened(here, LHR))

    assert (len(running), len(refused)) == (3, 197)
    assert "has 3 sessions, which is the most at once" in refused[0].detail
    for each in (*running, other):
        here.act(each.aclose())  # type: ignore[attr-defined]
    here.wait(1)
    assert commands.open == []
    again = here.act(opened(here))
    here.act(again.aclose())  # type: ignore[attr-defined]


def test_each_session_is_an_event_with_the_user_and_the_program_alone(
    here: CliSession, commands: ScriptedCommands, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        for _ in range(2):
            here.run(f"exec {DFW} -- false --password=hunter2")
    listed = here.act(here.client().list(core.EVENTS, "default"))
    events = [each.to_wire() for each in listed.items]
    found = [each for each in events if b'"CommandRun"' in each]

    assert len(found) == 1
    assert b"local-admin runs false in container app" in found[0]
    assert b'"count":2' in found[0].replace(b" ", b"")
    assert not any(b"hunter2" in each for each in events)
    assert [each.message for each in caplog.records if each.message.startswith("command ")] == [
        "command started",
        "command ended",
    ] * 2


def test_a_session_ends_when_its_cell_is_disconnected(
    here: CliSession, commands: ScriptedCommands
) -> None:
    async def cut() -> str:
        running = await opened(here)
        reading = asyncio.create_task(_drain(running))
        await asyncio.sleep(1)
        here.platform.partitions.disconnect("dfw")
        return await reading

    commands.refusal = ""
    assert "cell dfw is disconnected" in here.act(cut())
    refused = here.run(f"exec {DFW} -- ls")
    assert refused.code == 1
    assert "cell dfw is disconnected, so no command can be run" in refused.err


async def _drain(running: object) -> str:
    try:
        async for _ in running:  # type: ignore[attr-defined]
            await asyncio.sleep(0.1)
        await running.exit_code()  # type: ignore[attr-defined]
    except CommandFailed as error:
        return str(error)
    finally:
        await running.aclose()  # type: ignore[attr-defined]
    return ""


def test_a_simulated_instance_says_that_nothing_runs(here: CliSession) -> None:
    result = here.run(f"exec {DFW} -- ls")
    assert result.code == 13
    assert f'no process runs for instance "{DFW}": this platform simulates instances' in result.err


@pytest.mark.parametrize("line", [f"exec {DFW} -- ls", "ssh api", "logs api"])
def test_a_platform_of_real_api_servers_names_the_pod_and_exits_13(
    here: CliSession, line: str
) -> None:
    async def answer(request: HttpRequest, number: int) -> HttpResponse | None:
        if request.path.endswith("/exec"):
            return HttpResponse(404, {"content-type": "text/plain"}, b"404 page not found\n")
        return None

    here.without_logs = True
    result = InterceptedSession(here, answer).run(line)
    assert result.code == 13
    [first, hint] = result.err.splitlines()[-2:]
    assert "this platform offers no" in first
    assert "in cell dfw" in first
    assert hint.startswith("Try:  kubectl --context dfw -n NAMESPACE")
