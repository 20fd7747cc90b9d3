"""Which proxy is chosen, and requests through a real one."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from datum_compute.cli.quick.connect import reader_for
from datum_compute.client import connect, errors, kubeconfig
from datum_compute.client.http.proxy import checked_proxy, proxy_from_environment
from datum_compute.client.kubeconfig import Connection, KubeconfigError
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.client import socket_server
from tests.support.client.scripted_server import REALMS, WIDGET, encode
from tests.support.client.socket_server import self_signed, serve_script

API = "https://api.example.com:6443"


def chosen(origin: str, **variables: str) -> str:
    return proxy_from_environment(origin, variables.get)


@pytest.mark.parametrize(
    ("origin", "variables", "expected"),
    [
        (API, {}, ""),
        (API, {"HTTPS_PROXY": "http://p:3128"}, "http://p:3128"),
        (API, {"https_proxy": "http://p:3128"}, "http://p:3128"),
        (API, {"HTTPS_PROXY": "http://up", "https_proxy": "http://low"}, "http://up"),
        (API, {"HTTPS_PROXY": "p:3128"}, "http://p:3128"),
        (API, {"HTTPS_PROXY": " http://p:3128/ "}, "http://p:3128"),
        (API, {"HTTP_PROXY": "http://p"}, ""),
        ("http://api.example.com", {"HTTP_PROXY": "http://p"}, "http://p"),
        ("http://api.example.com", {"HTTPS_PROXY": "http://p"}, ""),
        ("https://localhost:6443", {"HTTPS_PROXY": "http://p"}, ""),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://p"}, ""),
        ("https://127.64.0.9", {"HTTPS_PROXY": "http://p"}, ""),
        ("https://[::1]:6443", {"HTTPS_PROXY": "http://p"}, ""),
    ],
)
def test_the_proxy_is_chosen_by_environment_variables(
    origin: str, variables: dict[str, str], expected: str
) -> None:
    assert chosen(origin, **variables) == expected


@pytest.mark.parametrize(
    ("origin", "exceptions", "excepted"),
    [
        (API, "*", True),
        (API, "api.example.com", True),
        (API, "API.Example.com", True),
        (API, "example.com", True),
        (API, ".example.com", True),
        (API, "*.example.com", True),
        (API, "other.com, example.com ,", True),
        (API, "api.example.com:6443", True),
        (API, "api.example.com:443", False),
        (API, "ample.com", False),
        (API, "sub.api.example.com", False),
        ("https://example.com", ".example.com", False),
        ("https://example.com", "example.com:443", True),
        ("https://10.1.2.3:6443", "10.0.0.0/8", True),
        ("https://10.1.2.3:6443", "10.1.2.3", True),
        ("https://10.1.2.3:6443", "10.1.2.3:6443", True),
        ("https://10.1.2.3:6443", "10.1.2.4", False),
        ("https://10.1.2.3:6443", "192.168.0.0/16", False),
        ("https://10.1.2.3:6443", "10.0.0.0/99", False),
        ("https://10.1.2.3:6443", "2.3", False),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
        ("https://[fd00::1]:6443", "fd00::1", True),
        (API, "", False),
    ],
)
def test_no_proxy_excludes_hosts(origin: str, exceptions: str, excepted: bool) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        found = chosen(origin, HTTPS_PROXY="http://p", **{name: exceptions})
        assert found == ("" if excepted else "http://p")


@pytest.mark.parametrize("url", ["socks5://p:1080", "https://p", "http://", "http://p:0x", "://"])
def test_an_unusable_proxy_is_an_error(tmp_path: Path, url: str) -> None:
    with pytest.raises(ValueError, match="expected http://HOST"):
        checked_proxy(url)
    with pytest.raises(KubeconfigError, match=r"HTTPS_PROXY: .*expected http://HOST"):
        loaded(tmp_path, HTTPS_PROXY=url)
    with pytest.raises(KubeconfigError, match=r"config: proxy-url: .*expected http://HOST"):
        loaded(tmp_path, {"proxy-url": url})


def test_a_refused_proxy_does_not_show_its_password() -> None:
    with pytest.raises(ValueError, match="not supported") as caught:
        checked_proxy("socks5://me:secret@p:1080")

    assert "secret" not in str(caught.value)


def loaded(directory: Path, cluster: dict[str, Any] | None = None, **variables: str) -> Connection:
    file = directory / "config"
    content = {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": API, **(cluster or {})}}],
        "contexts": [{"name": "here", "context": {"cluster": "c"}}],
    }
    file.write_text(yaml.safe_dump(content))
    return kubeconfig.load(file, env=SimulatedEnvironment(variables=variables))


def test_the_proxy_of_a_kubeconfig_wins_over_the_environment(tmp_path: Path) -> None:
    variables = {"HTTPS_PROXY": "http://env", "NO_PROXY": "*"}

    assert loaded(tmp_path, HTTPS_PROXY="http://env").proxy == "http://env"
    assert loaded(tmp_path, {"proxy-url": "http://file"}, **variables).proxy == "http://file"
    assert loaded(tmp_path, None, **variables).proxy == ""


def test_the_proxy_of_a_pod_comes_from_its_environment(tmp_path: Path) -> None:
    for name in ("ca.crt", "namespace", "token"):
        (tmp_path / name).write_text(name)
    variables = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HTTPS_PROXY": "http://p"}

    connection = kubeconfig.in_cluster(SimulatedEnvironment(variables=variables), tmp_path)

    assert connection.proxy == "http://p"


@dataclass
class Proxy:
    """A small proxy that connects every name to one server."""

    server_port: int
    password: str = ""
    requests: list[str] = field(default_factory=list)

    async def __call__(self, connection: socket_server.ServedConnection) -> None:
        while head := await connection.request():
            self.requests.append(f"{head.method} {head.target}")
            wanted = base64.b64encode(self.password.encode()).decode()
            if self.password and head.headers.get("proxy-authorization") != f"Basic {wanted}":
                await connection.answer(b"", "407 Proxy Authentication Required")
            elif head.method != "CONNECT":
                await connection.answer(encode(WIDGET))
            else:
                await connection.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await self._pass_on(connection)
                return

    async def _pass_on(self, connection: socket_server.ServedConnection) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server_port)
        try:
            await asyncio.gather(_copy(connection.reader, writer), _copy(reader, connection.writer))
        finally:
            writer.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(2**16):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


@dataclass
class Route:
    proxy: Proxy
    connection: Connection
    heads: list[socket_server.RequestHead]


@asynccontextmanager
async def route(directory: Path, password: str = "") -> AsyncIterator[Route]:
    """A server that only the proxy reaches: its name has no address."""
    identity = self_signed("api.example.com")
    heads: list[socket_server.RequestHead] = []

    async def server(connection: socket_server.ServedConnection) -> None:
        while head := await connection.request():
            heads.append(head)
            await connection.answer(encode(WIDGET))

    async with serve_script(server, identity.server_context()) as server_port:
        proxy = Proxy(server_port, password)
        async with serve_script(proxy) as port:
            (directory / "ca.crt").write_bytes(identity.certificate_pem)
            user = f"{password}@".replace("/", "%2F") if password else ""
            url = f"http://{user}127.0.0.1:{port}"
            connection = loaded(directory, {"certificate-authority": "ca.crt"}, HTTPS_PROXY=url)
            yield Route(proxy, connection, heads)


async def through(connection: Connection) -> list[Any]:
    """What the client gets, and what the reader gets."""
    client, reader = connect.client_for(connection), reader_for(connection)
    try:
        found: list[Any] = [(await client.get(REALMS, "one")).name]
        read = await asyncio.to_thread(reader.get, REALMS, "one")
        return [*found, read["metadata"]["name"]]
    finally:
        await client.close()
        reader.close()


@pytest.mark.realtime
@pytest.mark.parametrize("password", ["", "me:secret", "me:se/cret"])
async def test_a_server_is_reached_through_a_proxy(tmp_path: Path, password: str) -> None:
    async with route(tmp_path, password) as way:
        assert await through(way.connection) == ["one", "one"]

    assert set(way.proxy.requests) == {"CONNECT api.example.com:6443"}
    assert {head.headers["host"] for head in way.heads} == {"api.example.com:6443"}
    assert all("proxy-authorization" not in head.headers for head in way.heads)


@pytest.mark.realtime
async def test_a_proxy_that_refuses_is_a_failed_connect(tmp_path: Path) -> None:
    async with route(tmp_path, "me:secret") as way:
        port = way.connection.proxy.rpartition(":")[2]
        wrong = Connection(
            name="wrong",
            origin=API,
            ca_pem=way.connection.ca_pem,
            token="bearer-secret",
            proxy=f"http://me:mistaken@127.0.0.1:{port}",
        )
        client, reader = connect.client_for(wrong), reader_for(wrong)
        failures = []
        for call in (
            lambda: client.get(REALMS, "one"),
            lambda: asyncio.to_thread(reader.get, REALMS, "one"),
        ):
            with pytest.raises(errors.ConnectFailed) as caught:
                await call()
            failures.append(str(caught.value))
        await client.close()

    assert way.heads == []
    for text in failures:
        assert "407" in text
        assert "mistaken" not in text


@pytest.mark.realtime
async def test_without_tls_the_proxy_receives_the_absolute_url() -> None:
    proxy = Proxy(0, "me:secret")
    async with serve_script(proxy) as port:
        url = f"http://me:secret@127.0.0.1:{port}"
        plain = Connection(name="plain", origin="http://api.example.com", proxy=url)
        assert await through(plain) == ["one", "one"]

    path = "http://api.example.com/apis/toys.example.com/v1/realms/one"
    assert proxy.requests == [f"GET {path}"] * 2
