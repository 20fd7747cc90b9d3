"""Credentials printed by a program of the user: when it runs, its input, how it fails."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from datum_compute.client import errors
from datum_compute.client.auth import exec_credential
from datum_compute.client.auth.credentials import ClientIdentity
from datum_compute.client.auth.exec_credential import ExecCredential
from datum_compute.client.auth.exec_plugin import ExecPlugin
from datum_compute.testing.environment import START, SimulatedEnvironment
from tests.support.client.credential_program import V1, V1BETA1, Program
from tests.support.client.scripted_server import REALMS, WIDGET, ScriptedServer, answer, refusal


def credential(program: Program, env: SimulatedEnvironment | None = None, **options: Any) -> Any:
    plugin = ExecPlugin(where="config: user 'me'", command=str(program.path), **options)
    return ExecCredential(plugin, env or SimulatedEnvironment(), has_terminal=lambda: False)


async def both_ways(credential: ExecCredential) -> list[BaseException | ClientIdentity]:
    """The results of both ways to run the program, each without a cached credential."""
    results: list[BaseException | ClientIdentity] = []
    for fetch in (credential.fetch, lambda: asyncio.to_thread(credential.fetch_blocking)):
        try:
            results.append(await fetch())
            credential.invalidate(results[-1])  # type: ignore[arg-type]
        except errors.CredentialFailed as failure:
            results.append(failure)
    return results


def is_running(noted: Path) -> bool:
    """Whether the process whose id is in this file runs."""
    pid = noted.read_text() if noted.exists() else ""
    return bool(pid) and Path(f"/proc/{pid}").exists()


@pytest.mark.realtime
async def test_the_program_prints_the_token(program: Program) -> None:
    program.gives(token="from-the-program")

    assert await both_ways(credential(program)) == [ClientIdentity("from-the-program")] * 2

    assert len(program.runs) == 2


@pytest.mark.realtime
async def test_the_program_receives_its_arguments_and_exec_info(program: Program) -> None:
    program.gives(token="t")
    env = SimulatedEnvironment(variables={"HOME": "/home/me", "STAGE": "outer"})

    await both_ways(
        credential(
            program,
            env,
            args=("token", "--fast"),
            variables={"STAGE": "inner"},
            cluster={"server": "https://api.example.com"},
        )
    )

    for arguments, variables, stdin in program.runs:
        assert arguments == ["token", "--fast"]
        assert stdin == ""
        assert (variables["HOME"], variables["STAGE"]) == ("/home/me", "inner")
        assert "PATH" not in variables  # only the variables that are passed on
        assert json.loads(variables["KUBERNETES_EXEC_INFO"]) == {
            "apiVersion": V1,
            "kind": "ExecCredential",
            "spec": {"interactive": False, "cluster": {"server": "https://api.example.com"}},
        }


@pytest.mark.realtime
async def test_the_program_runs_once_until_its_credential_expires(program: Program) -> None:
    env = SimulatedEnvironment()
    expires = START + timedelta(seconds=60)
    program.gives(token="short-lived", expirationTimestamp=expires.isoformat())
    given = credential(program, env)

    assert given.cached() is None
    await given.fetch()
    env.start = expires - exec_credential.EARLY - timedelta(seconds=1)
    assert given.cached() == ClientIdentity("short-lived")
    env.start = expires - exec_credential.EARLY + timedelta(seconds=1)

    assert given.cached() is None


@pytest.mark.realtime
async def test_concurrent_callers_share_one_run(program: Program) -> None:
    program.gives(token="t")
    given = credential(program)

    found = await asyncio.gather(*(given.fetch() for _ in range(8)))

    assert set(found) == {ClientIdentity("t")}
    assert len(program.runs) == 1


@pytest.mark.realtime
async def test_no_thread_is_used(program: Program) -> None:
    program.does(
        "import time; time.sleep(0.05)\n"
        f"print(json.dumps({{'apiVersion': {V1!r}, 'kind': 'ExecCredential',"
        " 'status': {'token': 't'}}))"
    )
    running = asyncio.ensure_future(credential(program).fetch())
    seen = set()
    while not running.done():
        seen.add(threading.active_count())
        await asyncio.sleep(0.002)

    assert running.result() == ClientIdentity("t")
    assert seen == {threading.active_count()}


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("print('nonsense')", "is not JSON"),
        ("print('[]')", "not an ExecCredential"),
        ('print(\'{"kind": "Config"}\')', "not an ExecCredential"),
        ("pass", "is not JSON"),
        ("sys.exit(3)", "exited with code 3"),
        (
            f"print(json.dumps(dict(kind='ExecCredential', apiVersion={V1BETA1!r})))",
            "expected 'client",
        ),
        (f"print(json.dumps(dict(kind='ExecCredential', apiVersion={V1!r})))", "no status"),
        ("print('x' * 2000000)", "exceeds 1048576 bytes"),
    ],
)
@pytest.mark.realtime
async def test_malformed_output_is_reported(program: Program, code: str, problem: str) -> None:
    program.does(code)

    for failure in await both_ways(credential(program)):
        assert isinstance(failure, errors.CredentialFailed)
        assert problem in str(failure)
        assert f"config: user 'me': the credential plugin {str(program.path)!r}" in str(failure)


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ({}, "neither a token nor a certificate"),
        ({"token": 5}, "cannot be a token"),
        ({"token": "two\nlines"}, "cannot be a token"),
        ({"token": "t", "expirationTimestamp": "soon"}, "is not a time"),
        ({"token": "t", "expirationTimestamp": 5}, "is not a time"),
        ({"clientCertificateData": "pem"}, "need each other"),
        ({"clientCertificateData": 5}, "is not text"),
    ],
)
@pytest.mark.realtime
async def test_a_malformed_credential_is_refused(
    program: Program, status: dict[str, Any], problem: str
) -> None:
    program.gives(**status)

    with pytest.raises(errors.CredentialFailed, match=problem):
        await credential(program).fetch()


@pytest.mark.realtime
async def test_a_missing_program_is_reported_with_its_install_hint(tmp_path: Path) -> None:
    plugin = ExecPlugin(
        where="here", command="no-such-program", install_hint="\nInstall it from the shop.\n"
    )
    missing = ExecCredential(plugin, SimulatedEnvironment(variables={"PATH": str(tmp_path)}))

    for failure in await both_ways(missing):
        assert str(failure) == (
            "here: the credential plugin 'no-such-program': no such program\n"
            "Install it from the shop."
        )


@pytest.mark.realtime
async def test_a_program_that_cannot_run_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "not-executable"
    file.write_text("")
    plugin = ExecPlugin(where="here", command=str(file))

    for failure in await both_ways(ExecCredential(plugin, SimulatedEnvironment())):
        assert "it cannot be started" in str(failure)


@pytest.mark.realtime
async def test_a_program_that_hangs_is_killed(program: Program, tmp_path: Path) -> None:
    program.does(
        f"import time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()));"
        " time.sleep(600)"
    )
    plugin = ExecPlugin(where="here", command=str(program.path))
    hanging = ExecCredential(plugin, SimulatedEnvironment(), timeout=0.5)

    for failure in await both_ways(hanging):
        assert "no output within 0.5 s" in str(failure)

    assert not is_running(tmp_path / "pid")


@pytest.mark.realtime
async def test_a_cancelled_fetch_kills_the_program(program: Program, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    program.does(f"import time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)")

    task = asyncio.ensure_future(credential(program).fetch())
    while not is_running(pid):  # noqa: ASYNC110 - a process sets no event
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert not is_running(pid)


@pytest.mark.parametrize(
    ("mode", "terminal", "interactive"),
    [
        ("Never", True, False),
        ("Never", False, False),
        ("IfAvailable", True, True),
        ("IfAvailable", False, False),
        ("Always", True, True),
    ],
)
def test_which_programs_may_prompt(mode: str, terminal: bool, interactive: bool) -> None:
    plugin = ExecPlugin(where="here", command="c", interactive_mode=mode)
    given = ExecCredential(plugin, SimulatedEnvironment(), has_terminal=lambda: terminal)

    info = json.loads(given._variables()["KUBERNETES_EXEC_INFO"])

    assert info["spec"] == {"interactive": interactive}
    assert (given._stdin() is None) == interactive
    expected = exec_credential.INTERACTIVE_TIMEOUT if interactive else exec_credential.TIMEOUT
    assert given._limit() == expected


@pytest.mark.realtime
async def test_a_program_that_always_prompts_needs_a_terminal(program: Program) -> None:
    for failure in await both_ways(credential(program, interactive_mode="Always")):
        assert "needs a terminal" in str(failure)

    assert program.runs == []


def refusing(good: str) -> Callable[[Any], Any]:
    async def answers(request: Any) -> Any:
        if request.headers["authorization"] != f"Bearer {good}":
            return answer(refusal(401, "Unauthorized"), 401)
        return answer(WIDGET)

    return answers


@pytest.mark.realtime
async def test_a_refused_token_runs_the_program_again_and_repeats_the_request(
    program: Program,
) -> None:
    program.gives(token="old")
    toy = ScriptedServer(refusing("new"))
    given = credential(program)
    client = toy.client(token=given)
    with pytest.raises(errors.Unauthorized):
        await client.get(REALMS, "one")
    assert (len(toy.requests), len(program.runs)) == (1, 2)  # the same token is not sent again

    program.gives(token="new")
    assert (await client.get(REALMS, "one")).name == "one"
    await client.create(REALMS, {"metadata": {"name": "one"}})

    sent = [request.headers["authorization"] for request in toy.requests]
    assert sent == ["Bearer old", "Bearer old", "Bearer new", "Bearer new"]
    assert len(program.runs) == 3


@pytest.mark.realtime
async def test_a_failing_program_is_a_failed_credential(program: Program) -> None:
    program.does("sys.exit(1)")
    toy = ScriptedServer(answer(WIDGET))

    with pytest.raises(errors.CredentialFailed, match=r"get realms.* one on toy: config: user"):
        await toy.client(token=credential(program)).get(REALMS, "one")

    assert toy.requests == []
