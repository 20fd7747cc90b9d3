"""Credentials printed by a program of the user: when it runs, its input, how it fails."""

from __future__ import annotations

import asyncio
import json
import stat
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from datum_compute.api.scheme import Resource
from datum_compute.cli.quick.connect import reader_for
from datum_compute.client import errors, kubeconfig
from datum_compute.client.auth import exec_credential
from datum_compute.client.auth.credentials import ClientIdentity
from datum_compute.client.auth.exec_credential import ExecCredential
from datum_compute.client.auth.exec_plugin import VERSIONS, ExecPlugin
from datum_compute.client.kubeconfig import Connection, KubeconfigError
from datum_compute.testing.environment import START, SimulatedEnvironment
from tests.support.client.scripted_server import WIDGET, ScriptedServer, answer, encode, refusal
from tests.support.client.socket_server import ServedConnection as Socket
from tests.support.client.socket_server import self_signed, serve_script

REALMS = Resource("toys.example.com", "v1", "realms", "Realm", namespaced=False)
V1, V1BETA1 = VERSIONS


class Program:
    """A credential program that records each run and prints what a test gave it."""

    def __init__(self, directory: Path, api_version: str = V1) -> None:
        self.path = directory / "give-credential"
        self._answer = directory / "answer"
        self._runs = directory / "runs"
        self._api_version = api_version
        self.path.write_text(
            f"#!{sys.executable}\n"
            "import json, os, sys\n"
            f"with open({str(self._runs)!r}, 'a') as runs:\n"
            "    runs.write(json.dumps([sys.argv[1:], dict(os.environ), sys.stdin.read()])"
            " + '\\n')\n"
            f"exec(open({str(self._answer)!r}).read())\n"
        )
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)

    def gives(self, **status: Any) -> None:
        answer = {"apiVersion": self._api_version, "kind": "ExecCredential", "status": status}
        self.prints(json.dumps(answer))

    def prints(self, text: str) -> None:
        self.does(f"print({text!r})")

    def does(self, code: str) -> None:
        self._answer.write_text(code)

    @property
    def runs(self) -> list[Any]:
        if not self._runs.exists():
            return []
        return [json.loads(line) for line in self._runs.read_text().splitlines()]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def credential(program: Program, env: SimulatedEnvironment | None = None, **options: Any) -> Any:
    plugin = ExecPlugin(where="config: user 'me'", command=str(program.path), **options)
    return ExecCredential(plugin, env or SimulatedEnvironment(), has_terminal=lambda: False)


async def both_ways(credential: ExecCredential) -> list[BaseException | ClientIdentity]:
    """What the two ways of running the program give, each with nothing at hand."""
    results: list[BaseException | ClientIdentity] = []
    for fetch in (credential.fetch, lambda: asyncio.to_thread(credential.fetch_blocking)):
        try:
            results.append(await fetch())
            credential.invalidate(results[-1])  # type: ignore[arg-type]
        except errors.CredentialFailed as failure:
            results.append(failure)
    return results


def is_running(noted: Path) -> bool:
    """Whether the process that noted its number in this file lives."""
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
        assert "PATH" not in variables  # nothing but what was handed on
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
    assert (len(toy.requests), len(program.runs)) == (1, 2)  # the same again is not sent again

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


def config(
    directory: Path, spec: Any, server: str = "https://api.example.com", **more: Any
) -> Path:
    file = directory / "config"
    cluster = {"server": server, **more}
    context = {"cluster": "c", "user": "me"}
    file.write_text(
        yaml.safe_dump(
            {
                "current-context": "here",
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "me", "user": {"exec": spec}}],
                "contexts": [{"name": "here", "context": context}],
            }
        )
    )
    return file


def spec_of(program: Program, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": V1,
        "command": f"./{program.path.name}",
        "interactiveMode": "Never",
        **more,
    }


def allowed(file: Path, **variables: str) -> Connection:
    return kubeconfig.load(file, env=SimulatedEnvironment(variables=variables), allow_exec=True)


def test_programs_run_only_where_allowed(tmp_path: Path, program: Program) -> None:
    file = config(tmp_path, spec_of(program))

    with pytest.raises(
        KubeconfigError,
        match=r"config: user 'me' uses an exec credential plugin \(exec\), which is for a"
        r" person's own command line .*use a token, a tokenFile or a client certificate",
    ):
        kubeconfig.load(file, env=SimulatedEnvironment())

    allowed(file)
    assert program.runs == []  # not before it is needed


