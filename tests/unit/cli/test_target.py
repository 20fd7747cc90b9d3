"""The server of a command, and its retries."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from datum_compute.api.planes import PLANE_TYPES, PROJECT, ROOT, split_project_path
from datum_compute.assembly.local.state import RunningPlatform, StateDirectory
from datum_compute.cli.errors import CommandError
from datum_compute.cli.target import ProjectTarget, find_target
from datum_compute.cli.targets.stored_contexts import ContextFile, StoredContext, change, path_of
from datum_compute.client.auth.credentials import ClientIdentity, credential_of
from datum_compute.client.kubeconfig import render
from datum_compute.client.retry import RetryPolicy
from datum_compute.testing.environment import SimulatedEnvironment

FLAGS: dict[str, Any] = dict.fromkeys(
    (
        "project",
        "token",
        "token_file",
        "kubeconfig",
        "context",
        "server",
        "certificate_authority",
        "data_dir",
    )
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
        *(each.path.format("dfw") for each in PLANE_TYPES if each not in (ROOT, PROJECT)),
        "/apis/resourcemanager.miloapis.com/v1alpha1/organizations/acme/control-plane",
    ],
)
def test_a_project_is_refused_where_the_server_has_none(path: str) -> None:
    with pytest.raises(CommandError, match=r'project "demo": https://api.example.com/.* has no'):
        found({**SERVER, "server": f"https://api.example.com{path}"})


LOCAL = "https://127.0.0.1:7443"


@dataclass
class Sources:
    """Every source of a target, each with a server and a token of its own."""

    directory: Path

    def kubeconfig(self, name: str, path: str = "", token: str | None = None) -> str:
        file = self.directory / name
        server, known = f"https://{name}.example{path}", f"{name}-token" if token is None else token
        file.write_text(render(server=server, ca_pem=b"", token=known, name=name, user="u"))
        return str(file)

    def token_file(self, token: str) -> str:
        file = self.directory / f"{token}.txt"
        file.write_text(f"{token}\n")
        return str(file)

    def stored(self, *, current: str) -> None:
        contexts = {
            "shop": StoredContext(
                "shop",
                server="https://stored.example",
                token_file=self.token_file("stored-token"),
                project="shop",
            ),
            "here": StoredContext("here", data_dir=str(self.directory / "state"), project="mine"),
            "kube": StoredContext("kube", kubeconfig=self.kubeconfig("kube"), project="theirs"),
        }
        change(self.env(), lambda _: ContextFile(current, contexts))

    def env(self, **variables: str) -> SimulatedEnvironment:
        own = {"XDG_CONFIG_HOME": str(self.directory / "config"), "HOME": str(self.directory)}
        state = {"XDG_STATE_HOME": str(self.directory / "states")}
        return SimulatedEnvironment(variables={**own, **state, **variables})

    def find(self, flags: dict[str, Any], **variables: str) -> ProjectTarget:
        return find_target(self.env(**variables), Namespace(**{**FLAGS, **flags}))


@pytest.fixture
def sources(tmp_path: Path) -> Iterator[Sources]:
    """With a running local platform, in the default directory and in ``state``."""
    with ExitStack() as held:
        for directory in (tmp_path / "states" / "datum-compute", tmp_path / "state"):
            state = StateDirectory(directory)
            state.create()
            held.enter_context(state.hold())
            state.announce(RunningPlatform(1, LOCAL, "demo", "2026-01-01T00:00:00"))
            state.certificate_authority.write_bytes(b"")
            (directory / "token").write_text("admin-token\n")
        yield Sources(tmp_path)


def outcome(target: ProjectTarget) -> tuple[str, str, str]:
    """The server, the project whose plane it is, and the token."""
    base, project = split_project_path(target.connection.prefix)
    assert target.project == project or not project
    token = credential_of(target.connection.token).fetch_blocking().token
    return target.connection.origin + base, project, token


PLUGIN = {"DATUM_API_HOST": "plugin.example", "DATUM_PROJECT": "plug", "DATUM_TOKEN": "env-token"}
PRECEDENCE: list[tuple[str, dict[str, str], dict[str, str], tuple[str, str, str]]] = [
    # current context, flags, variables -> server, project, token
    ("shop", {"kubeconfig": "flag", "project": "p"}, {**PLUGIN, "KUBECONFIG": "kc"},
     ("https://flag.example", "p", "flag-token")),
    ("shop", {"kubeconfig": "flag"}, {**PLUGIN}, ("https://flag.example", "plug", "flag-token")),
    ("shop", {"kubeconfig": "flag", "token": "t"}, {**PLUGIN},
     ("https://flag.example", "plug", "t")),
    ("shop", {"server": "https://s.example", "project": "p"}, {**PLUGIN},
     ("https://s.example", "p", "env-token")),
    ("shop", {"server": "https://s.example"}, {**PLUGIN},
     ("https://s.example", "plug", "env-token")),
    ("shop", {"data_dir": "state"}, {"KUBECONFIG": "kc"}, (LOCAL, "demo", "admin-token")),
    ("", {"context": "shop"}, {**PLUGIN, "KUBECONFIG": "kc"},
     ("https://stored.example", "shop", "stored-token")),
    ("shop", {"context": "kc"}, {"KUBECONFIG": "kc", "DATUM_PROJECT": "p"},
     ("https://kc.example", "p", "kc-token")),
    ("shop", {}, {**PLUGIN, "KUBECONFIG": "kc"}, ("https://plugin.example", "plug", "env-token")),
    ("shop", {"token": "t", "project": "p"}, {**PLUGIN}, ("https://plugin.example", "p", "t")),
    ("shop", {}, {"KUBECONFIG": "kc"}, ("https://stored.example", "shop", "stored-token")),
    ("shop", {"project": "p", "token": "t"}, {"DATUM_PROJECT": "x"},
     ("https://stored.example", "p", "t")),
    ("shop", {}, {"DATUM_PROJECT": "x", "DATUM_TOKEN": "y"},
     ("https://stored.example", "x", "stored-token")),
    ("here", {}, {"KUBECONFIG": "kc"}, (LOCAL, "mine", "admin-token")),
    ("kube", {}, {}, ("https://kube.example", "theirs", "kube-token")),
    ("", {}, {"KUBECONFIG": "kc"}, ("https://kc.example", "", "kc-token")),
    ("", {"project": "p", "token": "t"}, {"KUBECONFIG": "kc"}, ("https://kc.example", "p", "t")),
    ("", {}, {"KUBECONFIG": ""}, (LOCAL, "demo", "admin-token")),
    ("", {}, {}, (LOCAL, "demo", "admin-token")),
    ("", {"project": "p"}, {"DATUM_PROJECT": "x"}, (LOCAL, "p", "admin-token")),
    ("", {}, {"DATUM_PROJECT": "x", "DATUM_TOKEN": "y"}, (LOCAL, "x", "y")),
    ("", {"token": "t"}, {"DATUM_TOKEN": "y"}, (LOCAL, "demo", "t")),
    ("", {"token_file": "f"}, {"DATUM_TOKEN": "y"}, (LOCAL, "demo", "f")),
    ("", {}, {"DATUM_TOKEN_FILE": "f"}, (LOCAL, "demo", "f")),
    ("", {}, {"DATUM_TOKEN": "y", "DATUM_TOKEN_FILE": "f"}, (LOCAL, "demo", "y")),
]  # fmt: skip


@pytest.mark.parametrize(("current", "flags", "variables", "expected"), PRECEDENCE)
def test_flags_come_before_variables_before_the_context_before_a_local_platform(
    sources: Sources,
    current: str,
    flags: dict[str, str],
    variables: dict[str, str],
    expected: tuple[str, str, str],
) -> None:
    paths: dict[str, Callable[[str], str]] = {
        "kubeconfig": sources.kubeconfig,
        "KUBECONFIG": lambda name: sources.kubeconfig(name) if name else "",
        "token_file": sources.token_file,
        "DATUM_TOKEN_FILE": sources.token_file,
        "data_dir": lambda name: str(sources.directory / name),
    }

    def resolve(given: dict[str, str]) -> dict[str, str]:
        return {key: paths.get(key, str)(value) for key, value in given.items()}

    sources.stored(current=current)

    target = sources.find(resolve(flags), **resolve(variables))

    assert outcome(target) == expected
    assert target.source
    assert target.credential


@pytest.mark.parametrize(
    ("flags", "variables", "message"),
    [
        ({"kubeconfig": "a", "server": "b"}, {}, "--kubeconfig and --server cannot be combined"),
        ({"server": "b", "data_dir": "c"}, {}, "--server and --data-dir cannot be combined"),
        ({"token": "a", "token_file": "b"}, {}, "--token and --token-file cannot be combined"),
        ({"context": "a", "server": "b"}, {}, "--context cannot be combined with --server"),
        ({"context": "a", "data_dir": "b"}, {}, "--context cannot be combined with --data-dir"),
        ({"context": "nosuch"}, {}, '--context "nosuch": no context has this name .contexts: here'),
        ({"token": ""}, {}, "--token: expected a token"),
        ({"token": "a\tb"}, {}, "--token: contains characters"),
        (
            {"token_file": "/nosuch"},
            {},
            "--token-file: cannot read the token in /nosuch: No such file or directory",
        ),
        ({}, {"DATUM_TOKEN": "a\tb"}, "DATUM_TOKEN: contains characters"),
        ({}, {"DATUM_TOKEN_FILE": "/nosuch"}, "DATUM_TOKEN_FILE: cannot read"),
        ({}, {"DATUM_PROJECT": "No"}, 'DATUM_PROJECT "No": expected lower-case'),
        ({}, {"KUBECONFIG": "/nosuch"}, "KUBECONFIG: cannot read /nosuch"),
        ({}, {"KUBECONFIG": "/nosuch:/neither"}, "KUBECONFIG: cannot read /nosuch"),
        ({"server": "https://s.example", "project": "p"}, {}, "--server needs a token"),
        ({"server": "https://s.example", "token": "p"}, {}, "--server needs --project"),
    ],
)
def test_what_cannot_be_honoured_is_refused(
    sources: Sources, flags: dict[str, str], variables: dict[str, str], message: str
) -> None:
    sources.stored(current="")

    with pytest.raises(CommandError, match=f"^{message}") as refused:
        sources.find(flags, **variables)

    assert refused.value.exit_code == 2


def test_a_damaged_file_of_contexts_is_named_and_never_ignored(sources: Sources) -> None:
    sources.stored(current="shop")
    path = Path(path_of(sources.env()))
    whole = path.read_text()
    damaged = [
        "",
        whole[:-20],
        "[]",
        '{"contexts": []}',
        '{"current": "x", "contexts": {}}',
        '{"contexts": {"a": {"server": 1}}}',
        '{"contexts": {"a": {}}}',
        '{"contexts": {"a": {"server": "s", "dataDir": "d"}}}',
        '{"contexts": {"a": {"server": "s", "token": "t"}}}',
    ]
    for text in damaged:
        path.write_text(text)
        with pytest.raises(CommandError) as refused:
            sources.find({})
        assert str(refused.value).startswith(f"{path} cannot be used: "), text
    for content, fault in {
        b"{": "not valid JSON at line 1, column 2",
        b"\xff": "not a UTF-8 text file",
        b'{"current": null, "contexts": {}}': "current names null, which is not one of its"
        " contexts",
        b"[" * 100_000: "nested too deeply",
    }.items():
        path.write_bytes(content)
        with pytest.raises(CommandError) as refused:
            sources.find({})
        assert str(refused.value) == f"{path} cannot be used: {fault}"
    assert outcome(sources.find({"data_dir": str(sources.directory / "state")}))[0] == LOCAL


def test_the_file_of_contexts_is_private_and_replaced_whole(sources: Sources) -> None:
    sources.stored(current="shop")
    path = Path(path_of(sources.env()))

    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert "stored-token" not in path.read_text().replace("stored-token.txt", "")
    before = path.stat().st_ino
    change(sources.env(), lambda found: found._replace(current=""))
    assert path.stat().st_ino != before


def test_files_of_kubeconfig_are_merged_as_kubectl_does(tmp_path: Path) -> None:
    """The first file wins, a missing file is skipped, and paths are relative to their file."""
    first, second = tmp_path / "a" / "config", tmp_path / "b" / "config"
    for file in (first, second):
        file.parent.mkdir()
    (second.parent / "token").write_text("from-b\n")
    first.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "c", "cluster": {"server": "https://first.example"}}],
                "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )
    second.write_text(
        yaml.safe_dump(
            {
                "current-context": "one",
                "clusters": [{"name": "c", "cluster": {"server": "https://second.example"}}],
                "users": [{"name": "u", "user": {"tokenFile": "token"}}],
                "contexts": [{"name": "one", "context": {"cluster": "c", "user": "other"}}],
            }
        )
    )
    files = os.pathsep.join([str(first), str(tmp_path / "missing"), "", str(second)])

    target = found({}, KUBECONFIG=files, HOME=str(tmp_path))

    assert outcome(target) == ("https://first.example", "", "from-b")


def test_the_root_plane_is_derived_from_the_project_plane() -> None:
    assert found(SERVER).root() is not None
    assert (
        ProjectTarget("demo", found(SERVER).connection._replace(prefix="/elsewhere")).root() is None
    )
