"""Credential programs that a kubeconfig names."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from datum_compute.cli.quick.connect import reader_for
from datum_compute.client import connect, errors, kubeconfig
from datum_compute.client.auth.credentials import ClientIdentity
from datum_compute.client.kubeconfig import Connection, KubeconfigError
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.client.credential_program import V1, V1BETA1, Program
from tests.support.client.scripted_server import REALMS, WIDGET, encode, refusal
from tests.support.client.socket_server import ServedConnection as Socket
from tests.support.client.socket_server import self_signed, serve_script


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

        client = connect.client_for(allowed(file))
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
    client = connect.client_for(allowed(config(tmp_path, spec_of(program))))
    try:
        with pytest.raises(errors.CredentialFailed, match="its certificate cannot be used"):
            await client.get(REALMS, "one")
    finally:
        await client.close()
