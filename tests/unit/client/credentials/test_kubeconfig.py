"""From a kubeconfig or a pod's files to a connection."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from datum_compute.client import errors, kubeconfig
from datum_compute.client.auth.credentials import TokenFile, credential_of
from datum_compute.client.kubeconfig import Connection, KubeconfigError
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.client.socket_server import self_signed

CLUSTER: dict[str, Any] = {"server": "https://api.example.com:6443"}
USER: dict[str, Any] = {"token": "secret"}


def content(cluster: Any = None, user: Any = None, **context: Any) -> dict[str, Any]:
    return {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": CLUSTER if cluster is None else cluster}],
        "users": [{"name": "u", "user": USER if user is None else user}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", **context}},
            {"name": "there", "context": {"cluster": "c", "namespace": "far"}},
        ],
    }


def written(directory: Path, values: Any) -> Path:
    path = directory / "config"
    path.write_text(yaml.safe_dump(values))
    return path


def loaded(directory: Path, context: str = "", **values: Any) -> Connection:
    return kubeconfig.load(written(directory, content(**values)), context)


def token_of(connection: Connection) -> str:
    identity = credential_of(connection.token).cached()
    assert identity is not None
    return identity.token


def test_the_current_context_is_the_default(tmp_path: Path) -> None:
    connection = loaded(tmp_path)

    assert connection.name == "here"
    assert (connection.origin, connection.prefix) == ("https://api.example.com:6443", "")
    assert connection.namespace == "default"
    assert token_of(connection) == "secret"


def test_a_context_can_be_named(tmp_path: Path) -> None:
    connection = loaded(tmp_path, "there")

    assert (connection.name, connection.namespace) == ("there", "far")
    assert token_of(connection) == ""


def test_the_path_of_a_server_becomes_the_prefix(tmp_path: Path) -> None:
    server = "https://api.example.com/apis/resourcemanager.miloapis.com/v1alpha1/projects/p/"

    connection = loaded(tmp_path, cluster={"server": server + "control-plane/"})

    assert connection.origin == "https://api.example.com"
    assert connection.prefix.endswith("/projects/p/control-plane")


def test_inline_data_and_files_give_the_same_connection(tmp_path: Path) -> None:
    identity = self_signed("me")
    (tmp_path / "pem").mkdir()
    for name, data in (("ca", b"ca pem"), ("crt", identity.certificate_pem), ("key", b"k")):
        (tmp_path / "pem" / name).write_bytes(data)

    def encoded(data: bytes) -> str:
        return base64.b64encode(data).decode()

    by_file = loaded(
        tmp_path,
        cluster={**CLUSTER, "certificate-authority": "pem/ca"},
        user={"client-certificate": str(tmp_path / "pem" / "crt"), "client-key": "pem/key"},
    )
    by_data = loaded(
        tmp_path,
        cluster={**CLUSTER, "certificate-authority-data": encoded(b"ca pem")},
        user={
            "client-certificate-data": encoded(identity.certificate_pem),
            "client-key-data": encoded(b"k"),
        },
    )

    assert by_file == by_data
    assert by_file.ca_pem == b"ca pem"
    assert (by_file.certificate_pem, by_file.key_pem) == (identity.certificate_pem, b"k")


def test_the_other_settings_are_read(tmp_path: Path) -> None:
    connection = loaded(
        tmp_path,
        cluster={
            **CLUSTER,
            "insecure-skip-tls-verify": True,
            "tls-server-name": "inner.example.com",
            "proxy-url": "http://proxy.example.com:3128",
        },
    )

    assert connection.insecure
    assert connection.server_hostname == "inner.example.com"
    assert connection.proxy == "http://proxy.example.com:3128"


def test_a_token_file_wins_and_is_read_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    connection = loaded(tmp_path, user={"token": "fixed", "tokenFile": "token"})

    assert token_of(connection) == "first"
    replacement = tmp_path / "new"
    replacement.write_text("second, and longer\n")
    replacement.rename(file)
    assert token_of(connection) == "second, and longer"
    file.unlink()
    assert token_of(connection) == "second, and longer"


def test_a_missing_token_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(errors.CredentialFailed, match="token"):
        TokenFile(tmp_path / "missing")()
    with pytest.raises(KubeconfigError):
        loaded(tmp_path, user={"tokenFile": "missing"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("exec", {"command": "helper", "apiVersion": "client.authentication.k8s.io/v1"}),
        ("auth-provider", {"name": "oidc"}),
        ("username", "me"),
        ("as", "another-user"),
    ],
)
def test_unsupported_user_entries_are_an_error(tmp_path: Path, key: str, value: Any) -> None:
    with pytest.raises(KubeconfigError, match=rf"user 'u' uses .* \({key}\).*not supported"):
        loaded(tmp_path, user={"token": "secret", key: value})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"current-context": ""}, "no current-context"),
        ({"current-context": "nowhere"}, "context 'nowhere' is not defined; contexts: 'here'"),
        ({"clusters": []}, "cluster 'c' is not defined; clusters: none"),
        ({"clusters": "c"}, "clusters is not a list"),
        ({"users": [{"name": "other"}]}, "user 'u' is not defined"),
        ({"clusters": [{"name": "c", "cluster": "x"}]}, "cluster 'c' is not a mapping"),
        ({"clusters": [{"name": "c", "cluster": {}}]}, "no usable server: ''"),
    ],
)
def test_a_broken_file_is_reported_with_its_fault(
    tmp_path: Path, values: Any, message: str
) -> None:
    path = written(tmp_path, {**content(), **values})

    with pytest.raises(KubeconfigError, match=message) as caught:
        kubeconfig.load(path)

    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "server",
    [
        "api.example.com",
        "ftp://api.example.com",
        "https://",
        "https://u:p@api.example.com",
        "https://api.example.com:port",
        "https://api.example.com/?q=1",
    ],
)
def test_a_server_must_be_a_url(tmp_path: Path, server: str) -> None:
    with pytest.raises(KubeconfigError, match="no usable server"):
        loaded(tmp_path, cluster={"server": server})


@pytest.mark.parametrize("text", ["{", "- a\n", "", "a: [", "\x00"])
def test_a_file_that_is_no_kubeconfig_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)

    with pytest.raises(KubeconfigError):
        kubeconfig.load(path)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="cannot read"):
        kubeconfig.load(tmp_path / "missing")
    expected = f"cannot read certificate-authority {tmp_path}/missing: No such file or directory"
    with pytest.raises(KubeconfigError, match=expected):
        loaded(tmp_path, cluster={**CLUSTER, "certificate-authority": "missing"})
    with pytest.raises(KubeconfigError, match=r"certificate-authority-data is not base64$"):
        loaded(tmp_path, cluster={**CLUSTER, "certificate-authority-data": "%%%"})


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"a: 0b_", "not YAML: a value is not of the type that it is marked or looks like"),
        (b"a: !!bool x", "not YAML: a value is not of the type that it is marked or looks like"),
        (b"\xff", "not a UTF-8 text file"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_without_pythons_words(
    tmp_path: Path, content: bytes, fault: str
) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)

    with pytest.raises(KubeconfigError, match=f"{path}: {fault}$"):
        kubeconfig.load(path)


def test_unusable_certificates_are_named(tmp_path: Path) -> None:
    connection = loaded(tmp_path, cluster={**CLUSTER, "certificate-authority-data": "bm9uZQ=="})

    with pytest.raises(KubeconfigError, match="here: unusable certificate data"):
        connection.tls()


def test_a_rendered_kubeconfig_loads_as_written(tmp_path: Path) -> None:
    ca_pem = self_signed("127.0.0.1").certificate_pem
    text = kubeconfig.render(
        server="https://127.0.0.1:7443/clusters/hub",
        ca_pem=ca_pem,
        token='a: "token" #\n',
        name="project/demo",
        user="local-admin",
    )
    path = tmp_path / "config"
    path.write_text(text)

    connection = kubeconfig.load(path)

    assert connection.name == "project/demo"
    assert (connection.origin, connection.prefix) == ("https://127.0.0.1:7443", "/clusters/hub")
    assert (connection.ca_pem, connection.token) == (ca_pem, 'a: "token" #\n')
    assert connection.namespace == "default"
    assert yaml.safe_load(text)["users"][0]["name"] == "local-admin"


def test_a_connection_does_not_show_its_credentials(tmp_path: Path) -> None:
    connection = loaded(tmp_path)

    assert repr(connection) == "<Connection here https://api.example.com:6443>"
    assert "secret" not in f"{connection} {connection!r}"


def account(directory: Path) -> Path:
    (directory / "ca.crt").write_bytes(b"ca pem")
    (directory / "namespace").write_text("system\n")
    (directory / "token").write_text("pod token\n")
    return directory


@pytest.mark.parametrize(
    ("host", "port", "origin"),
    [
        ("10.0.0.1", "6443", "https://10.0.0.1:6443"),
        ("10.0.0.1", None, "https://10.0.0.1:443"),
        ("fd00::1", "443", "https://[fd00::1]:443"),
    ],
)
def test_a_pod_finds_its_own_cluster(
    tmp_path: Path, host: str, port: str | None, origin: str
) -> None:
    variables = {"KUBERNETES_SERVICE_HOST": host}
    if port:
        variables["KUBERNETES_SERVICE_PORT"] = port

    connection = kubeconfig.in_cluster(SimulatedEnvironment(variables=variables), account(tmp_path))

    assert connection.origin == origin
    assert (connection.ca_pem, connection.namespace) == (b"ca pem", "system")
    assert token_of(connection) == "pod token"


def test_outside_a_pod_there_is_no_own_cluster(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="KUBERNETES_SERVICE_HOST"):
        kubeconfig.in_cluster(SimulatedEnvironment(), account(tmp_path))
    with pytest.raises(KubeconfigError, match="service account"):
        kubeconfig.in_cluster(
            SimulatedEnvironment(variables={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}),
            tmp_path / "missing",
        )


def test_json_is_read_without_the_yaml_library(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text('{"current-context": "a", "contexts": [{"name": "a", "context": {}}]}')
    program = (
        "import sys; from datum_compute.client import kubeconfig\n"
        f"try: kubeconfig.load({str(path)!r})\n"
        "except kubeconfig.KubeconfigError as e: print(e)\n"
        "print(sorted({'yaml', 'httptools', 'msgspec', 'asyncio'} & set(sys.modules)))"
    )

    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    )

    assert "cluster '' is not defined" in result.stdout
    assert result.stdout.endswith("[]\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [b\nc: d\n", "not YAML: line 2, column 2"),
        ("{{{", "not YAML: line 1, column 4"),
        ("[" * 3000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
    ],
    ids=["a list that does not end", "braces", "deep", "deep as JSON"],
)
def test_an_unreadable_file_is_reported_in_one_line(
    text: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    path.write_text(text)

    with pytest.raises(KubeconfigError) as caught:
        kubeconfig.load(path)

    assert f"{path}: " in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