@pytest.mark.realtime
async def test_a_relative_program_is_found_from_the_directory_of_the_kubeconfig(
    tmp_path: Path, program: Program
) -> None:
    program.gives(token="t")
    spec = spec_of(
        program,
        args=["a"],
        env=[{"name": "X", "value": "y"}],
        provideClusterInfo=True,
    )
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "me"}}
    file = config(tmp_path, spec, extensions=[extension], **{"tls-server-name": "api"})

    token: Any = allowed(file).token
    assert await token.fetch() == ClientIdentity("t")

    ((arguments, variables, _),) = program.runs
    assert (arguments, variables["X"]) == (["a"], "y")
    assert json.loads(variables["KUBERNETES_EXEC_INFO"])["spec"]["cluster"] == {
        "server": "https://api.example.com",
        "tls-server-name": "api",
        "config": {"audience": "me"},
    }


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"command": ""}, "exec.command is required"),
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "exec.apiVersion .*supported"),
        ({"interactiveMode": None}, "exec.interactiveMode ''"),
        ({"interactiveMode": "Sometimes"}, "exec.interactiveMode 'Sometimes': supported: Never"),
        ({"args": "a"}, "exec.args is not a list"),
        ({"args": [1]}, "exec.args is not a list"),
        ({"env": {"a": "b"}}, "exec.env is not a list"),
        ({"env": [{"name": ""}]}, "exec.env is not a list"),
    ],
)
def test_an_invalid_exec_entry_is_reported_with_its_fault(
    tmp_path: Path, program: Program, change: dict[str, Any], problem: str
) -> None:
    with pytest.raises(KubeconfigError, match=rf"config: user 'me': {problem}"):
        allowed(config(tmp_path, spec_of(program, **change)))


@pytest.mark.realtime
async def test_the_older_version_may_leave_out_the_mode(tmp_path: Path) -> None:
    program = Program(tmp_path, V1BETA1)
    program.gives(token="t")
    spec = {"apiVersion": V1BETA1, "command": str(program.path)}

    token: Any = allowed(config(tmp_path, spec)).token

    assert await token.fetch() == ClientIdentity("t")


@pytest.mark.realtime
async def test_a_certificate_from_the_program_is_used_and_renewed(
    tmp_path: Path, program: Program
) -> None:
    first, second, server = self_signed("first"), self_signed("second"), self_signed("127.0.0.1")
    program.gives(
        clientCertificateData=first.certificate_pem.decode(), clientKeyData=first.key_pem.decode()
    )
    presented: list[str] = []

    async def script(socket: Socket) -> None:
        peer = socket.writer.get_extra_info("peercert")
        name = peer["subject"][0][0][1]
        while await socket.request():
            presented.append(name)
            if name == "first" and len(presented) > 1:
                await socket.answer(encode(refusal(401, "Unauthorized")), "401 Unauthorized")
            else:
                await socket.answer(encode(WIDGET))

    context = server.server_context(first.certificate_pem + second.certificate_pem)
    async with serve_script(script, context) as port:
        ca = tmp_path / "ca.crt"
        ca.write_bytes(server.certificate_pem)
        url = f"https://127.0.0.1:{port}"
        file = config(tmp_path, spec_of(program), url, **{"certificate-authority": "ca.crt"})

        client = kubeconfig.client_for(allowed(file))
        reader = reader_for(allowed(file))
        try:
            await client.get(REALMS, "one")
            program.gives(
                clientCertificateData=second.certificate_pem.decode(),
                clientKeyData=second.key_pem.decode(),
            )
            await client.get(REALMS, "one")
            await asyncio.to_thread(reader.get, REALMS, "one")
        finally:
            await client.close()
            reader.close()

    assert presented == ["first", "first", "second", "second"]


@pytest.mark.realtime
async def test_an_invalid_certificate_of_the_program_is_a_failed_credential(
    tmp_path: Path, program: Program
) -> None:
    program.gives(clientCertificateData="no", clientKeyData="pem")
    client = kubeconfig.client_for(allowed(config(tmp_path, spec_of(program))))
    try:
        with pytest.raises(errors.CredentialFailed, match="its certificate cannot be used"):
            await client.get(REALMS, "one")
    finally:
        await client.close()
