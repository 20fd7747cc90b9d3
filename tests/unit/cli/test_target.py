"""The server of a command, and its retries."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import yaml

from datum_compute.cli.errors import CommandError
from datum_compute.cli.target import ProjectTarget, find_target
from datum_compute.client.auth.credentials import ClientIdentity
from datum_compute.client.kubeconfig import render
from datum_compute.client.retry import RetryPolicy
from datum_compute.testing.environment import SimulatedEnvironment

FLAGS: dict[str, Any] = dict.fromkeys(
    ("project", "token", "kubeconfig", "context", "server", "certificate_authority", "data_dir")
)
SERVER = {"server": "api.example.com", "project": "demo", "token": "t"}


def found(flags: dict[str, Any], **variables: str) -> ProjectTarget:
    env = SimulatedEnvironment(variables=variables)
    return find_target(env, Namespace(**{**FLAGS, **flags}))


def test_a_user_kubeconfig_may_name_a_credential_program(tmp_path: Path) -> None:
    program = tmp_path / "login"
    program.write_text(
        "#!/bin/sh\n"
        'echo \'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
        ' "status": {"token": "\'$FROM_OUTSIDE\'"}}\'\n'
    )
    program.chmod(0o755)
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "./login",
            "interactiveMode": "Never",
        }
    }
    file = tmp_path / "config"
    content = {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example.com"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }
    file.write_text(yaml.safe_dump(content))

    token: Any = found({"kubeconfig": str(file)}, FROM_OUTSIDE="handed-on").connection.token

    assert token.fetch_blocking() == ClientIdentity("handed-on")


@pytest.mark.parametrize(
    ("flags", "variables"),
    [
        (SERVER, {}),
        ({"token": "t"}, {"DATUM_API_HOST": "api.example.com", "DATUM_PROJECT": "demo"}),
    ],
)
def test_the_proxy_of_the_environment_is_used(
    flags: dict[str, Any], variables: dict[str, str]
) -> None:
    proxied = found(flags, HTTPS_PROXY="http://proxy:3128", **variables)
    excepted = found(flags, HTTPS_PROXY="http://proxy:3128", NO_PROXY="example.com", **variables)

    assert proxied.connection.proxy == "http://proxy:3128"
    assert excepted.connection.proxy == ""


def test_a_proxy_that_cannot_be_used_is_a_usage_error() -> None:
    with pytest.raises(CommandError, match="HTTPS_PROXY: 'socks5' proxies are not supported"):
        found(SERVER, HTTPS_PROXY="socks5://proxy")


def test_calls_of_commands_are_retried() -> None:
    target = found(SERVER)

    assert isinstance(target.retries, RetryPolicy)
    assert target.reader()._retries is target.retries


@pytest.mark.parametrize("host", ["api.example.com", "https://api.example.com"])
def test_the_host_of_datumctl_is_accepted_with_and_without_a_scheme(host: str) -> None:
    target = found({}, DATUM_API_HOST=host, DATUM_PROJECT="p", DATUM_CREDENTIALS_HELPER="datumctl")

    assert target.connection.origin == "https://api.example.com"
    assert target.connection.prefix.endswith("/projects/p/control-plane")


def test_an_invalid_host_of_datumctl_is_reported_with_its_variable() -> None:
    with pytest.raises(CommandError, match=r'^DATUM_API_HOST "a/b": expected HOST'):
        found({}, DATUM_API_HOST="a/b", DATUM_PROJECT="p", DATUM_CREDENTIALS_HELPER="datumctl")


PLANE = "/apis/resourcemanager.miloapis.com/v1alpha1/projects/{}/control-plane"


@pytest.mark.parametrize(
    ("path", "project", "expected", "named"),
    [
        ("", "shop", PLANE.format("shop"), "shop"),
        ("/", "shop", PLANE.format("shop"), "shop"),
        ("/milo", "shop", "/milo" + PLANE.format("shop"), "shop"),
        (PLANE.format("demo"), None, PLANE.format("demo"), "demo"),
        (PLANE.format("demo"), "demo", PLANE.format("demo"), "demo"),
        (PLANE.format("demo"), "shop", PLANE.format("shop"), "shop"),
        (PLANE.format("demo") + "/", "shop", PLANE.format("shop"), "shop"),
        ("/milo" + PLANE.format("demo"), "dem", "/milo" + PLANE.format("dem"), "dem"),
    ],
)
@pytest.mark.parametrize("given_by", ["server", "kubeconfig"])
def test_the_project_is_the_one_that_is_named_else_that_of_the_server(
    tmp_path: Path, given_by: str, path: str, project: str | None, expected: str, named: str
) -> None:
    server = f"https://api.example.com{path}"
    flags: dict[str, Any] = {"server": server, "token": "t", "project": project}
    if given_by == "kubeconfig":
        file = tmp_path / "config"
        file.write_text(render(server=server, ca_pem=b"", token="t", name="here", user="u"))
        flags = {"kubeconfig": str(file), "project": project}

    target = found(flags)

    assert (target.connection.prefix, target.project) == (expected, named)


@pytest.mark.parametrize(
    "path",
    [
        "/clusters/hub",
        "/clusters/dfw",
        "/apis/resourcemanager.miloapis.com/v1alpha1/organizations/acme/control-plane",
    ],
)
def test_a_project_is_refused_where_the_server_has_none(path: str) -> None:
    with pytest.raises(CommandError, match=r'--project "demo": https://api.example.com/.* has no'):
        found({**SERVER, "server": f"https://api.example.com{path}"})


def test_the_root_plane_is_derived_from_the_project_plane() -> None:
    assert found(SERVER).root() is not None
    assert (
        ProjectTarget("demo", found(SERVER).connection._replace(prefix="/elsewhere")).root() is None
    )
