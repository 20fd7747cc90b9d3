"""Where a command talks to, and with how much patience."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import yaml

from datum_compute.cli.errors import CommandError
from datum_compute.cli.target import Target, find_target
from datum_compute.client.credentials import Identity
from datum_compute.client.retry import RetryPolicy
from datum_compute.testing.environment import SimulatedEnvironment

FLAGS: dict[str, Any] = dict.fromkeys(
    ("project", "token", "kubeconfig", "context", "server", "certificate_authority", "data_dir")
)
SERVER = {"server": "api.example.com", "project": "demo", "token": "t"}


def found(flags: dict[str, Any], **variables: str) -> Target:
    env = SimulatedEnvironment(variables=variables)
    return find_target(env, Namespace(**{**FLAGS, **flags}))


def test_a_kubeconfig_of_one_s_own_may_name_a_credential_program(tmp_path: Path) -> None:
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

    assert token.fetch_now() == Identity("handed-on")


@pytest.mark.parametrize(
    ("flags", "variables"),
    [
        (SERVER, {}),
        ({"token": "t"}, {"DATUM_API_HOST": "api.example.com", "DATUM_PROJECT": "demo"}),
    ],
)
def test_the_environment_s_proxy_is_used(flags: dict[str, Any], variables: dict[str, str]) -> None:
    proxied = found(flags, HTTPS_PROXY="http://proxy:3128", **variables)
    excepted = found(flags, HTTPS_PROXY="http://proxy:3128", NO_PROXY="example.com", **variables)

    assert proxied.connection.proxy == "http://proxy:3128"
    assert excepted.connection.proxy == ""


def test_a_proxy_that_cannot_be_used_is_a_usage_error() -> None:
    with pytest.raises(CommandError, match="HTTPS_PROXY: 'socks5' proxies are not supported"):
        found(SERVER, HTTPS_PROXY="socks5://proxy")


def test_a_person_s_calls_are_tried_again() -> None:
    target = found(SERVER)

    assert isinstance(target.retries, RetryPolicy)
    assert target.reader()._retries is target.retries
